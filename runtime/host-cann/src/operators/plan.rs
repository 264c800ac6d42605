//! What phase one has decided.

use super::launch::{Launch, Tensor};
use crate::fault::Fault;
use crate::nnopbase::is_alive;
use crate::span::Span;
use crate::task::{Progress, Task, TaskContext, submit};
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a workspace that are overwritten before a run.
const POISONED_BYTES: usize = 512 << 10;

/// The computation. Its views are those of the operands at phase two.
pub(super) type Compute = Arc<dyn Fn(&Launch<'_>) -> Result<(), Fault> + Send + Sync>;

/// What a computation ends with: nothing, or what only the device could find out.
pub(super) trait Outcome {
    fn outcome(self) -> Result<(), Fault>;
}

impl Outcome for () {
    fn outcome(self) -> Result<(), Fault> {
        Ok(())
    }
}

impl Outcome for Result<(), Fault> {
    fn outcome(self) -> Result<(), Fault> {
        self
    }
}

/// Where a tensor stands among an operator's parameters, and in a list: counted among inputs, outputs, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Input(usize, usize),
    Output(usize, usize),
    Any(usize, usize),
}

impl Place {
    /// The place in the list.
    pub(crate) fn element(self) -> usize {
        match self {
            Self::Input(_, element) | Self::Output(_, element) | Self::Any(_, element) => element,
        }
    }
}

/// A checked operator, ready to be submitted.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(super) operands: Vec<Tensor>,
    pub(crate) workspace_bytes: usize,
    /// Whether an output may be the very same view as an input.
    pub(super) in_place: bool,
    /// Whether sums are taken in a fixed order.
    pub(super) deterministic: bool,
    pub(super) compute: Compute,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("operands", &self.operands).finish_non_exhaustive()
    }
}

impl Plan {
    /// Moves an operand; whether there is one.
    pub(crate) fn move_operand(&mut self, place: Place, address: usize) -> bool {
        let found = self.operands.iter_mut().find(|tensor| tensor.is_at(place));
        let Some(tensor) = found else { return false };
        tensor.view.address = address + tensor.offset_bytes;
        true
    }

    /// Submits it.
    ///
    /// # Errors
    /// 161002: a descriptor is gone, operands overlap, or the workspace is too small; 161001: it is null.
    pub(crate) fn submit(
        self,
        name: &str,
        workspace: *mut c_void,
        workspace_size: u64,
        stream: aclrtStream,
    ) -> Result<(), Fault> {
        let invalid = |text: String| Fault::new(ACLNN_ERR_PARAM_INVALID, text);
        if let Some(gone) = self.operands.iter().find(|tensor| !is_alive(tensor.handle)) {
            return Err(invalid(format!("the descriptor of {} was destroyed before phase two", gone.name)));
        }
        if workspace_size < self.workspace_bytes as u64 {
            let demanded = self.workspace_bytes;
            return Err(invalid(format!("workspaceSize is {workspace_size}; phase one demanded {demanded}")));
        }
        if workspace.is_null() && workspace_size > 0 {
            return Err(Fault::new(ACLNN_ERR_PARAM_NULLPTR, "workspace is null and workspaceSize is not 0"));
        }
        self.refuse_overlap()?;
        let workspace = Span::new(workspace.cast_const(), self.workspace_bytes);
        if let Some(hit) = self.operands.iter().find(|tensor| tensor.span().overlaps(workspace)) {
            return Err(invalid(format!("the workspace {workspace} overlaps {}", hit.name)));
        }
        let spans = |wanted: fn(&Tensor) -> bool| {
            let tensors = self.operands.iter().filter(|t| wanted(t) && t.view.num_elements() > 0);
            tensors.map(Tensor::span).collect::<Vec<_>>()
        };
        let (reads, mut writes) = (spans(Tensor::is_read), spans(Tensor::is_written));
        writes.extend((self.workspace_bytes > 0).then_some(workspace));
        let poisoned = self.poisoned(workspace);
        let Self { operands, deterministic, compute, .. } = self;
        let run = move |context: &TaskContext| {
            let launch = Launch::new(&operands, deterministic, context.seed);
            compute(&launch).map_or_else(Progress::Failed, |()| Progress::Done)
        };
        submit(stream, Task { name: name.to_owned(), reads, writes, workspace: poisoned, run: Arc::new(run) })
    }

    /// The part of a workspace that is overwritten before every run: one somewhere in it, for overwriting all of the usual 16
    /// MiB would take longer than most operators.
    fn poisoned(&self, workspace: Span) -> Option<Span> {
        static SUBMITTED: AtomicUsize = AtomicUsize::new(0);
        let len = workspace.len.min(POISONED_BYTES);
        let places = workspace.len.div_ceil(POISONED_BYTES).max(1);
        let place = SUBMITTED.fetch_add(7, Ordering::Relaxed) % places;
        let start = workspace.start + (place * POISONED_BYTES).min(workspace.len - len);
        (len > 0).then_some(Span { start, len })
    }

    /// Fails if an output shares bytes with another operand, unless it is the same view and the operator allows it.
    fn refuse_overlap(&self) -> Result<(), Fault> {
        for (at, output) in self.operands.iter().enumerate().filter(|(_, t)| t.is_written()) {
            for (other_at, other) in self.operands.iter().enumerate() {
                let counted_already = other.is_written() && other_at <= at;
                let same = self.in_place && !other.is_written() && output.view == other.view;
                if !counted_already && !same && output.shares_bytes(other) {
                    let text = format!("{} overlaps {} in memory", output.name, other.name);
                    return Err(Fault::new(ACLNN_ERR_PARAM_INVALID, text));
                }
            }
        }
        Ok(())
    }
}
