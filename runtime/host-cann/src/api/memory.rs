//! Device memory and pinned host memory.

use crate::boundary::{non_null, write};
use crate::clock::HOST;
use crate::fault::Fault;
use crate::memory::{Place, charge, mapping::PAGE};
use crate::schedule::wait;
use crate::shadow::Access;
use crate::soc;
use crate::span::Span;
use crate::state::{self, Guard, Runtime};
use ascend_rs_sys::types::*;
use std::ffi::c_void;

/// The largest policy of `aclrtMalloc` without flags.
const MAX_POLICY: i32 = 7;

pub(crate) unsafe fn aclrtMalloc(
    out: *mut *mut c_void,
    size: usize,
    policy: aclrtMemMallocPolicy,
) -> Result<(), Fault> {
    non_null(out, "devPtr")?;
    if size == 0 {
        return Err(Fault::new(ACL_ERROR_INVALID_PARAM, "an allocation of 0 bytes"));
    }
    if policy.0 & 0xff > MAX_POLICY || policy.0 < 0 {
        return Err(Fault::parameter(format!("there is no policy {}", policy.0)));
    }
    let mut runtime = state::ready()?;
    let device = runtime.context()?.1.device;
    let charged = charge(size);
    runtime.charge(device, charged)?;
    let allocated = runtime.memory.allocate(size, Place::Device(device), charged);
    let span = allocated.inspect_err(|_| runtime.discharge(device, charged))?;
    runtime.shadow.forget(span);
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, span.start as *mut c_void, "devPtr") }
}

pub(crate) unsafe fn aclrtMallocAlign32(
    out: *mut *mut c_void,
    size: usize,
    policy: aclrtMemMallocPolicy,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { aclrtMalloc(out, size, policy) }
}

pub(crate) unsafe fn aclrtMallocHost(out: *mut *mut c_void, size: usize) -> Result<(), Fault> {
    non_null(out, "hostPtr")?;
    if size == 0 {
        return Err(Fault::new(ACL_ERROR_INVALID_PARAM, "an allocation of 0 bytes"));
    }
    let mut runtime = state::ready()?;
    runtime.context()?;
    let span = runtime.memory.allocate(size, Place::Pinned, 0)?;
    runtime.shadow.forget(span);
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, span.start as *mut c_void, "hostPtr") }
}

pub(crate) fn aclrtFree(pointer: *mut c_void) -> Result<(), Fault> {
    non_null(pointer, "devPtr")?;
    let runtime = state::ready()?;
    runtime.context()?;
    free(runtime, pointer, false)
}

pub(crate) fn aclrtFreeWithDevSync(pointer: *mut c_void) -> Result<(), Fault> {
    non_null(pointer, "devPtr")?;
    let runtime = state::ready()?;
    runtime.allow_synchronous(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT)?;
    let (key, device) = runtime.context().map(|(key, context)| (key, context.device))?;
    let streams = runtime.streams.keys(|stream| stream.context == key);
    free(wait::for_streams(runtime, device, &streams, None)?, pointer, false)
}

pub(crate) fn aclrtFreeHost(pointer: *mut c_void) -> Result<(), Fault> {
    non_null(pointer, "hostPtr")?;
    free(state::ready()?, pointer, true)
}

/// Frees at once; only a task that is using the memory at this moment is waited for.
fn free(mut runtime: Guard, pointer: *mut c_void, is_host: bool) -> Result<(), Fault> {
    let allocation = runtime.memory.starting_at(pointer as usize)?;
    let (span, place, charged) = (allocation.span, allocation.place, allocation.charged_bytes);
    if (place == Place::Pinned) != is_host || !allocation.is_own() {
        let message = format!("{pointer:p} is {}", runtime.memory.describe(pointer as usize));
        return Err(Fault::parameter(message));
    }
    let device = if let Place::Device(device) = place { device } else { 0 };
    runtime = wait::watch(runtime, device, |runtime| !runtime.memory.is_pinned(span));
    let order = runtime.host_access("the host freeing memory", &[], &[span]);
    runtime.memory.release(span.start);
    runtime.shadow.forget(span);
    if place != Place::Pinned {
        runtime.discharge(device, charged);
    }
    order
}

