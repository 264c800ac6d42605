//! What a rank runs on. The training loop, data, weights and metrics know a device only by [`Device`].

pub(crate) mod ascend;
pub(crate) mod cpu;

use crate::comm::Stopped;
use crate::diagnose::{Finding, Stop};
use crate::pool::Pool;
use titan_ir::plan::PlanTensor;
use titan_ir::{Diag, DiagResult};

/// What the host gives a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// Step, from 1.
    pub(crate) step: u64,
    /// Per microbatch: ids, labels.
    pub(crate) batches: &'a [[Vec<i32>; 2]],
}

impl Inputs<'_> {
    /// Ids and labels of a microbatch.
    pub(crate) fn batch(&self, microbatch: usize) -> &[Vec<i32>; 2] {
        &self.batches[microbatch.min(self.batches.len() - 1)]
    }

    /// The value of the plan's tensor `step`.
    pub(crate) fn index(&self) -> i32 {
        i32::try_from(self.step - 1).unwrap_or(i32::MAX)
    }
}

/// Why a rank ended early.
#[derive(Debug)]
pub(crate) enum RankError {
    /// It found something; if that is about a value of a step, where.
    Failed(Box<(Option<Finding>, Diag)>),
    /// Another rank did.
    Stopped,
}

impl From<Diag> for RankError {
    fn from(diag: Diag) -> Self {
        Self::Failed(Box::new((None, diag)))
    }
}

impl From<Stopped> for RankError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Why a step ended early.
#[derive(Debug)]
pub(crate) enum StepError {
    /// A guarded scalar is not finite; nothing of the state has been written.
    NotFinite(Stop),
    /// Anything else.
    Ended(RankError),
}

impl<E: Into<RankError>> From<E> for StepError {
    fn from(error: E) -> Self {
        Self::Ended(error.into())
    }
}

/// Writes the first elements of a state tensor, on the threads of a rank.
pub(crate) type Write<'a> = dyn FnMut(&mut [f32], &Pool) -> DiagResult<()> + 'a;

/// One rank, ready to run. All calls come from the thread that made it.
pub(crate) trait Device {
    /// Gives the first `len` elements of an f32 state tensor values; the others are zero.
    fn write_state(&mut self, tensor: &PlanTensor, len: u64, write: &mut Write<'_>) -> Result<(), RankError>;

    /// Shows the first `len` elements of an f32 state tensor.
    fn read_state(
        &self,
        tensor: &PlanTensor,
        len: u64,
        read: &mut dyn FnMut(&[f32]),
    ) -> Result<(), RankError>;

    /// Runs a step.
    fn step(&mut self, inputs: &Inputs<'_>) -> Result<(), StepError>;

    /// Loss, gradient norm, learning rate of the last step.
    fn outputs(&self) -> [f32; 3];

    /// After [`StepError::NotFinite`]: runs the step again and gives this rank's first value that is not finite.
    fn explain(&mut self, inputs: &Inputs<'_>, at: Stop) -> Result<Option<Finding>, RankError>;

    /// Bytes of device memory the rank uses.
    fn memory_bytes(&self) -> u64;

    /// Bytes it could use.
    fn capacity_bytes(&self) -> u64;

    /// Operations per second it can do in the type of the compute.
    fn peak_flops(&self) -> f64;

    /// Where the time went, if that was asked for.
    fn profile(&self) -> Option<String>;

    /// What a report says of the rank.
    fn facts(&self) -> serde_json::Value;

    /// Gives everything back, when all ranks have come to their end.
    fn close(self: Box<Self>) -> DiagResult<()>;
}
