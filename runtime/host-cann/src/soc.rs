//! The devices this library can be.

use crate::fault::Fault;
use ascend_rs_sys::types::ACL_ERROR_INVALID_PARAM;
use std::env;
use std::sync::OnceLock;

/// Generations, which differ in what operators accept and how collectives reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// Ascend910B: Atlas A2.
    A2,
    /// Ascend910_93: Atlas A3.
    A3,
    /// Ascend950.
    A5,
}

/// A device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Soc {
    /// What `aclrtGetSocName` says.
    pub(crate) name: &'static str,
    /// Generation.
    pub(crate) family: Family,
    /// Cube cores.
    pub(crate) cube_cores: u32,
    /// Vector cores.
    pub(crate) vector_cores: u32,
    /// Device memory.
    pub(crate) hbm_bytes: u64,
    /// Level-2 cache.
    pub(crate) l2_bytes: u64,
}

const fn soc(name: &'static str, family: Family, cube_cores: u32, hbm_gib: u64, l2_mib: u64) -> Soc {
    let (hbm_bytes, l2_bytes) = (hbm_gib << 30, l2_mib << 20);
    Soc { name, family, cube_cores, vector_cores: cube_cores * 2, hbm_bytes, l2_bytes }
}

const ALL: &[Soc] = &[
    soc("Ascend910B1", Family::A2, 24, 64, 192),
    soc("Ascend910B2", Family::A2, 24, 64, 192),
    soc("Ascend910B2C", Family::A2, 24, 64, 192),
    soc("Ascend910B3", Family::A2, 20, 64, 192),
    soc("Ascend910B4", Family::A2, 20, 32, 96),
    soc("Ascend910_9391", Family::A3, 24, 64, 192),
    soc("Ascend910_9392", Family::A3, 24, 64, 192),
    soc("Ascend910_9381", Family::A3, 24, 64, 192),
    soc("Ascend910_9382", Family::A3, 24, 64, 192),
    soc("Ascend910_9372", Family::A3, 20, 64, 192),
    soc("Ascend910_9362", Family::A3, 20, 64, 168),
    soc("Ascend910_9363", Family::A3, 20, 32, 168),
    soc("Ascend950PR_9599", Family::A5, 36, 128, 128),
    soc("Ascend950PR_9579", Family::A5, 28, 128, 128),
    soc("Ascend950DT_9591", Family::A5, 36, 144, 128),
    soc("Ascend950DT_95A1", Family::A5, 36, 144, 128),
];

impl Soc {
    /// The architecture number of `ACL_DEV_ATTR_NPU_ARCH`.
    pub(crate) fn npu_arch(&self) -> i64 {
        if self.family == Family::A5 { 3510 } else { 2201 }
    }
}

/// The device of this process, named by `HOST_CANN_SOC`.
///
/// # Errors
/// 100000: the name is none of ours.
pub(crate) fn find() -> Result<&'static Soc, Fault> {
    static CURRENT: OnceLock<Option<&'static Soc>> = OnceLock::new();
    let name = || env::var("HOST_CANN_SOC").unwrap_or_else(|_| "Ascend910B3".to_owned());
    CURRENT.get_or_init(|| ALL.iter().find(|soc| soc.name == name())).ok_or_else(|| {
        Fault::new(ACL_ERROR_INVALID_PARAM, format!("HOST_CANN_SOC: there is no device `{}`", name()))
    })
}

/// The device of this process.
pub(crate) fn current() -> &'static Soc {
    find().expect("aclInit has found it")
}
