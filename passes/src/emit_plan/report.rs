//! Where the bytes go: sums that add up to what the runtime maps, and the largest buffers at the peak.

use crate::place::{Home, Interval, Placement, aligned};
use crate::schedule::streams::lowering;
use std::cmp::Reverse;
use titan_ir::kernel::{CollectiveKind, Workspace};
use titan_ir::plan::{Category, MemoryReport, PeakBuffer};
use titan_ir::{Lowering, Module, Phase, ResultKind, Role, ValueId};

/// Buffers listed.
const NUM_LARGEST: usize = 20;

/// The report and the largest buffers in use at the entry that uses most.
pub(super) fn report(
    module: &Module,
    placement: &Placement,
    workspace: Workspace,
) -> (MemoryReport, Vec<PeakBuffer>) {
    let categories = categories(module, placement);
    let at = peak_entry(placement);
    let mut report = MemoryReport {
        workspace_bytes: workspace.shared_bytes,
        workspace_per_thread_bytes: workspace.per_thread_bytes,
        communication_bytes: 0,
        ..MemoryReport::default()
    };
    let mut buffers = Vec::new();
    for state in &placement.states {
        let category = match state.role {
            Role::Param => Category::Params,
            Role::Optimizer => Category::Optimizer,
            Role::GradAccum => Category::Grads,
            Role::Buffer | Role::Input => Category::Buffers,
        };
        let func = &module.funcs[state.first.0 as usize];
        let ty = func.ty(func.params[state.first.1 as usize].value);
        let (dtype, dims, size_bytes) = (ty.dtype, ty.dims.clone(), aligned(state.size_bytes));
        add(&mut report, category, size_bytes);
        buffers.push(PeakBuffer { path: state.name.clone(), category, dtype, dims, size_bytes });
    }
    let mut in_use_bytes = 0;
    for ((interval, _), &category) in placement.buffers.iter().zip(&categories) {
        if interval.start <= at && at <= interval.end {
            in_use_bytes += interval.size_bytes;
            add(&mut report, category, interval.size_bytes);
            buffers.push(describe(module, interval, category));
        }
    }
    // What no buffer uses at that moment is fragmentation.
    report.activations_bytes += placement.step_bytes - in_use_bytes;
    buffers.sort_by(|a, b| (Reverse(a.size_bytes), &a.path).cmp(&(Reverse(b.size_bytes), &b.path)));
    buffers.truncate(NUM_LARGEST);
    (report, buffers)
}

fn add(report: &mut MemoryReport, category: Category, bytes: u64) {
    *match category {
        Category::Params => &mut report.params_bytes,
        Category::Grads => &mut report.grads_bytes,
        Category::Optimizer => &mut report.optimizer_bytes,
        Category::Buffers => &mut report.buffers_bytes,
        Category::Activations => &mut report.activations_bytes,
        Category::Collectives => &mut report.collectives_bytes,
    } += bytes;
}

/// The first entry at which most bytes are in use.
fn peak_entry(placement: &Placement) -> u32 {
    let mut changes: Vec<(u32, i64)> = Vec::new();
    for (interval, _) in &placement.buffers {
        let bytes = i64::try_from(interval.size_bytes).expect("a buffer is smaller than 2^63 bytes");
        changes.extend([(interval.start, bytes), (interval.end + 1, -bytes)]);
    }
    changes.sort_unstable();
    let (mut now, mut most, mut at) = (0, 0, 0);
    for (entry, bytes) in changes {
        now += bytes;
        if now > most {
            (most, at) = (now, entry);
        }
    }
    at
}

fn describe(module: &Module, interval: &Interval, category: Category) -> PeakBuffer {
    let func = &module.funcs[interval.func as usize];
    let param = func.params.iter().find(|p| p.value == interval.value).map(|p| p.name.clone());
    let maker =
        || func.nodes.iter().find(|n| n.outs.contains(&interval.value)).map(|n| func.path(n.loc).to_owned());
    let ty = func.ty(interval.value);
    PeakBuffer {
        path: param.or_else(maker).unwrap_or_default(),
        category,
        dtype: ty.dtype,
        dims: ty.dims.clone(),
        size_bytes: interval.size_bytes,
    }
}

/// What the values in a buffer are.
#[derive(Debug, Clone, Copy, Default)]
struct Roles {
    /// Something a collective reads or writes.
    communicated: bool,
    /// The result of a reduction.
    reduced: bool,
    /// Made in the backward phase.
    backward: bool,
    /// Read by the update.
    updates: bool,
}

/// The category of every buffer of the step arena.
fn categories(module: &Module, placement: &Placement) -> Vec<Category> {
    let mut roles = vec![Roles::default(); placement.buffers.len()];
    for (f, func) in module.funcs.iter().enumerate() {
        let mut mark = |value: ValueId, set: &dyn Fn(&mut Roles)| {
            if let Some(Home::Step(b)) = placement.homes[f][value.index()] {
                set(&mut roles[b as usize]);
            }
        };
        for node in &func.nodes {
            let kind = match lowering(func, node) {
                Lowering::Collective(kind, _) => Some(kind),
                _ => None,
            };
            let reduces =
                matches!(kind, Some(CollectiveKind::ReduceScatter(_) | CollectiveKind::AllReduce(_)));
            for &v in &node.ins {
                mark(v, &|r| r.communicated |= kind.is_some());
                mark(v, &|r| r.updates |= node.phase == Phase::Update && kind.is_none());
            }
            for &v in &node.outs {
                mark(v, &|r| r.communicated |= kind.is_some());
                mark(v, &|r| r.reduced |= reduces);
                mark(v, &|r| r.backward |= node.phase == Phase::Backward);
            }
        }
        for result in func.results.iter().filter(|r| matches!(r.kind, ResultKind::Update(_))) {
            mark(result.value, &|r| r.updates = true);
        }
    }
    let category = |r: Roles| {
        if r.updates && (r.backward || r.reduced) {
            Category::Grads
        } else if r.communicated {
            Category::Collectives
        } else {
            Category::Activations
        }
    };
    roles.into_iter().map(category).collect()
}
