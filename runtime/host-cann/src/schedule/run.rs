//! One step of a worker: one item of a stream, or one node of a graph.

use super::{DELAY_ONE_IN, MAX_DELAY_US, Place};
use crate::boundary::own_fault;
use crate::clock::Clock;
use crate::event::Done;
use crate::fault::Fault;
use crate::kernel::{device_pointers, resolve};
use crate::memory::mapping::FRESH;
use crate::shadow::Access;
use crate::span::Span;
use crate::state::{self, CHANGED, Guard, Runtime};
use crate::stream::{Attempt, Item, Site, Work, WorkKind};
use crate::task::{Progress, Task, TaskContext};
use ascend_rs_sys::types::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Alignment of what a kernel of a binary is given.
const KERNEL_ALIGN: usize = 32;

/// Runs what is next at `place`.
pub(super) fn step(mut runtime: Guard, device: i32, place: Place) -> Guard {
    let Some(work) = runtime.next_work(place) else {
        return tell(runtime);
    };
    let attempt = runtime.attempt(device, place);
    match runtime.admit(&work, device, place, attempt.count == 0) {
        Ok(()) => {
            let progress;
            (runtime, progress) = execute(runtime, device, place, &work, attempt);
            runtime.settle(place, &work, attempt, progress);
        }
        Err(fault) => runtime.settle(place, &work, attempt, Progress::Failed(fault)),
    }
    tell(runtime)
}

/// Wakes who may have waited for this step.
fn tell(mut runtime: Guard) -> Guard {
    if std::mem::take(&mut runtime.has_news) || runtime.num_watchers > 0 {
        CHANGED.notify_all();
    }
    runtime
}

/// Runs a task while others may use the state.
fn execute(
    mut runtime: Guard,
    device: i32,
    place: Place,
    work: &Work,
    attempt: Attempt,
) -> (Guard, Progress) {
    let task = &work.task;
    let random = &mut runtime.devices[device as usize].random;
    let is_late = attempt.count == 0 && random.below(DELAY_ONE_IN) == 0;
    let delay = if is_late { random.below(MAX_DELAY_US) } else { 0 };
    let graph = place.lane.and_then(|_| runtime.replayed_graph(place.stream));
    let Attempt { launch, seed, count, .. } = attempt;
    let context = TaskContext { device, launch, attempt: count, seed, graph };
    let host = work.host_reads.iter().chain(&work.host_writes);
    let spans = task.reads.iter().chain(&task.writes).chain(&task.workspace).chain(host);
    let pin = runtime.memory.pin(spans.copied());
    runtime.devices[device as usize].is_busy = true;
    drop(runtime);
    if delay > 0 {
        thread::sleep(Duration::from_micros(delay));
    }
    if let (Some(Span { start, len }), 0) = (task.workspace, count) {
        // SAFETY: the span is inside a live allocation, which is pinned; what the caller left there is not to be used.
        unsafe { std::ptr::write_bytes(start as *mut u8, FRESH, len) };
    }
    let progress = catch_unwind(AssertUnwindSafe(|| (task.run)(&context)))
        .unwrap_or_else(|panic| Progress::Failed(own_fault(&*panic)));
    let mut runtime = state::lock();
    runtime.devices[device as usize].is_busy = false;
    runtime.memory.unpin(pin);
    (runtime, progress)
}

impl Runtime {
    fn site(&mut self, place: Place) -> Option<&mut Site> {
        let stream = self.streams.at_mut(place.stream)?;
        match (place.lane, stream.queue.front_mut()) {
            (None, _) => Some(&mut stream.site),
            (Some(lane), Some(queued)) => match &mut queued.item {
                Item::Graph(run) => Some(&mut run.lanes[lane].site),
                _ => None,
            },
            (Some(_), None) => None,
        }
    }

