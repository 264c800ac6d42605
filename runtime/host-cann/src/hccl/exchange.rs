//! A task that asks the hub and waits for its answer.

use super::communicators::{Communicator, current_device};
use super::connection::Awaited;
use super::wire::Request;
use super::{fault, lock};
use crate::fault::Fault;
use crate::span::Span;
use crate::task::{Progress, Task, TaskContext, submit};
use ascend_rs_sys::types::*;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A question to the hub, made anew at every execution.
pub(super) struct Question {
    pub(super) request: Request,
    /// Where the bytes that go with it are.
    pub(super) gives: Vec<Span>,
    pub(super) awaited: Awaited,
    /// Where the bytes of the answer go.
    pub(super) gets: Vec<Span>,
}

/// Makes the questions of one execution.
pub(super) type Ask = Box<dyn Fn(&Communicator) -> Vec<Question> + Send + Sync>;

/// Submits a task that asks and waits.
///
/// # Errors
/// PARA: the communicator is of another device than this thread.
pub(super) fn submit_exchange(
    communicator: Arc<Communicator>,
    stream: aclrtStream,
    name: &str,
    [reads, writes]: [Vec<Span>; 2],
    ask: Ask,
) -> Result<(), Fault> {
    let device = current_device()?;
    if device != communicator.device {
        let text =
            format!("{} is of device {}; this thread's is {device}", communicator.name, communicator.device);
        return Err(fault(HcclResult::HCCL_E_PARA, text));
    }
    let exchange = Exchange { communicator, name: name.to_owned(), ask, open: Mutex::default() };
    let exchange = Arc::new(exchange);
    let run = move |context: &TaskContext| exchange.attempt(context);
    let full = |spans: Vec<Span>| spans.into_iter().filter(|span| span.len > 0).collect();
    let task = Task {
        name: name.to_owned(),
        reads: full(reads),
        writes: full(writes),
        workspace: None,
        run: Arc::new(run),
    };
    submit(stream, task)
}

struct Exchange {
    communicator: Arc<Communicator>,
    name: String,
    ask: Ask,
    /// What is not answered yet, of which execution, since when.
    open: Mutex<Option<(u64, Instant, Vec<Question>)>>,
}

impl Exchange {
    fn attempt(&self, context: &TaskContext) -> Progress {
        let mut open = lock(&self.open);
        if open.as_ref().is_none_or(|(launch, ..)| *launch != context.launch) {
            if self.communicator.is_closed() {
                let text = format!("the communicator {} was destroyed", self.communicator.name);
                return Progress::Failed(Fault::new(ACL_ERROR_RT_FFTS_PLUS_EXCEPTION, text));
            }
            let questions = (self.ask)(&self.communicator);
            questions.iter().for_each(|question| self.tell(question));
            *open = Some((context.launch, Instant::now(), questions));
        }
        let (_, since, questions) = open.as_mut().expect("it was just put there");
        match self.collect(questions, *since) {
            Ok(true) => {
                *open = None;
                Progress::Done
            }
            Ok(false) => Progress::Blocked,
            Err(fault) => {
                *open = None;
                self.communicator.fail();
                Progress::Failed(fault)
            }
        }
    }

    fn tell(&self, question: &Question) {
        let full = question.gives.iter().filter(|span| span.len > 0);
        let pieces = full.map(|span| {
            // SAFETY: the task reads these spans, which the scheduler found inside live allocations.
            unsafe { std::slice::from_raw_parts(span.start as *const u8, span.len) }
        });
        self.communicator.connection.tell(&question.request, &pieces.collect::<Vec<_>>().concat());
    }

    /// Takes the answers that have come; whether that was the last.
    fn collect(&self, questions: &mut Vec<Question>, since: Instant) -> Result<bool, Fault> {
        let Communicator { connection, group, rank, settings, .. } = &*self.communicator;
        let mut waiting = Vec::new();
        for question in questions.drain(..) {
            match connection.poll(group, &question.awaited)? {
                Some(bytes) => put(&question.gets, &bytes),
                None => waiting.push(question),
            }
        }
        *questions = waiting;
        if !questions.is_empty() && settings.timeout.is_some_and(|timeout| since.elapsed() > timeout) {
            let what = self.name.clone();
            connection.tell(&Request::GiveUp { group: group.clone(), rank: *rank, what }, &[]);
        }
        Ok(questions.is_empty())
    }
}

/// Spreads bytes over spans.
fn put(spans: &[Span], bytes: &[u8]) {
    let mut at = 0;
    for span in spans {
        let piece = &bytes[at..at + span.len];
        // SAFETY: the task writes these spans, which the scheduler found inside live allocations.
        unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), span.start as *mut u8, span.len) };
        at += span.len;
    }
}
