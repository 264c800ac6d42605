//! Values that are not finite: where they were found, and what to say of them.

use crate::device::{Device, RankError};
use titan_ir::kernel::CollectiveKind;
use titan_ir::plan::{Action, Instr};
use titan_ir::{DType, Diag, Phase, Plan, Role};

/// Where a step was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    /// Segment of the guard.
    pub(crate) segment: usize,
    /// Its instruction in the plan.
    pub(crate) instr: usize,
}

/// The first value of a rank that is not finite, and when it was written: segment, microbatch, place in the segment from 1; 0 is
/// before the step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) order: (usize, u64, usize),
    pub(crate) what: String,
}

impl Finding {
    /// The message of the earliest finding of all ranks.
    pub(crate) fn diag(&self, rank: u64, step: u64) -> Diag {
        Diag::new("T0710", format!("step {step}: {}", self.what))
            .at(format!("rank {rank}, step {step}"))
            .note("the step was stopped before the optimizer: weights and optimizer state are those of the step before")
            .help(match (self.order, step) {
                ((0, 0, 0), 1) => "look at the weights the run started from",
                _ => "lower `optimizer.lr`, lengthen `lr_scheduler.warmup_steps`, or look at the data of this step",
            })
    }
}

/// A value that is not finite: result of an instruction, element of that, value.
pub(crate) struct Bad {
    pub(crate) result: usize,
    pub(crate) element: u64,
    pub(crate) value: f32,
}

/// What an instruction did wrong, in words.
pub(crate) fn describe(plan: &Plan, instr: &Instr, bad: &Bad) -> String {
    let phase = match instr.phase {
        Phase::Forward => "the forward pass",
        Phase::Backward => "the backward pass",
        Phase::Update => "the update",
    };
    let path = plan.locs.get(instr.loc as usize).map_or("", String::as_str);
    let kind = action_name(&instr.action);
    let Bad { result, element, value } = bad;
    format!("`{path}` ({kind}) gives {value} in {phase}, first at element {element} of result {result}")
}

/// What the last update wrote that is not finite: no later step would find it.
///
/// # Errors
/// When the device does not give its state.
pub(crate) fn after_last_step(
    device: &dyn Device,
    plan: &Plan,
    rank: u64,
) -> Result<Option<Diag>, RankError> {
    let Some(finding) = stored_value(device, plan)? else { return Ok(None) };
    let what = finding.what.replace("before the step", "after the last step");
    let diag = Diag::new("T0710", what)
        .at(format!("rank {rank}"))
        .note("the weights are not saved")
        .help("lower `optimizer.lr`, or raise `optimizer.eps`");
    Ok(Some(diag))
}

/// A weight or optimizer value that is not finite before the step.
///
/// # Errors
/// When the device does not give its state.
pub(crate) fn stored_value(device: &dyn Device, plan: &Plan) -> Result<Option<Finding>, RankError> {
    let stored =
        plan.tensors.iter().filter(|t| matches!(t.role, Some(Role::Param | Role::Optimizer | Role::Buffer)));
    for tensor in stored.filter(|t| t.dtype == DType::F32) {
        let mut bad = None;
        device.read_state(tensor, tensor.size_bytes / 4, &mut |values| {
            bad = values.iter().copied().find(|value| !value.is_finite());
        })?;
        if let Some(value) = bad {
            let what = format!("`{}` holds {value} before the step", tensor.name);
            return Ok(Some(Finding { order: (0, 0, 0), what }));
        }
    }
    Ok(None)
}

/// A word for what an instruction does.
pub(crate) fn action_name(action: &Action) -> &'static str {
    match action {
        Action::Launch { .. } => "fused",
        Action::Contract { epilogue: None, .. } => "matmul",
        Action::Contract { .. } => "matmul+",
        Action::Attention { .. } => "attention",
        Action::AttentionGrad { .. } => "attention_grad",
        Action::ScatterAdd { .. } => "scatter_add",
        Action::Collective { kind: CollectiveKind::AllGather, .. } => "all_gather",
        Action::Collective { kind: CollectiveKind::ReduceScatter(_), .. } => "reduce_scatter",
        Action::Collective { kind: CollectiveKind::AllReduce(_), .. } => "all_reduce",
        Action::Collective { kind: CollectiveKind::AllToAll, .. } => "all_to_all",
        Action::Copy { .. } => "copy",
        Action::RankSlice { .. } => "rank_slice",
        Action::Zero { .. } => "zero",
        Action::Guard { .. } => "guard",
        Action::Record { .. } => "record",
        Action::Wait { .. } => "wait",
    }
}