    /// The task at `place`; none if it was something else, which is over then.
    fn next_work(&mut self, place: Place) -> Option<Arc<Work>> {
        if let Some(lane) = place.lane {
            return self.next_node(place.stream, lane);
        }
        let stream = self.streams.at_mut(place.stream)?;
        let queued = stream.queue.front()?;
        stream.site.clock.join(&queued.host);
        let clock = &mut stream.site.clock;
        match &queued.item {
            Item::Work(work) => return Some(Arc::clone(work)),
            Item::Graph(_) => {
                self.start_replay(place.stream);
                return None;
            }
            Item::Record(recording) => {
                let _ = recording.done.set(Done { clock: clock.clone(), at: Instant::now() });
            }
            Item::Wait(recording) => {
                if let Some(done) = recording.done.get() {
                    clock.join(&done.clock);
                }
            }
            Item::Signal(event) => {
                if let Some(event) = self.events.at_mut(*event) {
                    event.signal = Some(clock.clone());
                }
            }
            Item::Reset(event) => {
                if let Some(event) = self.events.at_mut(*event) {
                    event.signal = None;
                }
            }
            Item::Update(graph, replacements) => {
                if let Some(graph) = self.graphs.at_mut(*graph) {
                    graph.replace(replacements);
                }
            }
        }
        self.pop(place.stream);
        None
    }

    /// Ends the item at the front of a stream.
    pub(crate) fn pop(&mut self, key: usize) {
        self.has_news = true;
        let Some(stream) = self.streams.at_mut(key) else { return };
        stream.queue.pop_front();
        stream.finished += 1;
        stream.site.attempt = None;
        let device = stream.device;
        if stream.queue.is_empty()
            && let Ok(device) = self.device(device)
        {
            device.active.remove(&key);
        }
    }

    /// This attempt at the task at `place`.
    fn attempt(&mut self, device: i32, place: Place) -> Attempt {
        if let Some(attempt) = self.site(place).and_then(|site| site.attempt) {
            return attempt;
        }
        let (launch, seed) = (self.new_launch(), self.devices[device as usize].random.next());
        let new = Attempt { launch, seed, count: 0, not_before: Instant::now() };
        if let Some(site) = self.site(place) {
            site.attempt = Some(new);
        }
        new
    }

    /// Checks the memory of a task and, the first time, the order of its accesses.
    fn admit(&mut self, work: &Work, device: i32, place: Place, is_first: bool) -> Result<(), Fault> {
        let check = |span: &Span, verb: &str| match work.peer {
            _ if span.len == 0 => Ok(()),
            Some(peer) if self.memory.check(*span, peer, verb).is_ok() => Ok(()),
            _ => self.memory.check(*span, device, verb),
        };
        let Task { reads, writes, workspace, .. } = &work.task;
        let (mut reads, mut writes) = (reads.clone(), writes.clone());
        writes.extend(workspace);
        if let Some((block, parameters)) = &work.indirect {
            check(block, "reads its arguments from")?;
            // SAFETY: the block was just found live, under the lock.
            let pointers = unsafe { device_pointers(*block) };
            let (more_reads, more_writes) = resolve(parameters, &pointers);
            reads.extend(more_reads);
            writes.extend(more_writes);
        }
        let is_off = |span: &&Span| work.kind == WorkKind::Kernel && !span.start.is_multiple_of(KERNEL_ALIGN);
        if let Some(span) = reads.iter().chain(&writes).find(is_off) {
            let message = format!("its argument {span} is not aligned to {KERNEL_ALIGN} bytes");
            return Err(Fault::new(ACL_ERROR_RT_AICORE_EXCEPTION, message));
        }
        reads.iter().try_for_each(|span| check(span, "reads"))?;
        writes.iter().try_for_each(|span| check(span, "writes"))?;
        let is_live = |span: &Span| self.memory.is_whole(*span);
        let mut host = work.host_reads.iter().chain(&work.host_writes);
        if let Some(gone) = host.find(|span| !is_live(span)) {
            let message = format!("its host memory {gone} is {}", self.memory.describe(gone.start));
            return Err(Fault::new(ACL_ERROR_RT_SYS_DMA, message));
        }
        if !is_first {
            return Ok(());
        }
        reads.extend(&work.host_reads);
        writes.extend(&work.host_writes);
        self.order(&work.task.name, &reads, &writes, place)
    }

