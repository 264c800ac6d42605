//! What an artifact for an Ascend device holds beside its plans.

mod listing;
mod text;

pub(super) use listing::listing;
pub(super) use text::{assumptions_text, kernels_text, program_text};

use crate::driver::{DevicePlanner, Unfit};
use crate::roofline::{Estimate, Work, estimate};
use crate::target::Target;
use serde::Serialize;
use std::collections::BTreeMap;
use titan_ir::artifact::{Artifact, Manifest, PlanInfo};
use titan_ir::ascend::{Call, DeviceKernels, Program, Soc};
use titan_ir::plan::Action;
use titan_ir::{DiagResult, Plan};
use titan_passes::check::capture::budget::Usage;
use titan_passes::check::capture::collectives::Expansion;

/// The device of an artifact, if it is an Ascend one.
pub(super) fn soc_of(manifest: &Manifest) -> DiagResult<Option<&'static Soc>> {
    Ok(Target::of_name(&manifest.target.name)?.soc())
}

/// Calls of a stream, over all graphs.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct StreamCalls {
    num_operators: u64,
    num_kernels: u64,
    num_collectives: u64,
    num_copies: u64,
    num_events: u64,
}

/// What is captured at once.
#[derive(Debug, Serialize)]
pub(super) struct Graph {
    segment: String,
    /// How often a step replays it.
    repeat: u64,
    num_submissions: usize,
    /// What the host looks at behind it.
    guard: Vec<String>,
}

/// What a program takes of what a device has.
#[derive(Debug, Serialize)]
pub(super) struct Budget {
    num_streams: u64,
    num_events: u64,
    longest_queue: u64,
}

/// Kernels of the plan that are operators, by the reason.
#[derive(Debug, Serialize)]
pub(super) struct AsOperators {
    reason: String,
    num_kernels: u64,
}

/// The program for a number of ranks.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    streams: Vec<StreamCalls>,
    /// Submissions by name of the operator.
    operators: BTreeMap<String, u64>,
    graphs: Vec<Graph>,
    budget: Budget,
    /// Launches of the plan that are operators, of all.
    num_launches: u64,
    num_launches_as_operators: u64,
    as_operators: Vec<AsOperators>,
    arena_bytes: u64,
    scratch_bytes: u64,
    tables_bytes: u64,
    workspace_bytes: Vec<u64>,
    hccl_bytes: u64,
    pub(super) estimate: Estimate,
}

/// What the artifact says of a number of ranks.
pub(super) fn summary(
    artifact: &Artifact<'_>,
    soc: &'static Soc,
    info: &PlanInfo,
    plan: &Plan,
) -> DiagResult<Summary> {
    let program = artifact.program(info.world_size)?;
    let kernels = artifact.device_kernels()?;
    let manifest = &artifact.manifest;
    let sequences = manifest.run.local_batch_size * info.accumulation;
    let work =
        Work { tokens: sequences * manifest.run.seq_len, flops_per_token: manifest.model.flops_per_token };
    let usage = Usage::of(plan, &program, Expansion::of_family(soc.family));
    let (num_launches, num_launches_as_operators) = launches(plan, &program);
    Ok(Summary {
        streams: streams(&program),
        operators: operators(&program),
        graphs: graphs(&program),
        budget: Budget {
            num_streams: usage.num_streams,
            num_events: usage.num_events,
            longest_queue: usage.longest_queue,
        },
        num_launches,
        num_launches_as_operators,
        as_operators: as_operators(artifact, soc, plan)?,
        arena_bytes: program.arena_bytes,
        scratch_bytes: program.scratch.size_bytes,
        tables_bytes: program.tables.iter().map(|t| t.fill.size_bytes()).sum(),
        workspace_bytes: program.workspaces.iter().map(|w| w.size_bytes).collect(),
        hccl_bytes: program.memory.communication_bytes,
        estimate: estimate(plan, &program, &kernels, soc, work),
    })
}

