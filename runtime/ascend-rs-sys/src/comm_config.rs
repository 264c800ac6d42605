//! The start value of a communicator's configuration, which HCCL gives only as an inline function of its header.

use crate::types::{
    HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET, HCCL_COMM_CONFIG_MAGIC_WORD, HCCL_COMM_CONFIG_VERSION,
    HCCL_COMM_DEFAULT_OP_EXPANSION_MODE, HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET,
    HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET, HCCL_COMM_QOS_CONFIG_NOT_SET,
    HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET, HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET,
    HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE, HcclCommConfig,
};
use std::ffi::c_char;

impl HcclCommConfig {
    /// A configuration that leaves everything to HCCL: what C's `HcclCommConfigInit` makes, with texts all zero.
    ///
    /// Its first 24 bytes are the size (`size_t`), a magic number and the version (both `uint32_t`), and 8 bytes of zero. A
    /// library whose own version is lower reads fewer members: `HcclGetCommConfigCapability` tells which.
    pub fn unset() -> Self {
        let mut head = [0u8; 24];
        head[..8].copy_from_slice(&size_of::<Self>().to_ne_bytes());
        head[8..12].copy_from_slice(&HCCL_COMM_CONFIG_MAGIC_WORD.to_ne_bytes());
        head[12..16].copy_from_slice(&HCCL_COMM_CONFIG_VERSION.to_ne_bytes());
        Self {
            reserved: head.map(|byte| byte as c_char),
            hcclBufferSize: HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET,
            hcclDeterministic: HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET,
            hcclCommName: [0; 128],
            hcclUdi: [0; 128],
            hcclOpExpansionMode: HCCL_COMM_DEFAULT_OP_EXPANSION_MODE,
            hcclRdmaTrafficClass: HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET,
            hcclRdmaServiceLevel: HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET,
            hcclWorldRankID: 0,
            hcclJobID: 0,
            aclGraphZeroCopyEnable: 0,
            hcclExecTimeOut: HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET,
            hcclAlgo: [0; 1600],
            hcclRetryEnable: [0; 50],
            hcclRetryParams: [0; 128],
            hcclBufferName: [0; 128],
            hcclQos: HCCL_COMM_QOS_CONFIG_NOT_SET,
            hcclSymWinMaxMemSizePerRank: HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    /// Bytes measured by running the vendor's function on memory full of a pattern: (from, to, value). What it leaves alone
    /// is not listed.
    const MEASURED: [(usize, usize, u8); 17] = [
        (0, 1, 0xc0),
        (1, 2, 0x08),
        (2, 8, 0),
        (8, 12, 0xf0),
        (12, 13, 10),
        (13, 24, 0),
        (24, 32, 0xff),
        (32, 33, 0),
        (160, 161, 0),
        (288, 292, 0),
        (292, 300, 0xff),
        (300, 313, 0),
        (316, 320, 0xff),
        (320, 321, 0),
        (1920, 1921, 0),
        (2228, 2232, 0xff),
        (2232, 2233, 16),
    ];

    #[test]
    fn unset_has_the_bytes_that_the_vendor_s_function_writes() {
        let config = HcclCommConfig::unset();
        for (from, to, value) in MEASURED {
            for offset in from..to {
                // SAFETY: the offset is inside the struct and not in its padding.
                let byte = unsafe { ptr::from_ref(&config).cast::<u8>().add(offset).read() };
                assert_eq!(byte, value, "byte {offset}");
            }
        }
    }
}
