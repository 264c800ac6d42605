//! The host waits.

use crate::fault::Fault;
use crate::state::{CHANGED, Guard, Runtime};
use ascend_rs_sys::types::*;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Waits until `done`, while the worker of `device` runs without rest. False: `timeout` has passed before.
pub(crate) fn until(
    mut runtime: Guard,
    device: i32,
    timeout: Option<Duration>,
    mut done: impl FnMut(&mut Runtime) -> bool,
) -> (Guard, bool) {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let count = |runtime: &mut Runtime, change: isize| {
        if let Ok(device) = runtime.device(device) {
            device.waiters = device.waiters.saturating_add_signed(change);
        }
        CHANGED.notify_all();
    };
    if done(&mut runtime) {
        return (runtime, true);
    }
    count(&mut runtime, 1);
    let is_done = loop {
        if done(&mut runtime) {
            break true;
        }
        runtime = match deadline {
            None => CHANGED.wait(runtime).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break false;
                }
                CHANGED.wait_timeout(runtime, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    };
    count(&mut runtime, -1);
    (runtime, is_done)
}

/// Waits until `done`, which what runs at the moment may keep from being so.
pub(crate) fn watch(mut runtime: Guard, device: i32, done: impl FnMut(&mut Runtime) -> bool) -> Guard {
    runtime.num_watchers += 1;
    let (mut runtime, _) = until(runtime, device, None, done);
    runtime.num_watchers -= 1;
    runtime
}

/// The time-out of a call in milliseconds, of which -1 is none.
///
/// # Errors
/// 107000: it is another negative number.
pub(crate) fn timeout_of(ms: i32) -> Result<Option<Duration>, Fault> {
    match ms {
        -1 => Ok(None),
        _ => u64::try_from(ms)
            .map(|ms| Some(Duration::from_millis(ms)))
            .map_err(|_| Fault::parameter(format!("a time-out of {ms} ms: it is -1 for none, or positive"))),
    }
}

/// Waits for all that is queued in `streams` now, and tells the first fault.
///
/// # Errors
/// 507046: not in time. Any fault of a task.
pub(crate) fn for_streams(
    mut runtime: Guard,
    device: i32,
    streams: &[usize],
    timeout: Option<Duration>,
) -> Result<Guard, Fault> {
    runtime.stats.synchronisations += 1;
    let targets: Vec<(usize, u64)> =
        streams.iter().filter_map(|&key| Some((key, runtime.streams.at(key)?.submitted))).collect();
    let is_done;
    (runtime, is_done) = until(runtime, device, timeout, |runtime| {
        targets
            .iter()
            .all(|&(key, target)| runtime.streams.at(key).is_none_or(|stream| stream.finished >= target))
    });
    if !is_done {
        let names: Vec<_> = streams.iter().filter_map(|&key| Some(runtime.streams.at(key)?.name())).collect();
        let message = format!("{} did not end in time", names.join(", "));
        return Err(Fault::new(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, message));
    }
    for &key in streams {
        let Some(stream) = runtime.streams.at_mut(key) else { continue };
        let clock = stream.site.clock.clone();
        let told = stream.tell_fault();
        runtime.host.join(&clock);
        told?;
    }
    Ok(runtime)
}
