//! Copies and fills.

use crate::boundary::non_null;
use crate::capture::SYNCHRONOUS_COPY;
use crate::fault::Fault;
use crate::memory::Place;
use crate::schedule::wait;
use crate::span::Span;
use crate::state::{self, CHANGED, Guard};
use crate::stream::{Work, WorkKind};
use crate::task::{Progress, Task, submit_work};
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::sync::Arc;

/// A copy: destination and source.
#[derive(Debug, Clone, Copy)]
struct Copy {
    to: Span,
    from: Span,
}

/// Checks the arguments every copy has.
fn checked(dst: *mut c_void, max: usize, src: *const c_void, count: usize) -> Result<Copy, Fault> {
    non_null(dst, "dst")?;
    non_null(src, "src")?;
    if count > max || count == 0 {
        return Err(Fault::parameter(format!("a copy of {count} bytes into {max}")));
    }
    Ok(Copy { to: Span::new(dst, count), from: Span::new(src, count) })
}

/// Where `span` is; if memory the runtime knows, all of it is in one allocation.
fn place(runtime: &Guard, span: Span, what: &str) -> Result<Place, Fault> {
    let place = runtime.place(span.start);
    let is_whole = runtime.memory.is_whole(span);
    if place == Place::Pageable || is_whole {
        return Ok(place);
    }
    let message = format!("the {what} {span} is {}", runtime.memory.describe(span.start));
    Err(Fault::parameter(message))
}

pub(crate) fn aclrtMemcpy(
    dst: *mut c_void,
    max: usize,
    src: *const c_void,
    count: usize,
    kind: aclrtMemcpyKind,
) -> Result<(), Fault> {
    let copy = checked(dst, max, src, count)?;
    check_kind(kind)?;
    let runtime = state::ready()?;
    runtime.context()?;
    runtime.allow_synchronous(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT)?;
    copy_now(runtime, copy, "the host's aclrtMemcpy")
}

fn check_kind(kind: aclrtMemcpyKind) -> Result<(), Fault> {
    match kind.name() {
        Some(_) => Ok(()),
        None => Err(Fault::parameter(format!("there is no kind of copy {}", kind.0))),
    }
}

/// Copies before it returns. It waits for no stream.
fn copy_now(mut runtime: Guard, copy: Copy, name: &str) -> Result<(), Fault> {
    let Copy { to, from } = copy;
    let known = |place: Place, span: Span| if place == Place::Pageable { Vec::new() } else { vec![span] };
    let reads = known(place(&runtime, from, "source")?, from);
    let writes = known(place(&runtime, to, "destination")?, to);
    runtime.host_access(name, &reads, &writes)?;
    let pin = runtime.memory.pin(reads.into_iter().chain(writes));
    drop(runtime);
    // SAFETY: memory the runtime knows is live and pinned; for other host memory the caller vouches.
    unsafe { std::ptr::copy(from.start as *const u8, to.start as *mut u8, to.len) };
    state::lock().memory.unpin(pin);
    CHANGED.notify_all();
    Ok(())
}

pub(crate) fn aclrtMemcpyAsync(
    dst: *mut c_void,
    max: usize,
    src: *const c_void,
    count: usize,
    kind: aclrtMemcpyKind,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let copy = checked(dst, max, src, count)?;
    check_kind(kind)?;
    let mut runtime = state::ready()?;
    let key = runtime.stream_key(stream)?;
    let (to, from) = (place(&runtime, copy.to, "destination")?, place(&runtime, copy.from, "source")?);
    agree(kind, from, to)?;
    if to == Place::Pageable || from == Place::Pageable {
        let found = runtime.stream(key);
        let device = found.device;
        if found.capture.is_some() {
            return Err(Fault::parameter("EE1016: a captured copy needs pinned host memory"));
        }
        // As the vendor does: the stream is waited for, and the copy is synchronous.
        runtime.allow_synchronous(SYNCHRONOUS_COPY)?;
        runtime = wait::for_streams(runtime, device, &[key], None)?;
        return copy_now(runtime, copy, "the host's copy of pageable memory");
    }
    let device = runtime.stream(key).device;
    let peer = foreign(device, [from, to]);
    if let Some(peer) = peer
        && !(runtime.device(device)?.peers.contains(&peer) && runtime.device(peer)?.peers.contains(&device))
    {
        let message = format!("devices {device} and {peer} have not enabled access to each other");
        return Err(Fault::parameter(message));
    }
    drop(runtime);
    submit_work(stream, work(copy, from, to, peer))
}

/// Whether the kind of a copy says what its addresses say.
fn agree(kind: aclrtMemcpyKind, from: Place, to: Place) -> Result<(), Fault> {
    type Kind = aclrtMemcpyKind;
    let is_device = |place| matches!(place, Place::Device(_));
    if !is_device(from) && !is_device(to) {
        let message = "an asynchronous copy from host to host";
        return Err(Fault::new(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, message));
    }
    let expected = match kind {
        Kind::ACL_MEMCPY_HOST_TO_HOST => (false, false),
        Kind::ACL_MEMCPY_HOST_TO_DEVICE | Kind::ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE => (false, true),
        Kind::ACL_MEMCPY_DEVICE_TO_HOST => (true, false),
        Kind::ACL_MEMCPY_DEFAULT => (is_device(from), is_device(to)),
        _ => (true, true),
    };
    if (is_device(from), is_device(to)) == expected {
        return Ok(());
    }
    let name = |place| if is_device(place) { "device" } else { "host" };
    let message = format!(
        "{}, but the addresses lead from {} to {}",
        kind.name().unwrap_or_default(),
        name(from),
        name(to)
    );
    Err(Fault::parameter(message))
}