    /// Checks that the accesses of a task are ordered after all they meet.
    fn order(&mut self, task: &str, reads: &[Span], writes: &[Span], place: Place) -> Result<(), Fault> {
        let name = format!("{task} on {}", self.describe_place(place)).into();
        let Some(site) = self.site(place) else { return Ok(()) };
        let (component, time) = (site.component, site.clock.tick(site.component));
        let clock = site.clock.clone();
        self.shadow.access(reads, writes, &Access { component, time, name }, &clock).map_err(|race| {
            self.stats.races += 1;
            Fault::new(ACL_ERROR_RT_DEVICE_MEM_ERROR, race.to_string())
        })
    }

    /// What errors call the place of a task.
    pub(crate) fn describe_place(&self, place: Place) -> String {
        let Some(stream) = self.streams.at(place.stream) else { return "a stream".to_owned() };
        match (place.lane, self.replayed_graph(place.stream)) {
            (Some(lane), Some(graph)) => format!("{} (stream {lane} of graph {graph})", stream.name()),
            _ => stream.name(),
        }
    }

    /// Takes note of how an attempt went.
    fn settle(&mut self, place: Place, work: &Work, attempt: Attempt, progress: Progress) {
        if progress == Progress::Blocked {
            let pause = Duration::from_micros(20 << attempt.count.min(6));
            if let Some(site) = self.site(place) {
                let (count, not_before) = (attempt.count + 1, Instant::now() + pause);
                site.attempt = Some(Attempt { count, not_before, ..attempt });
            }
            return;
        }
        let fault = match progress {
            Progress::Failed(fault) => {
                Some(fault.of(&format!("{} on {}", work.task.name, self.describe_place(place))))
            }
            _ => None,
        };
        self.stats.tasks += 1;
        self.stats.kernels += u64::from(work.kind == WorkKind::Kernel);
        self.stats.replayed_tasks += u64::from(place.lane.is_some());
        match (place.lane, fault) {
            (Some(lane), None) => self.end_node(place.stream, lane),
            (Some(_), Some(fault)) => self.abort_replay(place.stream, fault),
            (None, fault) => {
                self.pop(place.stream);
                fault.into_iter().for_each(|fault| self.fail(place.stream, fault));
            }
        }
    }

    /// Keeps the first fault of a stream until somebody asks. If faults stop the stream, its queue goes.
    pub(crate) fn fail(&mut self, key: usize, fault: Fault) {
        self.stats.faults += 1;
        let Some(stream) = self.streams.at_mut(key) else { return };
        stream.fault.get_or_insert(fault);
        if stream.failure_mode != 0 {
            self.drop_queue(key);
        }
    }

    /// Takes out all that is queued in a stream.
    pub(crate) fn drop_queue(&mut self, key: usize) {
        self.has_news = true;
        let Some(stream) = self.streams.at_mut(key) else { return };
        let dropped = std::mem::take(&mut stream.queue);
        stream.finished = stream.submitted;
        stream.site.attempt = None;
        let device = stream.device;
        let mut clock = stream.site.clock.clone();
        clock.join(&self.host);
        dropped.into_iter().for_each(|queued| self.drop_item(queued.item, &clock));
        if let Ok(device) = self.device(device) {
            device.active.remove(&key);
        }
    }

    /// Undoes what queueing `item` has promised, so that nobody waits for it. What its stream has run, until `clock`, stays ordered before it:
    /// who waited shall not be blamed for what stopped the stream.
    fn drop_item(&mut self, item: Item, clock: &Clock) {
        match item {
            Item::Record(recording) => {
                let done = Done { clock: clock.clone(), at: Instant::now() };
                let _ = recording.done.set(done);
            }
            Item::Graph(run) => self.drop_replay(*run),
            _ => {}
        }
    }
}
