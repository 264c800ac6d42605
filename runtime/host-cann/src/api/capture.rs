//! Capture.

use crate::boundary::{non_null, write};
use crate::capture::{self, group};
use crate::fault::Fault;
use crate::state;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

pub(crate) fn aclmdlRICaptureBegin(stream: aclrtStream, mode: aclmdlRICaptureMode) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    runtime.begin_capture(key, mode)
}

pub(crate) unsafe fn aclmdlRICaptureGetInfo(
    stream: aclrtStream,
    status: *mut aclmdlRICaptureStatus,
    graph: *mut aclmdlRI,
) -> Result<(), Fault> {
    if status.is_null() && graph.is_null() {
        return Err(Fault::null("both of status and modelRI"));
    }
    let mut runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    let captured = runtime.stream(key).capture;
    type Status = aclmdlRICaptureStatus;
    let found = match captured.map(|graph| runtime.capture(graph).invalid.clone()) {
        None => Status::ACL_MODEL_RI_CAPTURE_STATUS_NONE,
        Some(Some((_, true))) => Status::ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED,
        Some(_) => Status::ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE,
    };
    if !status.is_null() {
        // SAFETY: the caller vouches for the pointer.
        unsafe { status.write(found) };
    }
    if !graph.is_null() {
        // SAFETY: the caller vouches for the pointer.
        unsafe { graph.write(aclmdlRI(captured.unwrap_or(0) as *mut c_void)) };
    }
    Ok(())
}

pub(crate) unsafe fn aclmdlRICaptureEnd(stream: aclrtStream, out: *mut aclmdlRI) -> Result<(), Fault> {
    non_null(out, "modelRI")?;
    let mut runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { out.write(aclmdlRI::NULL) };
    let graph = runtime.end_capture(key)?;
    // SAFETY: as above.
    unsafe { write(out, aclmdlRI(graph as *mut c_void), "modelRI") }
}

pub(crate) unsafe fn aclmdlRICaptureThreadExchangeMode(mode: *mut aclmdlRICaptureMode) -> Result<(), Fault> {
    non_null(mode, "mode")?;
    drop(state::ready()?);
    // SAFETY: the caller vouches for the pointer.
    let new = unsafe { mode.read() };
    capture::check_mode(new)?;
    // SAFETY: as above.
    unsafe { write(mode, capture::exchange_mode(new), "mode") }
}

pub(crate) fn aclmdlRICaptureTaskGrpBegin(stream: aclrtStream) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    runtime.begin_group(key)
}

pub(crate) unsafe fn aclmdlRICaptureTaskGrpEnd(
    stream: aclrtStream,
    out: *mut aclrtTaskGrp,
) -> Result<(), Fault> {
    non_null(out, "handle")?;
    let mut runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    let group = runtime.end_group(key)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, group, "handle") }
}

pub(crate) fn aclmdlRICaptureTaskUpdateBegin(stream: aclrtStream, handle: aclrtTaskGrp) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    runtime.begin_rewriting(key, handle)
}

pub(crate) fn aclmdlRICaptureTaskUpdateEnd(stream: aclrtStream) -> Result<(), Fault> {
    let runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    group::end_rewriting(runtime, key)
}
