//! Contexts.

use crate::boundary::{non_null, write};
use crate::context;
use crate::fault::Fault;
use crate::state;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

pub(crate) unsafe fn aclrtCreateContext(out: *mut aclrtContext, device: i32) -> Result<(), Fault> {
    non_null(out, "context")?;
    let key = state::ready()?.create_context(device)?;
    context::set_current(key);
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, aclrtContext(key as *mut c_void), "context") }
}

pub(crate) fn aclrtDestroyContext(context: aclrtContext) -> Result<(), Fault> {
    let runtime = state::ready()?;
    let device = runtime.contexts.get(context.0)?.device;
    let key = context.0 as usize;
    if runtime.devices[device as usize].primary == Some(key) {
        return Err(Fault::parameter("the context of aclrtSetDevice ends with aclrtResetDevice"));
    }
    drop(context::destroy(runtime, key, false));
    Ok(())
}

pub(crate) fn aclrtSetCurrentContext(context: aclrtContext) -> Result<(), Fault> {
    state::ready()?.contexts.get(context.0)?;
    context::set_current(context.0 as usize);
    Ok(())
}

pub(crate) unsafe fn aclrtGetCurrentContext(out: *mut aclrtContext) -> Result<(), Fault> {
    let key = state::ready()?.context()?.0;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, aclrtContext(key as *mut c_void), "context") }
}

pub(crate) unsafe fn aclrtCtxGetCurrentDefaultStream(out: *mut aclrtStream) -> Result<(), Fault> {
    let stream = state::ready()?.context()?.1.default_stream;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, aclrtStream(stream as *mut c_void), "stream") }
}
