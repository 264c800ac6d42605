//! Who runs what when. Every device has one worker. It rests until somebody waits for the device, or nobody has called it for a while
//! drawn at random; then it takes, again and again, the next task of a stream drawn among those whose next task is ready. So the order
//! is that of the seed, unless the calls themselves are slow or tasks wait for other ranks.

mod run;
pub(crate) mod wait;

use crate::capture::graph::Node;
use crate::capture::replay::GraphRun;
use crate::state::{self, CHANGED, Guard, Runtime};
use crate::stream::{Attempt, Item, QUEUE_DEPTH};
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

/// A device that nobody waits for rests at least so long after the last call that gave it something.
const MIN_HOLD_US: u64 = 500;
/// And at most so long.
const MAX_HOLD_US: u64 = 5000;
/// One task of so many is late.
const DELAY_ONE_IN: u64 = 64;
/// So late at most.
const MAX_DELAY_US: u64 = 60;

/// Where a task is taken from: a stream, and a lane if a graph is at its front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stream: usize,
    pub(crate) lane: Option<usize>,
}

/// Tells the worker of `device` that `stream` has something queued.
pub(crate) fn wake_worker(runtime: &mut Runtime, device: i32, stream: usize) {
    let Ok(device) = runtime.device(device) else { return };
    let hold = MIN_HOLD_US + device.random.below(MAX_HOLD_US - MIN_HOLD_US);
    device.hold_until = Some(Instant::now() + Duration::from_micros(hold));
    device.active.insert(stream);
    if !device.has_worker {
        device.has_worker = true;
        let id = device.id;
        thread::spawn(move || work(id));
    }
    if device.is_idle {
        CHANGED.notify_all();
    }
}

/// The life of a worker.
fn work(device: i32) {
    let mut runtime = state::lock();
    loop {
        let now = Instant::now();
        let (ready, blocked_until) = candidates(&runtime, device, now);
        let held = hold(&runtime, device, now);
        if ready.is_empty() || held.is_some() {
            let wake = if ready.is_empty() { blocked_until } else { held };
            runtime.devices[device as usize].is_idle = ready.is_empty();
            runtime = sleep(runtime, wake.map(|wake| wake.saturating_duration_since(now)));
            runtime.devices[device as usize].is_idle = false;
            continue;
        }
        let random = &mut runtime.devices[device as usize].random;
        let index = random.below(ready.len() as u64) as usize;
        runtime = run::step(runtime, device, ready[index]);
    }
}

fn sleep(runtime: Guard, time: Option<Duration>) -> Guard {
    match time {
        None => CHANGED.wait(runtime).unwrap_or_else(PoisonError::into_inner),
        Some(time) => CHANGED.wait_timeout(runtime, time).unwrap_or_else(PoisonError::into_inner).0,
    }
}

/// Until when the device rests, if it does: nobody waits for it, and no queue is full.
fn hold(runtime: &Runtime, device: i32, now: Instant) -> Option<Instant> {
    let device = &runtime.devices[device as usize];
    let is_full = |key: &usize| runtime.streams.at(*key).is_some_and(|s| s.queue.len() >= QUEUE_DEPTH);
    if device.waiters > 0 || device.active.iter().any(is_full) {
        return None;
    }
    device.hold_until.filter(|until| *until > now)
}

/// The places whose next task is ready, and when the first of those that are blocked is to be asked again.
fn candidates(runtime: &Runtime, device: i32, now: Instant) -> (Vec<Place>, Option<Instant>) {
    let (mut ready, mut blocked_until) = (Vec::new(), None::<Instant>);
    let mut consider = |place: Place, attempt: Option<Attempt>| match attempt {
        Some(Attempt { not_before, .. }) if not_before > now => {
            blocked_until = Some(blocked_until.map_or(not_before, |other| other.min(not_before)));
        }
        _ => ready.push(place),
    };
    for &key in &runtime.devices[device as usize].active {
        let Some(stream) = runtime.streams.at(key) else { continue };
        let Some(front) = stream.queue.front() else { continue };
        match &front.item {
            Item::Wait(recording) if recording.done.get().is_none() => {}
            Item::Graph(run) if run.is_started => {
                for (index, lane) in run.lanes.iter().enumerate() {
                    if runtime.is_node_ready(run, index, lane.next) {
                        consider(Place { stream: key, lane: Some(index) }, lane.site.attempt);
                    }
                }
            }
            _ => consider(Place { stream: key, lane: None }, stream.site.attempt),
        }
    }
    (ready, blocked_until)
}

impl Runtime {
    /// Whether the node at `next` of a lane can be run.
    fn is_node_ready(&self, run: &GraphRun, lane: usize, next: usize) -> bool {
        let node = self.graphs.at(run.graph).and_then(|graph| graph.lanes[lane].nodes.get(next));
        match node {
            None => false,
            Some(Node::Wait { lane, node }) => run.marks.contains_key(&(*lane, *node)),
            Some(Node::SignalWait(event)) => {
                self.events.at(*event).is_none_or(|event| event.signal.is_some())
            }
            Some(Node::ExternalWait(_)) => {
                run.externals.get(&(lane, next)).is_none_or(|recording| recording.done.get().is_some())
            }
            Some(_) => true,
        }
    }
}
