//! Events: marks in streams that other streams and the host wait for.

use crate::clock::Clock;
use crate::device::MAX_EVENTS;
use crate::fault::Fault;
use crate::state::Runtime;
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Which function made an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `aclrtCreateEvent`: cannot be reset.
    Plain,
    /// `aclrtCreateEventWithFlag`.
    Flagged,
    /// `aclrtCreateEventExWithFlag`: may be recorded again and captured.
    Ex,
}

/// One recording. A wait is bound to one and ignores later ones.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The stream it is of.
    pub(crate) stream: usize,
    /// Set when the stream has got there.
    pub(crate) done: OnceLock<Done>,
}

impl Recording {
    /// One that `stream` has not reached.
    pub(crate) fn of(stream: usize) -> Arc<Self> {
        Arc::new(Self { stream, done: OnceLock::new() })
    }
}

/// A recording the stream has reached.
#[derive(Debug)]
pub(crate) struct Done {
    /// What was past there.
    pub(crate) clock: Clock,
    /// When.
    pub(crate) at: Instant,
}

/// A place in a graph that is being captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Captured {
    /// The graph.
    pub(crate) graph: usize,
    /// Its lane.
    pub(crate) lane: usize,
    /// The record's place in the lane.
    pub(crate) node: usize,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// Its small number.
    pub(crate) id: u32,
    /// Its context.
    pub(crate) context: usize,
    /// Its device.
    pub(crate) device: i32,
    pub(crate) kind: Kind,
    /// `ACL_EVENT_*`.
    pub(crate) flags: u32,
    /// The latest recording outside of captures.
    pub(crate) latest: Option<Arc<Recording>>,
    /// The latest recording, if a running capture holds it.
    pub(crate) captured: Option<Captured>,
    /// For `ACL_EVENT_EXTERNAL`: it was recorded and not reset since, as the device sees it.
    pub(crate) signal: Option<Clock>,
}

impl Event {
    /// What errors call it.
    pub(crate) fn name(&self) -> String {
        format!("event {}", self.id)
    }

    /// Whether graphs wait for its record outside of them.
    pub(crate) fn is_external(&self) -> bool {
        self.kind == Kind::Flagged && self.flags & ACL_EVENT_EXTERNAL != 0
    }
}

impl Runtime {
    /// Makes an event of this thread's context.
    ///
    /// # Errors
    /// 207005: the device has no more.
    pub(crate) fn create_event(&mut self, kind: Kind, flags: u32) -> Result<*mut c_void, Fault> {
        let (context, device) = self.context().map(|(key, context)| (key, context.device))?;
        let num_events = &mut self.device(device)?.num_events;
        if *num_events >= MAX_EVENTS {
            let message = format!("device {device} has {MAX_EVENTS} events, all are in use");
            return Err(Fault::new(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, message));
        }
        *num_events += 1;
        let id = self.new_id();
        let (latest, captured, signal) = (None, None, None);
        Ok(self.events.insert(Event { id, context, device, kind, flags, latest, captured, signal }))
    }

    /// Ends an event. Recordings others wait for go on.
    ///
    /// # Errors
    /// It is no live event.
    pub(crate) fn destroy_event(&mut self, event: aclrtEvent) -> Result<Event, Fault> {
        let event = self.events.remove(event.0)?;
        let num_events = &mut self.device(event.device)?.num_events;
        *num_events = num_events.saturating_sub(1);
        Ok(event)
    }

    /// The key of an event of this thread's context.
    ///
    /// # Errors
    /// 100000: it is null. 107003: it is another context's. 107017: it is no live event.
    pub(crate) fn event_key(&self, event: aclrtEvent) -> Result<usize, Fault> {
        let found = self.events.get(event.0)?;
        let (key, _) = self.context()?;
        if found.context != key {
            let message = format!("{} belongs to another context", found.name());
            return Err(Fault::new(ACL_ERROR_RT_STREAM_CONTEXT, message));
        }
        Ok(event.0 as usize)
    }

    /// The event of a key that was just checked.
    pub(crate) fn event(&mut self, key: usize) -> &mut Event {
        self.events.at_mut(key).expect("the key was checked under this lock")
    }

    /// The latest recording of an event, for the host to wait for; none if it was never recorded.
    ///
    /// # Errors
    /// 107028: a capture holds it.
    pub(crate) fn host_recording(&mut self, key: usize) -> Result<Option<Arc<Recording>>, Fault> {
        let event = self.event(key);
        if event.captured.is_some() {
            let message = format!("{} was last recorded in a capture", event.name());
            return Err(Fault::new(ACL_ERROR_RT_EVENT_CAPTURED, message));
        }
        Ok(event.latest.clone())
    }
}

/// Ends an event its owner forgot.
pub(crate) fn leak(runtime: &mut Runtime, key: usize) {
    if let Ok(event) = runtime.destroy_event(aclrtEvent(key as *mut c_void)) {
        runtime.leaks.push(event.name());
    }
}