fn streams(program: &Program) -> Vec<StreamCalls> {
    let mut streams = vec![StreamCalls::default(); usize::from(program.num_streams)];
    for one in program.submissions() {
        let Some(stream) = streams.get_mut(usize::from(one.stream)) else { continue };
        *match one.call {
            Call::Operator { .. } => &mut stream.num_operators,
            Call::Kernel { .. } => &mut stream.num_kernels,
            Call::Collective { .. } => &mut stream.num_collectives,
            Call::Copy { .. } | Call::RankSlice { .. } | Call::Zero { .. } => &mut stream.num_copies,
            Call::Record { .. } | Call::Wait { .. } => &mut stream.num_events,
        } += 1;
    }
    streams
}

fn operators(program: &Program) -> BTreeMap<String, u64> {
    let mut operators = BTreeMap::new();
    for one in program.submissions() {
        if let Call::Operator { name, .. } = &one.call {
            *operators.entry(name.clone()).or_default() += 1;
        }
    }
    operators
}

fn graphs(program: &Program) -> Vec<Graph> {
    let segments = program.segments.iter();
    let of = |segment: &titan_ir::ascend::Segment| {
        let graph = |part: &titan_ir::ascend::Part| Graph {
            segment: segment.name.clone(),
            repeat: segment.repeat,
            num_submissions: part.submissions.len(),
            guard: part.guard.iter().map(|(name, _)| name.clone()).collect(),
        };
        segment.parts.iter().map(graph).collect::<Vec<_>>()
    };
    segments.flat_map(of).collect()
}

/// Launches of the plan, and those without a generated kernel in the program.
fn launches(plan: &Plan, program: &Program) -> (u64, u64) {
    let (mut all, mut as_operators) = (0, 0);
    for (of_plan, of_program) in plan.segments.iter().zip(&program.segments) {
        let mut generated = vec![false; of_plan.instrs.len()];
        for one in of_program.parts.iter().flat_map(|part| &part.submissions) {
            if matches!(one.call, Call::Kernel { .. })
                && let Some(is) = generated.get_mut(one.source as usize)
            {
                *is = true;
            }
        }
        for (instr, is_generated) in of_plan.instrs.iter().zip(generated) {
            let is_launch = matches!(instr.action, Action::Launch { .. });
            all += u64::from(is_launch);
            as_operators += u64::from(is_launch && !is_generated);
        }
    }
    (all, as_operators)
}

/// Why kernels are operators. The artifact does not say: the plan is lowered once more, as it was at build.
fn as_operators(artifact: &Artifact<'_>, soc: &'static Soc, plan: &Plan) -> DiagResult<Vec<AsOperators>> {
    let kernels = artifact.kernel_table()?.kernels;
    let key = artifact.manifest.config.pointer("/titan/ascend_kernels");
    let style = key.and_then(serde_json::Value::as_str).unwrap_or_default();
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for Unfit { reason, .. } in DevicePlanner::of_word(style, soc).unfit(plan, &kernels)? {
        *reasons.entry(reason).or_default() += 1;
    }
    Ok(reasons.into_iter().map(|(reason, num_kernels)| AsOperators { reason, num_kernels }).collect())
}

/// Generated kernels of all programs.
#[derive(Debug, Serialize)]
pub(super) struct KernelSummary {
    num_kernels: usize,
    num_compiled: usize,
    mlir_bytes: u64,
    object_bytes: u64,
}

impl KernelSummary {
    pub(super) fn of(kernels: &DeviceKernels) -> Self {
        let all = &kernels.kernels;
        Self {
            num_kernels: all.len(),
            num_compiled: all.iter().filter(|k| !k.object.is_empty()).count(),
            mlir_bytes: all.iter().map(|k| k.mlir.len() as u64).sum(),
            object_bytes: all.iter().map(|k| k.object.len() as u64).sum(),
        }
    }
}
