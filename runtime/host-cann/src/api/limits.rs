//! Parameters, time-outs and shares of a device.

use crate::boundary::write;
use crate::fault::Fault;
use crate::soc;
use crate::state;
use ascend_rs_sys::types::*;

/// The largest option of `aclrtSetSysParamOpt`, and its largest value.
const MAX_OPTION: i32 = 3;
const MAX_VALUE: i64 = 3;

pub(crate) fn aclrtSetSysParamOpt(option: aclSysParamOpt, value: i64) -> Result<(), Fault> {
    if !(0..=MAX_OPTION).contains(&option.0) || !(0..=MAX_VALUE).contains(&value) {
        return Err(Fault::parameter(format!("parameter {} cannot be {value}", option.0)));
    }
    state::ready()?.parameters.insert(option.0, value);
    Ok(())
}

pub(crate) unsafe fn aclrtGetSysParamOpt(option: aclSysParamOpt, value: *mut i64) -> Result<(), Fault> {
    let found = state::ready()?.parameters.get(&option.0).copied();
    let found = found.ok_or_else(|| {
        Fault::new(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, format!("parameter {} was not set", option.0))
    })?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(value, found, "value") }
}

pub(crate) fn aclrtSetOpWaitTimeout(_timeout: u32) -> Result<(), Fault> {
    state::ready().map(drop)
}

pub(crate) fn aclrtSetOpExecuteTimeOut(_timeout: u32) -> Result<(), Fault> {
    state::ready().map(drop)
}

pub(crate) fn aclrtSetOpExecuteTimeOutWithMs(_timeout: u32) -> Result<(), Fault> {
    state::ready().map(drop)
}

pub(crate) unsafe fn aclrtSetOpExecuteTimeOutV2(timeout: u64, actual: *mut u64) -> Result<(), Fault> {
    drop(state::ready()?);
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(actual, timeout, "actualTimeout") }
}

/// The number of cores of a kind, and its place among limits.
fn cores(kind: aclrtDevResLimitType) -> Result<(usize, u32), Fault> {
    let soc = soc::current();
    match kind {
        aclrtDevResLimitType::ACL_RT_DEV_RES_CUBE_CORE => Ok((0, soc.cube_cores)),
        aclrtDevResLimitType::ACL_RT_DEV_RES_VECTOR_CORE => Ok((1, soc.vector_cores)),
        _ => Err(Fault::parameter(format!("there is no kind of core {}", kind.0))),
    }
}

pub(crate) fn aclrtSetDeviceResLimit(
    device: i32,
    kind: aclrtDevResLimitType,
    value: u32,
) -> Result<(), Fault> {
    let (place, num) = cores(kind)?;
    if value == 0 || value > num {
        return Err(Fault::parameter(format!("a limit of {value} cores of {num}")));
    }
    state::ready()?.device(device)?.core_limits[place] = Some(value);
    Ok(())
}

pub(crate) fn aclrtResetDeviceResLimit(device: i32) -> Result<(), Fault> {
    state::ready()?.device(device)?.core_limits = [None; 2];
    Ok(())
}

pub(crate) unsafe fn aclrtGetDeviceResLimit(
    device: i32,
    kind: aclrtDevResLimitType,
    value: *mut u32,
) -> Result<(), Fault> {
    let (place, num) = cores(kind)?;
    let limit = state::ready()?.device(device)?.core_limits[place].unwrap_or(num);
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(value, limit, "value") }
}

pub(crate) unsafe fn aclrtGetResInCurrentThread(
    kind: aclrtDevResLimitType,
    value: *mut u32,
) -> Result<(), Fault> {
    let device = state::ready()?.context()?.1.device;
    // SAFETY: the caller vouches for the pointer.
    unsafe { aclrtGetDeviceResLimit(device, kind, value) }
}
