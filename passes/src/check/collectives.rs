//! Collectives: every rank reaches the end of the step.
//!
//! The step is played on all ranks at once: a rank goes on when every rank of the group of its next collective is there with the same
//! call. The order is that of issue, since a plan has one stream of communication. It shares nothing with what places collectives.
//!
//! A program is a function of the rank's coordinates, so a mesh may be shortened: with equal programs, two ranks along an axis
//! meet if all do. Meshes that are large are played with two ranks per axis.

use crate::pass::{Check, PassCx};
use titan_ir::kernel::CollectiveKind;
use titan_ir::plan::{Action, Plan};
use titan_ir::{AxisId, DType, Diag, Diags, Mesh, Module};

/// The check of the plan in the context.
#[derive(Debug, Clone, Copy, Default)]
pub struct Collectives;

impl Check for Collectives {
    fn name(&self) -> &'static str {
        "collectives"
    }

    fn summary(&self) -> &'static str {
        "prove that all ranks meet in every collective"
    }

    fn run(&self, _module: &Module, cx: &PassCx) -> Result<(), Diags> {
        cx.plan.as_ref().map_or(Ok(()), check)
    }
}

/// More ranks than this are not played one by one.
const MAX_RANKS: u64 = 256;

/// A collective as the ranks of a group must agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub kind: CollectiveKind,
    /// Along this axis.
    pub axis: AxisId,
    /// Element type.
    pub dtype: DType,
    /// Elements of each part.
    pub lens: Vec<u64>,
    /// Module path.
    pub path: String,
}

/// Proves that the ranks of a plan meet, and that every collective can be carried out.
///
/// # Errors
/// T0504 with the module path.
pub fn check(plan: &Plan) -> Result<(), Diags> {
    let calls = calls(plan);
    let mut found = Diags::default();
    for call in &calls {
        if let Some(fault) = fault(call, &plan.mesh) {
            found.push(
                Diag::new("T0504", format!("planning fault: {:?} {fault}", call.kind)).at(call.path.clone()),
            );
        }
    }
    let streams = plan.segments.iter().flat_map(|s| &s.instrs);
    let mut streams = streams.filter(|i| matches!(i.action, Action::Collective { .. })).map(|i| i.stream);
    if let Some(first) = streams.next()
        && streams.any(|s| s != first)
    {
        found.push(Diag::new("T0504", "planning fault: collectives are on several streams"));
    }
    if found.has_errors() {
        return Err(found);
    }
    let mesh = if plan.mesh.num_ranks() > MAX_RANKS { short(&plan.mesh) } else { plan.mesh.clone() };
    let ranks = usize::try_from(mesh.num_ranks()).expect("few ranks");
    meet(&mesh, &vec![calls.as_slice(); ranks]).map_err(Diags::from)
}

/// The collectives of one step, in the order of issue; a segment that repeats once.
pub fn calls(plan: &Plan) -> Vec<Call> {
    let instrs = plan.segments.iter().flat_map(|s| &s.instrs);
    let call = |instr: &titan_ir::plan::Instr| match &instr.action {
        Action::Collective { kind, axis, dtype, parts } => Some(Call {
            kind: *kind,
            axis: *axis,
            dtype: *dtype,
            lens: parts.iter().map(|p| p.src_len).collect(),
            path: plan.locs.get(instr.loc as usize).cloned().unwrap_or_default(),
        }),
        _ => None,
    };
    instrs.filter_map(call).collect()
}

/// Plays the calls of all ranks.
///
/// # Errors
/// T0504 for the first rank that waits for ever, or a group whose ranks call different things.
pub fn meet(mesh: &Mesh, programs: &[&[Call]]) -> Result<(), Diag> {
    let mut next = vec![0; programs.len()];
    // Ranks that may be able to go on.
    let mut awake: Vec<usize> = (0..programs.len()).collect();
    while let Some(rank) = awake.pop() {
        let Some(call) = programs[rank].get(next[rank]) else { continue };
        let group: Vec<usize> = mesh
            .group(rank as u64, call.axis)
            .iter()
            .map(|&r| usize::try_from(r).expect("few ranks"))
            .collect();
        if group.iter().all(|&r| programs[r].get(next[r]) == Some(call)) {
            group.iter().for_each(|&r| next[r] += 1);
            awake.extend(group);
        }
    }
    let stuck = (0..programs.len()).find_map(|r| programs[r].get(next[r]).map(|call| (r, call)));
    let Some((rank, call)) = stuck else { return Ok(()) };
    let message = format!(
        "planning fault: rank {rank} waits for ever in its collective {} ({:?} along `{}`)",
        next[rank],
        call.kind,
        mesh.axes[call.axis.index()].name
    );
    Err(Diag::new("T0504", message).at(call.path.clone()))
}

/// Why a collective cannot be carried out on its own terms.
fn fault(call: &Call, mesh: &Mesh) -> Option<String> {
    let Some(axis) = mesh.axes.get(call.axis.index()) else {
        return Some("is along an axis the mesh does not have".to_owned());
    };
    if call.lens.is_empty() || call.lens.contains(&0) {
        return Some("has nothing to communicate".to_owned());
    }
    let reduces = matches!(call.kind, CollectiveKind::ReduceScatter(_) | CollectiveKind::AllReduce(_));
    if reduces && !call.dtype.is_float() {
        return Some(format!("reduces {}", call.dtype));
    }
    let cuts = matches!(call.kind, CollectiveKind::ReduceScatter(_) | CollectiveKind::AllToAll);
    let uneven = call.lens.iter().find(|&len| cuts && !len.is_multiple_of(axis.size));
    uneven.map(|len| format!("cuts {len} elements in {} parts", axis.size))
}

/// The mesh with at most two ranks along each axis.
fn short(mesh: &Mesh) -> Mesh {
    let mut mesh = mesh.clone();
    mesh.axes.iter_mut().for_each(|axis| axis.size = axis.size.min(2));
    mesh
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(axis: usize, len: u64) -> Call {
        let axis = AxisId::new(axis);
        Call {
            kind: CollectiveKind::AllGather,
            axis,
            dtype: DType::Bf16,
            lens: vec![len],
            path: "layer".into(),
        }
    }

    #[test]
    fn equal_programs_meet() {
        let mesh = Mesh::new(&[("a", 2), ("b", 3)]);
        let program = [call(0, 4), call(1, 5), call(0, 6)];
        assert_eq!(meet(&mesh, &[program.as_slice(); 6]), Ok(()));
    }

    #[test]
    fn ranks_that_call_different_things_are_found() {
        let mesh = Mesh::new(&[("a", 2)]);
        let (x, y) = ([call(0, 4), call(0, 5)], [call(0, 4), call(0, 6)]);
        let diag = meet(&mesh, &[&x, &y]).unwrap_err();
        assert!(diag.message.contains("collective 1"), "{diag}");
        assert!(meet(&mesh, &[&x, &x[..1]]).is_err());
    }

    /// Every pair of neighbours agrees on the calls of their group, yet each waits for the next.
    #[test]
    fn a_cycle_of_waits_is_found() {
        let mesh = Mesh::new(&[("a", 2), ("b", 2)]);
        let (ab, ba) = ([call(0, 4), call(1, 4)], [call(1, 4), call(0, 4)]);
        // Ranks 0 1 / 2 3: 0 waits for 2 along a, 2 for 3 along b, 3 for 1 along a, 1 for 0 along b.
        let programs: [&[Call]; 4] = [&ab, &ba, &ba, &ab];
        assert!(meet(&mesh, &programs).is_err());
        assert_eq!(meet(&mesh, &[ab.as_slice(); 4]), Ok(()));
    }
}
