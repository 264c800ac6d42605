//! Events.

use crate::boundary::{non_null, write};
use crate::capture::events;
use crate::device::MAX_EVENTS;
use crate::event::{Event, Kind, Recording};
use crate::fault::Fault;
use crate::schedule::wait;
use crate::state::{self, CHANGED, Guard};
use ascend_rs_sys::types::*;
use std::sync::Arc;
use std::time::Duration;

/// All flags of events.
const FLAGS: u32 = ACL_EVENT_SYNC
    | ACL_EVENT_CAPTURE_STREAM_PROGRESS
    | ACL_EVENT_TIME_LINE
    | ACL_EVENT_DEVICE_USE_ONLY
    | ACL_EVENT_EXTERNAL
    | ACL_EVENT_IPC;

pub(crate) unsafe fn aclrtCreateEvent(out: *mut aclrtEvent) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { create(out, Kind::Plain, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE) }
}

pub(crate) unsafe fn aclrtCreateEventWithFlag(out: *mut aclrtEvent, flag: u32) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { create(out, Kind::Flagged, flag) }
}

pub(crate) unsafe fn aclrtCreateEventExWithFlag(out: *mut aclrtEvent, flag: u32) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { create(out, Kind::Ex, flag) }
}

unsafe fn create(out: *mut aclrtEvent, kind: Kind, flags: u32) -> Result<(), Fault> {
    non_null(out, "event")?;
    let mut runtime = state::ready()?;
    if flags & !FLAGS != 0 || (kind == Kind::Ex && flags & ACL_EVENT_EXTERNAL != 0) {
        return Err(Fault::parameter(format!("no event of this kind has the flags {flags:#x}")));
    }
    let event = aclrtEvent(runtime.create_event(kind, flags)?);
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, event, "event") }
}

pub(crate) fn aclrtDestroyEvent(event: aclrtEvent) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    runtime.event_key(event)?;
    runtime.destroy_event(event).map(drop)
}

/// The state with the keys of an event and a stream.
fn both(event: aclrtEvent, stream: aclrtStream) -> Result<(Guard, usize, usize), Fault> {
    let runtime = state::ready()?;
    let event = runtime.event_key(event)?;
    let stream = runtime.stream_key(stream)?;
    Ok((runtime, event, stream))
}

/// Whether `flag` is the external one.
fn external(flag: u32) -> Result<bool, Fault> {
    match flag {
        ACL_EVENT_RECORD_DEFAULT => Ok(false),
        ACL_EVENT_RECORD_EXTERNAL => Ok(true),
        _ => Err(Fault::parameter(format!("there is no flag {flag}"))),
    }
}

pub(crate) fn aclrtRecordEvent(event: aclrtEvent, stream: aclrtStream) -> Result<(), Fault> {
    aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_DEFAULT)
}

pub(crate) fn aclrtRecordEventWithFlag(
    event: aclrtEvent,
    stream: aclrtStream,
    flag: u32,
) -> Result<(), Fault> {
    let (runtime, event, stream) = both(event, stream)?;
    events::record(runtime, stream, event, external(flag)?)
}

pub(crate) fn aclrtStreamWaitEvent(stream: aclrtStream, event: aclrtEvent) -> Result<(), Fault> {
    aclrtStreamWaitEventWithFlag(stream, event, 0, ACL_EVENT_WAIT_DEFAULT)
}

pub(crate) fn aclrtStreamWaitEventWithTimeout(
    stream: aclrtStream,
    event: aclrtEvent,
    timeout: i32,
) -> Result<(), Fault> {
    if timeout < 0 {
        return Err(Fault::parameter(format!("a time-out of {timeout} s")));
    }
    aclrtStreamWaitEvent(stream, event)
}

pub(crate) fn aclrtStreamWaitEventWithFlag(
    stream: aclrtStream,
    event: aclrtEvent,
    timeout: u32,
    flag: u32,
) -> Result<(), Fault> {
    let (runtime, event, stream) = both(event, stream)?;
    if timeout != 0 {
        return Err(Fault::parameter("the time-out of a wait with a flag is 0"));
    }
    events::wait(runtime, stream, event, external(flag)?)
}

