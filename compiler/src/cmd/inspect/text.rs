//! An artifact at a glance.

use super::ascend;
use super::collectives::{Collective, collectives};
use crate::driver::Limit;
use crate::report::{bytes, grouped, plural, ranks, summary};
use crate::target::Target;
use std::fmt::Write;
use titan_ir::artifact::{Artifact, FORMAT_VERSION, KERNEL_IMAGE};
use titan_ir::ascend::Soc;
use titan_ir::plan::Action;
use titan_ir::{DiagResult, Plan};

/// Model, memory, plans, collectives, kernels, sections and fingerprint.
pub(super) fn overview(artifact: &Artifact<'_>, name: &str, len: u64) -> DiagResult<String> {
    let manifest = &artifact.manifest;
    let target = Target::of_name(&manifest.target.name)?;
    let mut text = format!(
        "{name}: {}, format {FORMAT_VERSION}, written by titanc {}\n",
        bytes(len),
        manifest.titan_version
    );
    text.push_str(&summary(manifest, Limit::of_bytes(manifest.run.memory_bytes, target)));
    let data = &manifest.data;
    let path = data.dataset_path.as_ref().map_or(String::new(), |path| format!(" from {path}"));
    let _ = writeln!(text, "\ndata:  {}{path}, tokenizer {}", data.dataset, data.tokenizer_path);
    match target {
        Target::Cpu(_) => cpu_text(&mut text, artifact)?,
        Target::Ascend(soc) => ascend_text(&mut text, artifact, soc)?,
    }
    text.push_str("\nsections\n");
    for (name, len) in artifact.sections() {
        let _ = writeln!(text, "  {name:<24}{:>12}", bytes(len as u64));
    }
    text.push_str("\nfingerprint (BLAKE3)\n");
    for (name, hash) in &manifest.fingerprint {
        let _ = writeln!(text, "  {name:<16}{hash}");
    }
    Ok(text)
}

fn cpu_text(text: &mut String, artifact: &Artifact<'_>) -> DiagResult<()> {
    let table = artifact.kernel_table()?;
    let code = artifact.section(KERNEL_IMAGE)?.len() as u64;
    let _ =
        writeln!(text, "code:  {}, {}", plural(table.kernels.len() as u64, "generated kernel"), bytes(code));
    for info in &artifact.manifest.plans {
        plan_text(text, &artifact.plan(info.world_size)?, info.world_size, "generated kernel");
    }
    Ok(())
}

fn ascend_text(text: &mut String, artifact: &Artifact<'_>, soc: &'static Soc) -> DiagResult<()> {
    let kernels = ascend::KernelSummary::of(&artifact.device_kernels()?);
    text.push_str(&ascend::kernels_text(soc, &kernels));
    let mut assumptions = String::new();
    for info in &artifact.manifest.plans {
        let plan = artifact.plan(info.world_size)?;
        plan_text(text, &plan, info.world_size, "fused kernel");
        let summary = ascend::summary(artifact, soc, info, &plan)?;
        text.push_str(&ascend::program_text(&summary));
        assumptions = ascend::assumptions_text(&summary.estimate);
    }
    text.push_str(&assumptions);
    Ok(())
}

/// Instructions and collectives of a plan; `launch` is what its launches are called.
fn plan_text(text: &mut String, plan: &Plan, world_size: u64, launch: &str) {
    let _ = writeln!(text, "\nplan for {}", ranks(world_size));
    for segment in &plan.segments {
        let count =
            |test: fn(&Action) -> bool| segment.instrs.iter().filter(|i| test(&i.action)).count() as u64;
        let _ = writeln!(
            text,
            "  {} x {}: {}, {}, {}",
            segment.name,
            segment.repeat,
            plural(segment.instrs.len() as u64, "instruction"),
            plural(count(|a| matches!(a, Action::Launch { .. })), launch),
            plural(count(|a| matches!(a, Action::Contract { .. })), "contraction"),
        );
    }
    let found = collectives(plan);
    if found.is_empty() {
        text.push_str("  no collectives\n");
    }
    for group in grouped_collectives(&found) {
        let first = group[0];
        let total: u64 = group.iter().map(|c| c.size_bytes * c.repeat).sum();
        let _ = writeln!(
            text,
            "  {:<22}{:<14}{:<6}{:<10}{:>6} per step, {} of each rank, in {}",
            first.kind,
            first.axis,
            first.dtype,
            format!("{:?}", first.phase).to_lowercase(),
            grouped(group.iter().map(|c| c.repeat).sum()),
            bytes(total),
            modules(&group),
        );
    }
}

/// Collectives that differ only in size and module, in the order of the first of each group.
fn grouped_collectives<'a>(all: &'a [Collective<'a>]) -> Vec<Vec<&'a Collective<'a>>> {
    let mut groups: Vec<Vec<&Collective<'_>>> = Vec::new();
    for one in all {
        let key = |c: &Collective<'_>| (c.kind.clone(), c.axis.to_owned(), c.dtype, c.phase);
        match groups.iter_mut().find(|group| key(group[0]) == key(one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// The first and the last module of a group.
fn modules(group: &[&Collective<'_>]) -> String {
    let name =
        |c: &Collective<'_>| if c.module.is_empty() { "the model".to_owned() } else { c.module.to_owned() };
    match group {
        [.., last] if last.module != group[0].module => format!("{} ... {}", name(group[0]), name(last)),
        [first, ..] => name(first),
        [] => String::new(),
    }
}
