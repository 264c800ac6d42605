//! Capture and replay of a part.

use super::context::Context;
use super::owned::Owned;
use ascend_rs_sys::types::*;
use std::rc::Rc;
use titan_ir::Diag;

/// A captured part.
#[derive(Debug)]
pub(super) struct Graph<'a>(Owned<'a, aclmdlRI>);

/// Only calls of the capturing thread are watched: one that would synchronise is refused instead of being left out of the graph, and
/// other threads (data, other ranks, CANN's own) go on as they like.
const MODE: aclmdlRICaptureMode = aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;

impl<'a> Graph<'a> {
    /// Captures what `issue` puts on `stream` and on the streams that join it. Nothing is executed.
    ///
    /// # Errors
    /// Of `issue`; T0759 when CANN makes no graph of it.
    pub(super) fn capture(
        context: &Rc<Context<'a>>,
        stream: aclrtStream,
        issue: impl FnOnce() -> Result<(), Diag>,
    ) -> Result<Self, Diag> {
        let acl = context.acl();
        // SAFETY: the stream is this context's.
        context.check(unsafe { acl.aclmdlRICaptureBegin(stream, MODE) }).map_err(refused)?;
        let issued = issue();
        let mut graph = aclmdlRI::NULL;
        // SAFETY: the stream captures; the handle is written.
        let ended = unsafe { acl.aclmdlRICaptureEnd(stream, &mut graph) };
        // SAFETY: see `Owned`.
        let destroy = |cann: &'static super::cann::Cann, graph| unsafe { cann.acl.aclmdlRIDestroy(graph) };
        let graph = (!graph.is_null()).then(|| Self(Owned::new(context, graph, destroy)));
        // What went wrong first is the cause: the end of a broken capture has nothing to add.
        issued?;
        context.check(ended).map_err(refused)?;
        graph.ok_or_else(|| refused(context.place_of(Diag::new("T0759", "CANN made no graph"))))
    }

    /// Queues everything in it.
    ///
    /// # Errors
    /// T0742 when that fails.
    pub(super) fn replay(&self, context: &Context<'_>, stream: aclrtStream) -> Result<(), Diag> {
        // SAFETY: the graph is whole, and what it refers to lives as long as this rank's device.
        context.check(unsafe { context.acl().aclmdlRIExecuteAsync(self.0.get(), stream) })
    }
}

fn refused(mut diag: Diag) -> Diag {
    diag.message = format!("the step cannot be captured: {}", diag.message);
    diag.code = "T0759";
    diag.help("`--no-capture` runs the same calls without a graph, more slowly")
}
