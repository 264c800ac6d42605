//! The configuration of a communicator.

use super::fault;
use crate::fault::Fault;
use crate::soc::{self, Family};
use ascend_rs_sys::types::*;
use std::ffi::c_char;
use std::time::Duration;

/// What a communicator goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// MiB of each of two buffers.
    pub(super) buffer_mib: u32,
    /// 0: reductions in any order, 1: in a fixed one, 2: in the order of ranks.
    pub(super) deterministic: u32,
    /// Empty: one is made.
    pub(super) name: String,
    /// None: for ever.
    pub(super) timeout: Option<Duration>,
}

fn seconds_or_forever(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

impl Settings {
    /// What the environment says.
    fn from_environment() -> Result<Self, Fault> {
        let variable = |name: &str| std::env::var(name).ok();
        let wrong = |name: &str, text: &str| fault(HcclResult::HCCL_E_PARA, format!("{name} is `{text}`"));
        let number = |name: &str, default: u64| match variable(name) {
            Some(text) => text.parse::<u64>().map_err(|_| wrong(name, &text)),
            None => Ok(default),
        };
        let deterministic = match variable("HCCL_DETERMINISTIC").as_deref() {
            None | Some("false" | "FALSE") => 0,
            Some("true" | "TRUE") => 1,
            Some("strict" | "STRICT") => 2,
            Some(other) => return Err(wrong("HCCL_DETERMINISTIC", other)),
        };
        Ok(Self {
            buffer_mib: number("HCCL_BUFFSIZE", u64::from(HCCL_COMM_DEFAULT_BUFFSIZE))? as u32,
            // The 950 knows no other way.
            deterministic: if soc::current().family == Family::A5 { 1 } else { deterministic },
            name: String::new(),
            timeout: seconds_or_forever(number("HCCL_EXEC_TIMEOUT", 1836)?),
        })
    }

    /// What the environment says, then the configuration.
    ///
    /// # Errors
    /// PARA: the head of the configuration, or a member, is none.
    ///
    /// # Safety
    /// `config` is null, or has as many bytes as its head says.
    pub(super) unsafe fn of(config: *const HcclCommConfig) -> Result<Self, Fault> {
        let mut settings = Self::from_environment()?;
        if config.is_null() {
            return Ok(settings);
        }
        // SAFETY: the caller vouches for it; every version has the first members.
        let config = unsafe { &*config };
        let version = check_head(config)?;
        if config.hcclBufferSize != HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET {
            let size = config.hcclBufferSize;
            if size == 0 {
                return Err(fault(HcclResult::HCCL_E_PARA, "hcclBufferSize is 0"));
            }
            settings.buffer_mib = size;
        }
        if config.hcclDeterministic != HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET {
            let value = config.hcclDeterministic;
            if value > 2 {
                let text = format!("hcclDeterministic is {value}; allowed: 0, 1, 2");
                return Err(fault(HcclResult::HCCL_E_PARA, text));
            }
            settings.deterministic = if soc::current().family == Family::A5 { value.max(1) } else { value };
        }
        if version >= 2 {
            settings.name = name(&config.hcclCommName)?;
        }
        if version >= 8 && config.hcclExecTimeOut != HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET {
            let seconds = u64::try_from(config.hcclExecTimeOut).map_err(|_| {
                fault(HcclResult::HCCL_E_PARA, format!("hcclExecTimeOut is {}", config.hcclExecTimeOut))
            })?;
            settings.timeout = seconds_or_forever(seconds);
        }
        Ok(settings)
    }

    /// Bytes of device memory for the buffers.
    pub(super) fn buffer_bytes(&self) -> u64 {
        2 * (u64::from(self.buffer_mib) << 20)
    }
}

/// The version in the head of a configuration: size, magic number, version.
fn check_head(config: &HcclCommConfig) -> Result<u32, Fault> {
    let head = config.reserved.map(|byte| byte as u8);
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let size = u64::from(word(0)) | u64::from(word(4)) << 32;
    let (magic, version) = (word(8), word(12));
    let refuse = |text: String| Err(fault(HcclResult::HCCL_E_PARA, text));
    if magic != HCCL_COMM_CONFIG_MAGIC_WORD {
        return refuse(format!("the configuration has magic number {magic:#x}: it was not initialised"));
    }
    if !(1..=HCCL_COMM_CONFIG_VERSION).contains(&version) {
        return refuse(format!(
            "the configuration has version {version}; known: 1 to {HCCL_COMM_CONFIG_VERSION}"
        ));
    }
    let whole = size_of::<HcclCommConfig>() as u64;
    let fits = if version == HCCL_COMM_CONFIG_VERSION { size == whole } else { (32..whole).contains(&size) };
    if !fits {
        return refuse(format!("the configuration of version {version} has {size} bytes"));
    }
    Ok(version)
}

/// A text that ends with zero.
fn name(chars: &[c_char]) -> Result<String, Fault> {
    let bytes: Vec<u8> = chars.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
    if bytes.len() == chars.len() {
        return Err(fault(HcclResult::HCCL_E_PARA, "hcclCommName does not end with zero"));
    }
    String::from_utf8(bytes).map_err(|_| fault(HcclResult::HCCL_E_PARA, "hcclCommName is not UTF-8"))
}