/// The other device of a copy, if there is one.
fn foreign(device: i32, places: [Place; 2]) -> Option<i32> {
    places.into_iter().find_map(|place| match place {
        Place::Device(other) if other != device => Some(other),
        _ => None,
    })
}

fn work(copy: Copy, from: Place, to: Place, peer: Option<i32>) -> Work {
    let Copy { to: to_span, from: from_span } = copy;
    let run = move |_: &_| {
        // SAFETY: both ranges were checked before the run, and are pinned.
        unsafe { std::ptr::copy(from_span.start as *const u8, to_span.start as *mut u8, to_span.len) };
        Progress::Done
    };
    let part = |place: Place, span: Span, is_host: bool| {
        if (place == Place::Pinned) == is_host { vec![span] } else { Vec::new() }
    };
    let task = Task {
        name: "copy".to_owned(),
        reads: part(from, from_span, false),
        writes: part(to, to_span, false),
        workspace: None,
        run: Arc::new(run),
    };
    let (host_reads, host_writes) = (part(from, from_span, true), part(to, to_span, true));
    Work { host_reads, host_writes, peer, ..Work::new(task, WorkKind::Copy) }
}

pub(crate) fn aclrtMemset(pointer: *mut c_void, max: usize, value: i32, count: usize) -> Result<(), Fault> {
    fill_now(pointer, max, count, bytes(value))
}

pub(crate) fn aclrtMemsetD32(pointer: *mut c_void, size: usize, value: u32, num: usize) -> Result<(), Fault> {
    fill_now(pointer, size, num.saturating_mul(4), value.to_ne_bytes())
}

pub(crate) fn aclrtMemsetAsync(
    pointer: *mut c_void,
    max: usize,
    value: i32,
    count: usize,
    stream: aclrtStream,
) -> Result<(), Fault> {
    fill_later(pointer, max, count, bytes(value), stream)
}

pub(crate) fn aclrtMemsetD32Async(
    pointer: *mut c_void,
    size: usize,
    value: u32,
    num: usize,
    stream: aclrtStream,
) -> Result<(), Fault> {
    fill_later(pointer, size, num.saturating_mul(4), value.to_ne_bytes(), stream)
}

/// C's `memset` uses the lowest byte.
fn bytes(value: i32) -> [u8; 4] {
    [value as u8; 4]
}

fn filled(pointer: *mut c_void, max: usize, count: usize) -> Result<Span, Fault> {
    non_null(pointer, "devPtr")?;
    if count > max || count == 0 {
        return Err(Fault::parameter(format!("a fill of {count} bytes of {max}")));
    }
    Ok(Span::new(pointer, count))
}

/// Writes `pattern` again and again.
///
/// # Safety
/// The span may be written.
unsafe fn fill(span: Span, pattern: [u8; 4]) {
    // SAFETY: the caller vouches for the span.
    let target = unsafe { std::slice::from_raw_parts_mut(span.start as *mut u8, span.len) };
    if pattern == [pattern[0]; 4] {
        return target.fill(pattern[0]);
    }
    target.iter_mut().zip(pattern.iter().cycle()).for_each(|(byte, value)| *byte = *value);
}

fn fill_now(pointer: *mut c_void, max: usize, count: usize, pattern: [u8; 4]) -> Result<(), Fault> {
    let span = filled(pointer, max, count)?;
    let mut runtime = state::ready()?;
    runtime.context()?;
    runtime.allow_synchronous(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT)?;
    if !matches!(place(&runtime, span, "memory")?, Place::Device(_)) {
        return Err(Fault::parameter(format!("{span} is no device memory")));
    }
    runtime.host_access("the host's aclrtMemset", &[], &[span])?;
    let pin = runtime.memory.pin([span]);
    drop(runtime);
    // SAFETY: the memory is live and pinned.
    unsafe { fill(span, pattern) };
    state::lock().memory.unpin(pin);
    CHANGED.notify_all();
    Ok(())
}

fn fill_later(
    pointer: *mut c_void,
    max: usize,
    count: usize,
    pattern: [u8; 4],
    stream: aclrtStream,
) -> Result<(), Fault> {
    let span = filled(pointer, max, count)?;
    let run = move |_: &_| {
        // SAFETY: the range was checked before the run, and is pinned.
        unsafe { fill(span, pattern) };
        Progress::Done
    };
    let task = Task {
        name: "fill".to_owned(),
        reads: Vec::new(),
        writes: vec![span],
        workspace: None,
        run: Arc::new(run),
    };
    submit_work(stream, Work::new(task, WorkKind::Fill))
}
