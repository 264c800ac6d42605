//! Devices.

use crate::boundary::write;
use crate::context;
use crate::fault::Fault;
use crate::lifecycle;
use crate::schedule::wait;
use crate::soc;
use crate::state::{self, Guard};
use ascend_rs_sys::types::*;
use std::ffi::{CString, c_char};
use std::sync::OnceLock;
use std::time::Duration;

pub(crate) fn aclrtSetDevice(device: i32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = match runtime.device(device)?.primary {
        Some(key) => key,
        None => runtime.create_context(device)?,
    };
    let found = runtime.device(device)?;
    found.primary = Some(key);
    found.count += 1;
    context::set_current(key);
    Ok(())
}

pub(crate) fn aclrtResetDevice(device: i32) -> Result<(), Fault> {
    lifecycle::reset_device(state::ready()?, device, false).map(drop)
}

pub(crate) fn aclrtResetDeviceForce(device: i32) -> Result<(), Fault> {
    lifecycle::reset_device(state::ready()?, device, true).map(drop)
}

pub(crate) unsafe fn aclrtGetDevice(device: *mut i32) -> Result<(), Fault> {
    let id = state::ready()?.context()?.1.device;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(device, id, "deviceId") }
}

pub(crate) unsafe fn aclrtGetDeviceCount(count: *mut u32) -> Result<(), Fault> {
    let num = state::ready()?.options.num_devices;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(count, num as u32, "count") }
}

pub(crate) unsafe fn aclrtGetRunMode(mode: *mut aclrtRunMode) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(mode, aclrtRunMode::ACL_HOST, "runMode") }
}

pub(crate) fn aclrtGetSocName() -> Result<*const c_char, Fault> {
    static NAME: OnceLock<CString> = OnceLock::new();
    let soc = soc::find()?;
    let name = NAME.get_or_init(|| CString::new(soc.name).unwrap_or_default());
    Ok(name.as_ptr())
}

pub(crate) unsafe fn aclrtGetDeviceInfo(id: u32, attr: aclrtDevAttr, value: *mut i64) -> Result<(), Fault> {
    state::ready()?.device(id as i32)?;
    let soc = soc::current();
    let found = match attr {
        aclrtDevAttr::ACL_DEV_ATTR_AICPU_CORE_NUM => 6,
        aclrtDevAttr::ACL_DEV_ATTR_AICORE_CORE_NUM | aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM => {
            i64::from(soc.cube_cores)
        }
        aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM => i64::from(soc.vector_cores),
        aclrtDevAttr::ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE => soc.hbm_bytes as i64,
        aclrtDevAttr::ACL_DEV_ATTR_L2_CACHE_SIZE => soc.l2_bytes as i64,
        aclrtDevAttr::ACL_DEV_ATTR_PHY_CHIP_ID => i64::from(id),
        aclrtDevAttr::ACL_DEV_ATTR_IS_VIRTUAL => 0,
        aclrtDevAttr::ACL_DEV_ATTR_NPU_ARCH => soc.npu_arch(),
        _ => {
            let message = format!("attribute {} of a device is not known", attr.0);
            return Err(Fault::new(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, message));
        }
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(value, found, "value") }
}

pub(crate) unsafe fn aclGetDeviceCapability(
    id: u32,
    info: aclDeviceInfo,
    value: *mut i64,
) -> Result<(), Fault> {
    let attr = match info {
        aclDeviceInfo::ACL_DEVICE_INFO_AI_CORE_NUM => aclrtDevAttr::ACL_DEV_ATTR_AICORE_CORE_NUM,
        aclDeviceInfo::ACL_DEVICE_INFO_VECTOR_CORE_NUM => aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM,
        aclDeviceInfo::ACL_DEVICE_INFO_L2_SIZE => aclrtDevAttr::ACL_DEV_ATTR_L2_CACHE_SIZE,
        _ => return Err(Fault::parameter(format!("there is no device information {}", info.0))),
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { aclrtGetDeviceInfo(id, attr, value) }
}

pub(crate) fn aclrtSynchronizeDevice() -> Result<(), Fault> {
    synchronize(state::ready()?, None)
}

pub(crate) fn aclrtSynchronizeDeviceWithTimeout(timeout: i32) -> Result<(), Fault> {
    synchronize(state::ready()?, wait::timeout_of(timeout)?)
}

/// Waits for all streams of this thread's context.
fn synchronize(runtime: Guard, timeout: Option<Duration>) -> Result<(), Fault> {
    let (key, device) = runtime.context().map(|(key, context)| (key, context.device))?;
    if runtime.captures().any(|(_, graph, _)| graph.context == key) {
        let message = "a stream of the context is being captured";
        return Err(Fault::new(ACL_ERROR_RT_STREAM_CAPTURED, message));
    }
    let streams = runtime.streams.keys(|stream| stream.context == key);
    wait::for_streams(runtime, device, &streams, timeout).map(drop)
}

pub(crate) unsafe fn aclrtDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    runtime.device(device)?;
    runtime.device(peer)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(can, i32::from(device != peer), "canAccessPeer") }
}

pub(crate) fn aclrtDeviceEnablePeerAccess(peer: i32, flags: u32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let device = runtime.context()?.1.device;
    runtime.device(peer)?;
    if device == peer || flags != 0 {
        return Err(Fault::parameter(format!(
            "no access of device {device} to device {peer}, flags {flags}"
        )));
    }
    runtime.device(device)?.peers.insert(peer);
    Ok(())
}

pub(crate) fn aclrtDeviceDisablePeerAccess(peer: i32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let device = runtime.context()?.1.device;
    if runtime.device(device)?.peers.remove(&peer) {
        return Ok(());
    }
    Err(Fault::parameter(format!("device {device} has no access to device {peer}")))
}
