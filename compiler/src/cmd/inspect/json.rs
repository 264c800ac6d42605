//! An artifact for scripts.

use super::ascend;
use super::collectives::collectives;
use serde_json::{Value, json};
use titan_ir::artifact::Artifact;
use titan_ir::{DiagResult, ice};

/// The manifest, sections, kernels and plans (or one plan) as JSON.
pub(super) fn json(artifact: &Artifact<'_>, only: Option<u64>) -> DiagResult<String> {
    let sections: Vec<Value> =
        artifact.sections().map(|(name, len)| json!({ "name": name, "size_bytes": len })).collect();
    let worlds = match only {
        Some(world_size) => vec![world_size],
        None => artifact.manifest.plans.iter().map(|p| p.world_size).collect(),
    };
    let plans =
        worlds.into_iter().map(|world_size| plan(artifact, world_size)).collect::<DiagResult<Vec<_>>>()?;
    let device_kernels = match ascend::soc_of(&artifact.manifest)? {
        Some(_) => Some(ascend::KernelSummary::of(&artifact.device_kernels()?)),
        None => None,
    };
    let all = json!({
        "manifest": artifact.manifest,
        "sections": sections,
        "num_kernels": artifact.kernel_table()?.kernels.len(),
        "device_kernels": device_kernels,
        "plans": plans,
    });
    let text = serde_json::to_string_pretty(&all).unwrap_or_else(|e| ice!("an artifact is not JSON: {e}"));
    Ok(text + "\n")
}

fn plan(artifact: &Artifact<'_>, world_size: u64) -> DiagResult<Value> {
    let plan = artifact.plan(world_size)?;
    let segments: Vec<Value> = plan
        .segments
        .iter()
        .map(|s| json!({ "name": s.name, "repeat": s.repeat, "num_instrs": s.instrs.len() }))
        .collect();
    let info = artifact.manifest.plans.iter().find(|info| info.world_size == world_size);
    let program = match (ascend::soc_of(&artifact.manifest)?, info) {
        (Some(soc), Some(info)) => Some(ascend::summary(artifact, soc, info, &plan)?),
        _ => None,
    };
    Ok(json!({
        "world_size": world_size,
        "ascend": program,
        "state_bytes": plan.state_bytes,
        "step_bytes": plan.step_bytes,
        "num_events": plan.num_events,
        "tensors": plan.tensors,
        "segments": segments,
        "collectives": collectives(&plan),
        "largest": plan.largest,
    }))
}