impl Runtime {
    /// Checks that accesses by the host are ordered after all they meet.
    ///
    /// # Errors
    /// 507053: they are not.
    pub(crate) fn host_access(&mut self, name: &str, reads: &[Span], writes: &[Span]) -> Result<(), Fault> {
        let time = self.host.tick(HOST);
        let access = Access { component: HOST, time, name: name.into() };
        self.shadow.access(reads, writes, &access, &self.host).map_err(|race| {
            self.stats.races += 1;
            Fault::new(ACL_ERROR_RT_DEVICE_MEM_ERROR, race.to_string())
        })
    }
}

pub(crate) unsafe fn aclrtHostRegister(
    pointer: *mut c_void,
    size: u64,
    kind: aclrtHostRegisterType,
    out: *mut *mut c_void,
) -> Result<(), Fault> {
    non_null(pointer, "ptr")?;
    non_null(out, "devPtr")?;
    let mut runtime = state::ready()?;
    let span = Span::new(pointer, size as usize);
    if kind != aclrtHostRegisterType::ACL_HOST_REGISTER_MAPPED || size == 0 {
        return Err(Fault::parameter(format!(
            "host memory {span} cannot be registered with type {}",
            kind.0
        )));
    }
    if runtime.memory.live().any(|allocation| allocation.span.overlaps(span)) {
        let message = format!("{span} overlaps memory that is known");
        return Err(Fault::new(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, message));
    }
    runtime.memory.adopt(span, Place::Pinned, 0, None);
    runtime.shadow.forget(span);
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, pointer, "devPtr") }
}

pub(crate) fn aclrtHostUnregister(pointer: *mut c_void) -> Result<(), Fault> {
    non_null(pointer, "ptr")?;
    let mut runtime = state::ready()?;
    let found = runtime.memory.starting_at(pointer as usize).ok();
    let span =
        found.filter(|a| a.place == Place::Pinned && !a.is_own()).map(|a| a.span).ok_or_else(|| {
            Fault::new(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, format!("{pointer:p} is not registered"))
        })?;
    runtime = wait::watch(runtime, 0, |runtime| !runtime.memory.is_pinned(span));
    runtime.memory.release(span.start);
    runtime.shadow.forget(span);
    Ok(())
}

pub(crate) unsafe fn aclrtPointerGetAttributes(
    pointer: *const c_void,
    out: *mut aclrtPtrAttributes,
) -> Result<(), Fault> {
    non_null(pointer, "ptr")?;
    let runtime = state::ready()?;
    type Type = aclrtMemLocationType;
    let (id, kind) = match runtime.place(pointer as usize) {
        Place::Device(device) => (device as u32, Type::ACL_MEM_LOCATION_TYPE_DEVICE),
        Place::Pinned => (0, Type::ACL_MEM_LOCATION_TYPE_HOST),
        Place::Nothing | Place::Pageable => (0, Type::ACL_MEM_LOCATION_TYPE_UNREGISTERED),
    };
    let location = aclrtMemLocation { id, type_: kind };
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, aclrtPtrAttributes { location, pageSize: PAGE as u32, rsv: [0; 4] }, "attributes") }
}

pub(crate) unsafe fn aclrtGetMemInfo(
    attr: aclrtMemAttr,
    free: *mut usize,
    total: *mut usize,
) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let device = runtime.context()?.1.device;
    if attr.name().is_none() {
        return Err(Fault::parameter(format!("there is no memory {}", attr.0)));
    }
    let all = soc::current().hbm_bytes as usize;
    let used = runtime.device(device)?.used_bytes as usize;
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        write(free, all - used, "free")?;
        write(total, all, "total")
    }
}
