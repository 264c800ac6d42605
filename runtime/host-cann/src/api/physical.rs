//! Reserved addresses and physical memory.

use crate::boundary::{non_null, write};
use crate::fault::Fault;
use crate::memory::physical::GRANULARITY;
use crate::schedule::wait;
use crate::span::Span;
use crate::state;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

/// The flag of `aclrtReserveMemAddress` for pages of 1 GiB.
const HUGE_PAGES: u64 = 1;

pub(crate) unsafe fn aclrtReserveMemAddress(
    out: *mut *mut c_void,
    size: usize,
    alignment: usize,
    expected: *mut c_void,
    flags: u64,
) -> Result<(), Fault> {
    non_null(out, "virPtr")?;
    let mut runtime = state::ready()?;
    runtime.context()?;
    if size == 0 || alignment != 0 || !expected.is_null() || flags > HUGE_PAGES {
        let message = format!("{size} bytes aligned to {alignment} at {expected:p} with flags {flags}");
        return Err(Fault::parameter(message));
    }
    let start = runtime.reserve(size)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, start as *mut c_void, "virPtr") }
}

pub(crate) fn aclrtReleaseMemAddress(pointer: *mut c_void) -> Result<(), Fault> {
    non_null(pointer, "virPtr")?;
    state::ready()?.unreserve(pointer as usize)
}

/// The device a description of physical memory is for.
///
/// # Safety
/// `prop` is null or may be read.
unsafe fn device_of(prop: *const aclrtPhysicalMemProp) -> Result<i32, Fault> {
    non_null(prop, "prop")?;
    // SAFETY: the caller vouches for the pointer.
    let prop = unsafe { prop.read() };
    let is_huge = [aclrtMemAttr::ACL_HBM_MEM_HUGE, aclrtMemAttr::ACL_MEM_HUGE].contains(&prop.memAttr);
    let is_device = prop.location.type_ == aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE;
    if is_huge && is_device && prop.handleType == aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE {
        return Ok(prop.location.id as i32);
    }
    Err(Fault::parameter(format!(
        "physical memory of attribute {}, location {}, handle {}",
        prop.memAttr.0, prop.location.type_.0, prop.handleType.0
    )))
}

pub(crate) unsafe fn aclrtMemGetAllocationGranularity(
    prop: *mut aclrtPhysicalMemProp,
    option: aclrtMemGranularityOptions,
    out: *mut usize,
) -> Result<(), Fault> {
    drop(state::ready()?);
    // SAFETY: the caller vouches for the pointer.
    unsafe { device_of(prop)? };
    if !(0..=1).contains(&option.0) {
        return Err(Fault::parameter(format!("there is no granularity {}", option.0)));
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, GRANULARITY, "granularity") }
}

pub(crate) unsafe fn aclrtMallocPhysical(
    out: *mut aclrtDrvMemHandle,
    size: usize,
    prop: *const aclrtPhysicalMemProp,
    flags: u64,
) -> Result<(), Fault> {
    non_null(out, "handle")?;
    let mut runtime = state::ready()?;
    // SAFETY: the caller vouches for the pointer.
    let device = unsafe { device_of(prop)? };
    if flags != 0 {
        return Err(Fault::parameter(format!("flags {flags}")));
    }
    let handle = runtime.allocate_physical(size, device)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, aclrtDrvMemHandle(handle), "handle") }
}

pub(crate) fn aclrtFreePhysical(handle: aclrtDrvMemHandle) -> Result<(), Fault> {
    state::ready()?.free_physical(handle)
}

pub(crate) fn aclrtMapMem(
    pointer: *mut c_void,
    size: usize,
    offset: usize,
    handle: aclrtDrvMemHandle,
    flags: u64,
) -> Result<(), Fault> {
    non_null(pointer, "virPtr")?;
    if offset != 0 || flags != 0 || !(pointer as usize).is_multiple_of(GRANULARITY) {
        return Err(Fault::parameter(format!(
            "a mapping at {pointer:p} with offset {offset}, flags {flags}"
        )));
    }
    state::ready()?.map(pointer as usize, size, handle)
}

pub(crate) fn aclrtUnmapMem(pointer: *mut c_void) -> Result<(), Fault> {
    non_null(pointer, "virPtr")?;
    let mut runtime = state::ready()?;
    let span = runtime.memory.starting_at(pointer as usize)?.span;
    runtime = wait::watch(runtime, 0, |runtime| !runtime.memory.is_pinned(span));
    let order = runtime.host_access("the host unmapping memory", &[], &[span]);
    runtime.unmap(span.start)?;
    runtime.shadow.forget(span);
    order
}

pub(crate) unsafe fn aclrtMemSetAccess(
    pointer: *mut c_void,
    size: usize,
    desc: *mut aclrtMemAccessDesc,
    count: usize,
) -> Result<(), Fault> {
    non_null(pointer, "virPtr")?;
    non_null(desc, "desc")?;
    let runtime = state::ready()?;
    let span = Span::new(pointer, size);
    if count == 0 || !runtime.memory.is_whole(span) {
        return Err(Fault::parameter(format!("{span} is not mapped, or there are no descriptions")));
    }
    Ok(())
}