pub(crate) fn aclrtResetEvent(event: aclrtEvent, stream: aclrtStream) -> Result<(), Fault> {
    let (runtime, event, stream) = both(event, stream)?;
    events::reset(runtime, stream, event)
}

pub(crate) unsafe fn aclrtQueryEventStatus(
    event: aclrtEvent,
    status: *mut aclrtEventRecordedStatus,
) -> Result<(), Fault> {
    non_null(status, "status")?;
    let mut runtime = state::ready()?;
    let key = runtime.event_key(event)?;
    let device = runtime.event(key).device;
    let recording = runtime.host_recording(key)?;
    let is_done = recording.as_ref().is_none_or(|recording| recording.done.get().is_some());
    let value = if is_done {
        learn(&mut runtime, recording.as_deref());
        aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_COMPLETE
    } else {
        runtime.device(device)?.hold_until = None;
        CHANGED.notify_all();
        aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY
    };
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(status, value, "status") }
}

/// What was past at a recording is past for the host now.
fn learn(runtime: &mut Guard, recording: Option<&Recording>) {
    if let Some(done) = recording.and_then(|recording| recording.done.get()) {
        runtime.host.join(&done.clock);
    }
}

pub(crate) fn aclrtSynchronizeEvent(event: aclrtEvent) -> Result<(), Fault> {
    synchronize(event, None)
}

pub(crate) fn aclrtSynchronizeEventWithTimeout(event: aclrtEvent, timeout: i32) -> Result<(), Fault> {
    synchronize(event, wait::timeout_of(timeout)?)
}

fn synchronize(event: aclrtEvent, timeout: Option<Duration>) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.event_key(event)?;
    let (device, name) = (runtime.event(key).device, runtime.event(key).name());
    let Some(recording) = runtime.host_recording(key)? else { return Ok(()) };
    runtime.stats.synchronisations += 1;
    let is_done;
    (runtime, is_done) = wait::until(runtime, device, timeout, |_| recording.done.get().is_some());
    if !is_done {
        let message = format!("{name} was not reached in time");
        return Err(Fault::new(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, message));
    }
    learn(&mut runtime, Some(&recording));
    match runtime.streams.at_mut(recording.stream) {
        Some(stream) => stream.tell_fault(),
        None => Ok(()),
    }
}

pub(crate) unsafe fn aclrtEventElapsedTime(
    ms: *mut f32,
    start: aclrtEvent,
    end: aclrtEvent,
) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let keys = [runtime.event_key(start)?, runtime.event_key(end)?];
    let [start, end] = keys.map(|key| {
        let Event { flags, latest, .. } = runtime.event(key);
        let has_time = *flags & ACL_EVENT_TIME_LINE != 0;
        latest.as_ref().filter(|_| has_time).map(Arc::clone)
    });
    let at = |recording: &Option<Arc<Recording>>| {
        recording.as_ref().and_then(|r| r.done.get()).map(|done| done.at)
    };
    let (Some(start), Some(end)) = (at(&start), at(&end)) else {
        let message = "an event has no time: it needs ACL_EVENT_TIME_LINE and a record that was reached";
        return Err(Fault::new(ACL_ERROR_RT_INTERNAL_ERROR, message));
    };
    let seconds = if end >= start { (end - start).as_secs_f32() } else { -(start - end).as_secs_f32() };
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(ms, seconds * 1e3, "ms") }
}

pub(crate) unsafe fn aclrtGetEventId(event: aclrtEvent, id: *mut u32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.event_key(event)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(id, runtime.event(key).id, "eventId") }
}

pub(crate) unsafe fn aclrtGetEventAvailNum(num: *mut u32) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let device = runtime.context()?.1.device;
    let left = MAX_EVENTS - runtime.device(device)?.num_events;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(num, left as u32, "eventCount") }
}
