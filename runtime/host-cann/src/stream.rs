//! Streams: queues of work that a device runs in order.

use crate::capture::replay::GraphRun;
use crate::clock::Clock;
use crate::device::MAX_STREAMS;
use crate::event::Recording;
use crate::fault::Fault;
use crate::kernel::Parameter;
use crate::schedule::{self, wait};
use crate::span::Span;
use crate::state::{CHANGED, Guard, Runtime};
use crate::task::Task;
use ascend_rs_sys::types::*;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

/// Tasks a stream holds; more have to wait.
pub(crate) const QUEUE_DEPTH: usize = 2048;

/// What kind of task this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// A task of an operator or a collective.
    Operator,
    /// A kernel of a loaded binary.
    Kernel,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A call of the host.
    Host,
}

/// A task with what only copies have.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub(crate) task: Task,
    pub(crate) kind: WorkKind,
    /// Pinned host memory it reads.
    pub(crate) host_reads: Vec<Span>,
    /// Pinned host memory it writes.
    pub(crate) host_writes: Vec<Span>,
    /// Another device whose memory it may touch.
    pub(crate) peer: Option<i32>,
    /// A block of pointers in device memory and what the kernel does with them.
    pub(crate) indirect: Option<(Span, Vec<Parameter>)>,
}

impl Work {
    /// A task without host memory.
    pub(crate) fn new(task: Task, kind: WorkKind) -> Self {
        Self { task, kind, host_reads: Vec::new(), host_writes: Vec::new(), peer: None, indirect: None }
    }
}

/// Something queued.
#[derive(Debug)]
pub(crate) enum Item {
    Work(Arc<Work>),
    /// Completes a recording.
    Record(Arc<Recording>),
    /// Waits for one.
    Wait(Arc<Recording>),
    /// Sets the signal of an external event.
    Signal(usize),
    /// Clears an event.
    Reset(usize),
    /// Replays a graph.
    Graph(Box<GraphRun>),
    /// Replaces tasks of a graph, by lane and node.
    Update(usize, Vec<((usize, usize), Arc<Work>)>),
}

/// An item and what the host knew when it queued it.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) item: Item,
    pub(crate) host: Clock,
}

/// How often the task at the front was tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// The number of the execution.
    pub(crate) launch: u64,
    pub(crate) seed: u64,
    /// Tries that were blocked.
    pub(crate) count: u64,
    /// When to try again.
    pub(crate) not_before: Instant,
}

/// Where tasks run in order: a stream, or a lane of a graph.
#[derive(Debug, Clone, Default)]
pub(crate) struct Site {
    /// What is past here.
    pub(crate) clock: Clock,
    pub(crate) component: u32,
    pub(crate) attempt: Option<Attempt>,
}

/// Tasks that will replace those of a group.
#[derive(Debug)]
pub(crate) struct Rewriting {
    pub(crate) group: usize,
    pub(crate) works: Vec<Arc<Work>>,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    pub(crate) context: usize,
    pub(crate) device: i32,
    pub(crate) is_default: bool,
    pub(crate) priority: u32,
    pub(crate) flags: u32,
    /// `ACL_CONTINUE_ON_FAILURE` or `ACL_STOP_ON_FAILURE`.
    pub(crate) failure_mode: u64,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) site: Site,
    /// Items queued since it was made.
    pub(crate) submitted: u64,
    /// Items that are over.
    pub(crate) finished: u64,
    /// The first fault nobody has been told of.
    pub(crate) fault: Option<Fault>,
    /// The graph that is being captured from it.
    pub(crate) capture: Option<usize>,
    /// The group it rewrites.
    pub(crate) rewriting: Option<Rewriting>,
}

impl Stream {
    /// What errors call it.
    pub(crate) fn name(&self) -> String {
        format!("{}stream {}", if self.is_default { "default " } else { "" }, self.id)
    }

    /// Whether faults stop it.
    fn stops(&self) -> bool {
        self.failure_mode == u64::from(ACL_STOP_ON_FAILURE)
    }

