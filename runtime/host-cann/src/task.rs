//! Work for a stream.

use crate::capture::graph::Node;
use crate::fault::Fault;
use crate::span::Span;
use crate::state;
use crate::stream::{Item, Work, WorkKind, enqueue};
use ascend_rs_sys::types::aclrtStream;
use std::fmt;
use std::sync::Arc;

/// What became of one attempt to run a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has run.
    Done,
    /// It waits for somebody else; ask again later. Other streams go on meanwhile.
    Blocked,
    /// It will not run. The next synchronisation says so.
    Failed(Fault),
}

/// What a task is told when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskContext {
    /// The device it runs on.
    pub(crate) device: i32,
    /// Differs between executions, also between replays of one captured task; the same for every attempt of one execution.
    pub(crate) launch: u64,
    /// How often this execution was blocked before.
    pub(crate) attempt: u64,
    /// Drawn anew for every execution, for what hardware does in no fixed order.
    pub(crate) seed: u64,
    /// The number of the graph it is replayed from.
    pub(crate) graph: Option<u32>,
}

/// How a task runs.
pub(crate) type Run = Arc<dyn Fn(&TaskContext) -> Progress + Send + Sync>;

/// One operation. Everything but device memory is frozen in it when it is submitted.
#[derive(Clone)]
pub(crate) struct Task {
    /// What errors call it.
    pub(crate) name: String,
    /// All bytes it reads. Each span must be inside one live allocation of the stream's device when it runs.
    pub(crate) reads: Vec<Span>,
    /// All bytes it writes.
    pub(crate) writes: Vec<Span>,
    /// Scratch, filled with NaN before every run.
    pub(crate) workspace: Option<Span>,
    /// What it does. It may be called on any thread.
    pub(crate) run: Run,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Queues `task` on `stream`, or records it if the stream is being captured.
///
/// # Errors
/// The stream is no live stream of this thread's context, or the capture cannot take the task.
pub(crate) fn submit(stream: aclrtStream, task: Task) -> Result<(), Fault> {
    submit_work(stream, Work::new(task, WorkKind::Operator))
}

/// As [`submit`], for tasks the runtime makes itself.
pub(crate) fn submit_work(stream: aclrtStream, work: Work) -> Result<(), Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.stream_key(stream)?;
    let work = Arc::new(work);
    let found = runtime.stream(key);
    if let Some(rewriting) = &mut found.rewriting {
        rewriting.works.push(work);
        return Ok(());
    }
    if found.capture.is_some() {
        return runtime.add_node(key, Node::Work(work)).map(|_| ());
    }
    enqueue(runtime, key, Item::Work(work)).map(drop)
}
