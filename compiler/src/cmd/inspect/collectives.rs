//! The collectives of a plan.

use serde::Serialize;
use titan_ir::kernel::{CollectiveKind, ReduceKind};
use titan_ir::plan::Action;
use titan_ir::{Phase, Plan};

/// One collective of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Collective<'a> {
    /// `all_gather`, `reduce_scatter(sum)`, ...
    pub(super) kind: String,
    /// Mesh axis.
    pub(super) axis: &'a str,
    /// Ranks along it.
    pub(super) num_ranks: u64,
    /// Element type.
    pub(super) dtype: &'static str,
    /// Tensors it carries.
    pub(super) num_tensors: usize,
    /// Bytes a rank gives.
    pub(super) size_bytes: u64,
    /// How often a step runs it.
    pub(super) repeat: u64,
    /// Part of the step.
    pub(super) phase: Phase,
    /// Module path.
    pub(super) module: &'a str,
}

/// All collectives of a plan, in issue order.
pub(super) fn collectives(plan: &Plan) -> Vec<Collective<'_>> {
    let instrs = plan.segments.iter().flat_map(|s| s.instrs.iter().map(|instr| (s.repeat, instr)));
    let found = instrs.filter_map(|(repeat, instr)| {
        let Action::Collective { kind, axis, dtype, parts } = &instr.action else { return None };
        let elements: u64 = parts.iter().map(|part| part.src_len).sum();
        Some(Collective {
            kind: kind_name(*kind),
            axis: &plan.mesh.axes[axis.index()].name,
            num_ranks: plan.mesh.size(*axis),
            dtype: dtype.name(),
            num_tensors: parts.len(),
            size_bytes: elements * dtype.size_bytes() as u64,
            repeat,
            phase: instr.phase,
            module: plan.locs.get(instr.loc as usize).map_or("", String::as_str),
        })
    });
    found.collect()
}

/// The name of a kind of collective.
pub(super) fn kind_name(kind: CollectiveKind) -> String {
    let reduce = |kind: ReduceKind| match kind {
        ReduceKind::Sum => "sum",
        ReduceKind::Max => "max",
    };
    match kind {
        CollectiveKind::AllGather => "all_gather".to_owned(),
        CollectiveKind::ReduceScatter(kind) => format!("reduce_scatter({})", reduce(kind)),
        CollectiveKind::AllReduce(kind) => format!("all_reduce({})", reduce(kind)),
        CollectiveKind::AllToAll => "all_to_all".to_owned(),
    }
}
