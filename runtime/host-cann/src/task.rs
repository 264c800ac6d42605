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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::*;
    use ascend_rs_sys::types::*;
    use std::ffi::c_void;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn task(workspace: Option<Span>, run: impl Fn(&TaskContext) -> Progress + Send + Sync + 'static) -> Task {
        Task { name: "test".to_owned(), reads: Vec::new(), writes: Vec::new(), workspace, run: Arc::new(run) }
    }

    /// Device memory of this length.
    fn memory(len: usize) -> Span {
        let mut pointer: *mut c_void = std::ptr::null_mut();
        // SAFETY: the pointer is written.
        unsafe { aclrtMalloc(&mut pointer, len, aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST).unwrap() };
        Span::new(pointer, len)
    }

    /// One test, because the runtime is one.
    #[test]
    fn tasks_get_poisoned_scratch_may_be_blocked_and_may_fail() {
        let mut stream = aclrtStream::NULL;
        // SAFETY: no configuration file, and the stream is written.
        unsafe {
            aclInit(std::ptr::null()).unwrap();
            aclrtSetDevice(0).unwrap();
            aclrtCreateStream(&mut stream).unwrap();
        }
        let (scratch, seen) = (memory(64), Arc::new(Mutex::new(Vec::new())));
        let notes = Arc::clone(&seen);
        let run = move |context: &TaskContext| {
            let first = scratch.start as *mut u8;
            // SAFETY: the workspace is this task's.
            let before = unsafe { first.replace(1) };
            notes.lock().unwrap().push((before, context.launch, context.graph.is_some()));
            Progress::Done
        };
        aclmdlRICaptureBegin(stream, aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL).unwrap();
        submit(stream, task(Some(scratch), run)).unwrap();
        let mut graph = aclmdlRI::NULL;
        // SAFETY: the graph is written.
        unsafe { aclmdlRICaptureEnd(stream, &mut graph).unwrap() };
        aclmdlRIExecuteAsync(graph, stream).unwrap();
        aclmdlRIExecuteAsync(graph, stream).unwrap();
        aclrtSynchronizeStream(stream).unwrap();
        let notes = seen.lock().unwrap().clone();
        assert!(
            notes.len() == 2 && notes.iter().all(|(before, _, graph)| *before == 0xff && *graph),
            "{notes:?}"
        );
        assert_ne!(notes[0].1, notes[1].1, "every replay is a launch of its own");

        let attempts = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&attempts);
        let run = move |context: &TaskContext| {
            assert_eq!(context.attempt, count.fetch_add(1, Ordering::Relaxed));
            if context.attempt < 3 { Progress::Blocked } else { Progress::Done }
        };
        submit(stream, task(None, run)).unwrap();
        aclrtSynchronizeStream(stream).unwrap();
        assert_eq!(attempts.load(Ordering::Relaxed), 4);

        submit(stream, task(None, |_| Progress::Failed(Fault::new(507018, "no")))).unwrap();
        let fault = aclrtSynchronizeStream(stream).unwrap_err();
        assert!(fault.code == 507018 && fault.message.starts_with("test on stream"), "{fault:?}");
        submit(stream, task(None, |_| panic!("oh"))).unwrap();
        assert!(aclrtSynchronizeStream(stream).unwrap_err().message.contains("oh"));
        aclrtResetDevice(0).unwrap();
        aclFinalize().unwrap();
    }
}