    /// Tells the caller of the fault, once unless faults stop the stream.
    pub(crate) fn tell_fault(&mut self) -> Result<(), Fault> {
        match if self.stops() { self.fault.clone() } else { self.fault.take() } {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// Fails if a capture holds the stream.
    ///
    /// # Errors
    /// 107027.
    pub(crate) fn not_capturing(&self) -> Result<(), Fault> {
        if self.capture.is_none() {
            return Ok(());
        }
        Err(Fault::new(ACL_ERROR_RT_STREAM_CAPTURED, format!("{} is being captured", self.name())))
    }
}

impl Runtime {
    /// Makes a stream.
    ///
    /// # Errors
    /// 207005: the device has no more.
    pub(crate) fn create_stream(
        &mut self,
        context: usize,
        device: i32,
        priority: u32,
        flags: u32,
        is_default: bool,
    ) -> Result<usize, Fault> {
        self.take_streams(device, 1)?;
        let site = Site { component: self.new_component(), ..Site::default() };
        let id = self.new_id();
        Ok(self.streams.insert_key(Stream {
            id,
            context,
            device,
            is_default,
            priority,
            flags,
            failure_mode: 0,
            queue: VecDeque::new(),
            site,
            submitted: 0,
            finished: 0,
            fault: None,
            capture: None,
            rewriting: None,
        }))
    }

    /// Takes `num` of the device's streams.
    ///
    /// # Errors
    /// 207005: it has no more.
    pub(crate) fn take_streams(&mut self, device: i32, num: usize) -> Result<(), Fault> {
        let num_streams = &mut self.device(device)?.num_streams;
        if *num_streams + num > MAX_STREAMS {
            let message = format!(
                "EE1023: device {device} has {MAX_STREAMS} streams, {} are in use, those of graphs included",
                *num_streams
            );
            return Err(Fault::new(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, message));
        }
        *num_streams += num;
        Ok(())
    }

    /// Gives `num` streams back.
    pub(crate) fn return_streams(&mut self, device: i32, num: usize) {
        if let Ok(device) = self.device(device) {
            device.num_streams = device.num_streams.saturating_sub(num);
        }
    }
}

/// Queues `item`. If the queue is full this waits until it is not.
///
/// # Errors
/// A fault has stopped the stream, or the stream was destroyed meanwhile.
pub(crate) fn enqueue(mut runtime: Guard, key: usize, item: Item) -> Result<Guard, Fault> {
    let stream = runtime.stream(key);
    if stream.stops() && stream.fault.is_some() {
        return stream.tell_fault().map(|()| runtime);
    }
    let device = stream.device;
    if stream.queue.len() >= QUEUE_DEPTH {
        (runtime, _) = wait::until(runtime, device, None, |runtime| {
            runtime.streams.at(key).is_none_or(|stream| stream.queue.len() < QUEUE_DEPTH)
        });
        runtime.streams.get(key as *const c_void)?;
    }
    let host = runtime.host.clone();
    let stream = runtime.stream(key);
    stream.queue.push_back(Queued { item, host });
    stream.submitted += 1;
    // What the host does from now on is not before this.
    runtime.host.tick(crate::clock::HOST);
    schedule::wake_worker(&mut runtime, device, key);
    Ok(runtime)
}

/// Ends a stream after what is queued in it.
pub(crate) fn end(mut runtime: Guard, key: usize) -> Guard {
    let Some(stream) = runtime.streams.at(key) else { return runtime };
    let (device, target) = (stream.device, stream.submitted);
    (runtime, _) = wait::until(runtime, device, None, |runtime| {
        runtime.streams.at(key).is_none_or(|stream| stream.finished >= target)
    });
    forget(&mut runtime, key);
    runtime
}

/// Takes out what is queued in a stream; only a task that runs already is waited for.
pub(crate) fn clear(mut runtime: Guard, key: usize) -> Guard {
    let Some(stream) = runtime.streams.at(key) else { return runtime };
    let device = stream.device;
    runtime =
        wait::watch(runtime, device, |runtime| runtime.device(device).is_ok_and(|device| !device.is_busy));
    runtime.drop_queue(key);
    CHANGED.notify_all();
    runtime
}

/// Ends a stream without what is queued in it.
pub(crate) fn end_now(runtime: Guard, key: usize) -> Guard {
    let mut runtime = clear(runtime, key);
    forget(&mut runtime, key);
    runtime
}

fn forget(runtime: &mut Runtime, key: usize) {
    let Ok(stream) = runtime.streams.remove(key as *const c_void) else { return };
    if let Some(fault) = stream.fault {
        runtime.leaks.push(format!("a fault nobody asked for: {}", fault.message));
    }
    runtime.host.join(&stream.site.clock);
    runtime.return_streams(stream.device, 1);
    if let Ok(device) = runtime.device(stream.device) {
        device.active.remove(&key);
    }
    CHANGED.notify_all();
}
