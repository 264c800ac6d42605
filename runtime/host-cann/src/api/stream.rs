//! Streams.

use crate::boundary::{non_null, write};
use crate::device::MAX_STREAMS;
use crate::fault::Fault;
use crate::schedule::wait;
use crate::state::{self, CHANGED};
use crate::stream::{self, Work, WorkKind};
use crate::task::{Progress, Task, submit_work};
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// The lowest priority; 0 is the highest.
const LEAST_PRIORITY: u32 = 7;
/// All flags of streams.
const FLAGS: u32 = 0x3f;

pub(crate) unsafe fn aclrtCreateStream(out: *mut aclrtStream) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { aclrtCreateStreamWithConfig(out, 0, 0) }
}

pub(crate) unsafe fn aclrtCreateStreamWithConfig(
    out: *mut aclrtStream,
    priority: u32,
    flags: u32,
) -> Result<(), Fault> {
    non_null(out, "stream")?;
    let mut runtime = state::ready()?;
    if priority > LEAST_PRIORITY || flags & !FLAGS != 0 {
        return Err(Fault::parameter(format!("no stream has priority {priority} and flags {flags:#x}")));
    }
    let (context, device) = runtime.context().map(|(key, context)| (key, context.device))?;
    let key = runtime.create_stream(context, device, priority, flags, false)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, aclrtStream(key as *mut c_void), "stream") }
}

pub(crate) fn aclrtDestroyStream(stream: aclrtStream) -> Result<(), Fault> {
    destroy(stream, stream::end)
}

pub(crate) fn aclrtDestroyStreamForce(stream: aclrtStream) -> Result<(), Fault> {
    destroy(stream, stream::end_now)
}

fn destroy(stream: aclrtStream, end: fn(state::Guard, usize) -> state::Guard) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    let found = runtime.stream(key);
    found.not_capturing()?;
    if found.is_default {
        return Err(Fault::parameter("the default stream ends with its context"));
    }
    drop(end(runtime, key));
    Ok(())
}

pub(crate) fn aclrtStreamAbort(stream: aclrtStream) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    runtime.stream(key).not_capturing()?;
    drop(stream::clear(runtime, key));
    Ok(())
}

pub(crate) fn aclrtSynchronizeStream(stream: aclrtStream) -> Result<(), Fault> {
    synchronize(stream, None)
}

pub(crate) fn aclrtSynchronizeStreamWithTimeout(stream: aclrtStream, timeout: i32) -> Result<(), Fault> {
    synchronize(stream, wait::timeout_of(timeout)?)
}

fn synchronize(stream: aclrtStream, timeout: Option<Duration>) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.stream_key(stream)?;
    let found = runtime.stream(key);
    found.not_capturing()?;
    let device = found.device;
    wait::for_streams(runtime, device, &[key], timeout).map(drop)
}

pub(crate) unsafe fn aclrtStreamQuery(
    stream: aclrtStream,
    status: *mut aclrtStreamStatus,
) -> Result<(), Fault> {
    non_null(status, "status")?;
    let mut runtime = state::ready()?;
    let key = runtime.stream_key(stream)?;
    let found = runtime.stream(key);
    found.not_capturing()?;
    let device = found.device;
    let is_done = found.finished == found.submitted;
    let value = if is_done {
        drop(wait::for_streams(runtime, device, &[key], None)?);
        aclrtStreamStatus::ACL_STREAM_STATUS_COMPLETE
    } else {
        // Who asks wants it to go on.
        runtime.device(device)?.hold_until = None;
        CHANGED.notify_all();
        aclrtStreamStatus::ACL_STREAM_STATUS_NOT_READY
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(status, value, "status") }
}

pub(crate) unsafe fn aclrtStreamGetId(stream: aclrtStream, id: *mut i32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.stream_key(stream)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(id, runtime.stream(key).id as i32, "streamId") }
}

pub(crate) unsafe fn aclrtStreamGetPriority(stream: aclrtStream, priority: *mut u32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.stream_key(stream)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(priority, runtime.stream(key).priority, "priority") }
}

pub(crate) unsafe fn aclrtStreamGetFlags(stream: aclrtStream, flags: *mut u32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.stream_key(stream)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(flags, runtime.stream(key).flags, "flags") }
}

pub(crate) unsafe fn aclrtGetStreamAvailableNum(num: *mut u32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let device = runtime.context()?.1.device;
    let left = MAX_STREAMS - runtime.device(device)?.num_streams;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(num, left as u32, "streamCount") }
}

pub(crate) unsafe fn aclrtDeviceGetStreamPriorityRange(
    least: *mut i32,
    greatest: *mut i32,
) -> Result<(), Fault> {
    state::ready()?.context()?;
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        write(least, LEAST_PRIORITY as i32, "leastPriority")?;
        write(greatest, 0, "greatestPriority")
    }
}

pub(crate) fn aclrtSetStreamFailureMode(stream: aclrtStream, mode: u64) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.given_stream_key(stream)?;
    let found = runtime.stream(key);
    found.not_capturing()?;
    if mode > u64::from(ACL_STOP_ON_FAILURE) || found.is_default {
        return Err(Fault::parameter(format!("{} cannot have failure mode {mode}", found.name())));
    }
    found.failure_mode = mode;
    Ok(())
}

pub(crate) unsafe fn aclrtLaunchHostFunc(
    stream: aclrtStream,
    function: aclrtHostFunc,
    args: *mut c_void,
) -> Result<(), Fault> {
    let function = function.ok_or_else(|| Fault::null("fn"))?;
    let args = args as usize;
    let run = move |_: &_| {
        // SAFETY: the caller vouches for the function and its argument until it has run.
        unsafe { function(args as *mut c_void) };
        Progress::Done
    };
    let name = "host function".to_owned();
    let task = Task { name, reads: Vec::new(), writes: Vec::new(), workspace: None, run: Arc::new(run) };
    submit_work(stream, Work::new(task, WorkKind::Host))
}
