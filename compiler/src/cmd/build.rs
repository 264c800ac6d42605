//! `titanc build FILE.toml`.

use super::prepare::prepare;
use crate::cli::{BuildArgs, CommandResult, Outcome, note, print};
use crate::driver::{Built, Limit, Source, cheapest_change, encode, manifest, write_file};
use crate::model::Registry;
use crate::report;
use std::path::PathBuf;
use std::time::Instant;
use titan_ir::artifact::Manifest;

pub(crate) fn run(registry: &Registry, args: BuildArgs, overrides: Vec<String>) -> CommandResult {
    let start = Instant::now();
    let source = Source { file: args.file, overrides };
    let prepared = prepare(registry, &source)?;
    if args.passes.stop_after.is_some() {
        prepared.print_stopped(&args.passes)?;
        return Ok(Outcome::Done);
    }
    let (plans, kernels) = prepared.plan(&args.passes)?;
    note(&format!("compiling {}", report::plural(kernels.len() as u64, "kernel")));
    let built = Built {
        config: &prepared.config,
        config_file: source.file_name(),
        model: &prepared.model,
        target: prepared.target,
        plans: &plans,
        kernels,
        keep_ir: args.emit_ir || prepared.config.titan.keep_ir,
    };
    let manifest = manifest(&built)?;
    let bytes = encode(built, &manifest);
    let path = args.output.unwrap_or_else(|| default_output(&source, &manifest));
    write_file(&path, &bytes)?;
    let limit = Limit::of(&prepared.config, prepared.target);
    print(&format!(
        "{}\nwrote {}: {} in {:.2} s\n",
        report::summary(&manifest, limit),
        path.display(),
        report::bytes(bytes.len() as u64),
        start.elapsed().as_secs_f64(),
    ))?;
    judge_fit(registry, &source, &manifest, limit)
}

/// Says what would help when no plan fits. Fails only if the user set the limit.
pub(super) fn judge_fit(
    registry: &Registry,
    source: &Source,
    manifest: &Manifest,
    limit: Limit,
) -> CommandResult {
    let fitting = manifest.plans.iter().any(|plan| limit.fits(&plan.memory));
    let Some(largest) = manifest.plans.last().filter(|_| !fitting) else { return Ok(Outcome::Done) };
    let ranks = report::ranks(largest.world_size);
    let advice = match cheapest_change(registry, source, limit, largest.world_size) {
        Some(change) => format!("cheapest change that fits: {}", change.text()),
        None => "neither recomputing activations, smaller microbatches nor more ranks would make it fit"
            .to_owned(),
    };
    print(&format!("does not fit in {} on {ranks}; {advice}\n", limit.name()))?;
    Ok(if manifest.run.memory_bytes.is_some() { Outcome::DoesNotFit } else { Outcome::Done })
}

/// The name of the TOML file, or else of the model, in the current folder.
fn default_output(source: &Source, manifest: &Manifest) -> PathBuf {
    let stem = source.path().and_then(|path| path.file_stem().map(PathBuf::from));
    let mut name =
        stem.unwrap_or_else(|| format!("{}_{}", manifest.model.name, manifest.model.flavor).into());
    name.as_mut_os_string().push(".titan");
    name
}
