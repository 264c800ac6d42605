//! `titanc build FILE.toml`.

use super::prepare::prepare;
use crate::cli::{BuildArgs, CommandResult, note, print};
use crate::config::Config;
use crate::driver::{
    Built, Kernels, Limit, Source, cheapest_change, compile_kernels, encode, manifest, write_file,
};
use crate::model::Registry;
use crate::report;
use crate::target::Target;
use std::path::{Path, PathBuf};
use std::time::Instant;
use titan_ir::artifact::{Manifest, PlanInfo};
use titan_ir::{Diag, DiagResult, Diags};

pub(crate) fn run(registry: &Registry, args: BuildArgs, overrides: Vec<String>) -> CommandResult {
    let start = Instant::now();
    let overrides = [overrides, args.device.overrides()].concat();
    let source = Source { file: args.file, overrides };
    check_output(&source, args.output.as_deref())?;
    let prepared = prepare(registry, &source)?;
    if args.passes.stop_after.is_some() {
        prepared.print_stopped(&args.passes)?;
        return Ok(());
    }
    let (plans, mut kernels) = prepared.plan(&args.passes)?;
    let device_compiler = compile_device_kernels(prepared.target, &mut kernels)?;
    let num_kernels = kernels.kernels.len() as u64;
    let built = Built {
        config: &prepared.config,
        config_file: source.file_name(),
        model: &prepared.model,
        target: prepared.target,
        plans: &plans,
        kernels,
        device_compiler,
        keep_ir: args.emit_ir || prepared.config.titan.keep_ir,
    };
    let manifest = manifest(&built)?;
    let limit = Limit::of(&prepared.config, prepared.target);
    print(&format!("{}\n", report::summary(&manifest, limit)))?;
    must_fit(registry, &source, &prepared.config, &manifest)?;
    if prepared.target.soc().is_none() {
        note(&format!("compiling {}", report::plural(num_kernels, "kernel")));
    }
    let bytes = encode(built, &manifest);
    let path = args.output.unwrap_or_else(|| default_output(&source, &manifest));
    write_file(&path, &bytes)?;
    print(&format!(
        "wrote {}: {} in {:.2} s\n",
        path.display(),
        report::bytes(bytes.len() as u64),
        start.elapsed().as_secs_f64(),
    ))?;
    advise(registry, &source, &manifest, limit)
}

/// Compiles the kernels of an Ascend device if its compiler is here; says what becomes of them.
fn compile_device_kernels(target: Target, kernels: &mut Kernels) -> DiagResult<Option<String>> {
    let Some(soc) = target.soc() else { return Ok(None) };
    let num_kernels = report::plural(kernels.lowered.kernels.kernels.len() as u64, "generated kernel");
    if kernels.lowered.kernels.kernels.is_empty() {
        return Ok(None);
    }
    let announce = |version: &str| note(&format!("compiling {num_kernels} with {version}"));
    let compiler = compile_kernels(&mut kernels.lowered.kernels, soc, announce)?;
    if compiler.is_none() {
        note(&format!("{num_kernels}, to be compiled on the device machine"));
    }
    Ok(compiler)
}

/// The artifact must not take the place of its own configuration.
fn check_output(source: &Source, output: Option<&Path>) -> Result<(), Diags> {
    let real = |path: &Path| path.canonicalize().ok();
    let (Some(file), Some(output)) = (source.file.as_deref(), output) else { return Ok(()) };
    if real(file).is_none_or(|file| real(output) != Some(file)) {
        return Ok(());
    }
    let message = format!("the artifact would replace its configuration `{}`", output.display());
    Err(Diag::new("T0610", message).help("give another file to -o").into())
}

/// The largest plan, if no plan fits.
fn unfit(manifest: &Manifest, limit: Limit) -> Option<&PlanInfo> {
    let fits = manifest.plans.iter().any(|plan| limit.fits(&plan.memory));
    manifest.plans.last().filter(|_| !fits)
}

fn advice(registry: &Registry, source: &Source, limit: Limit, plan: &PlanInfo) -> String {
    match cheapest_change(registry, source, limit, plan.world_size) {
        Some(change) => format!("cheapest change that fits: {}", change.text()),
        None => "neither recomputing activations, smaller microbatches nor more ranks make it fit".to_owned(),
    }
}

/// Refuses plans that are all larger than the memory the user gave.
pub(super) fn must_fit(
    registry: &Registry,
    source: &Source,
    config: &Config,
    manifest: &Manifest,
) -> Result<(), Diags> {
    let Some(gib) = config.titan.memory_gib else { return Ok(()) };
    let limit = Limit::of_gib(gib);
    let Some(plan) = unfit(manifest, limit) else { return Ok(()) };
    let (ranks, needed) = (report::ranks(plan.world_size), report::bytes(plan.memory.total_bytes(1)));
    let message = format!("the plan for {ranks} needs {needed} per rank, more than {}", limit.name());
    let diag = config.error("titan.memory_gib", "T0510", message);
    Err(diag.help(advice(registry, source, limit, plan)).into())
}

/// Names the plans that do not fit; says what would help when none does.
pub(super) fn advise(
    registry: &Registry,
    source: &Source,
    manifest: &Manifest,
    limit: Limit,
) -> Result<(), Diags> {
    let Some(plan) = unfit(manifest, limit) else { return print_some_unfit(manifest, limit) };
    let (ranks, advice) = (report::ranks(plan.world_size), advice(registry, source, limit, plan));
    Ok(print(&format!("does not fit in {} on {ranks}; {advice}\n", limit.name()))?)
}

fn print_some_unfit(manifest: &Manifest, limit: Limit) -> Result<(), Diags> {
    let (fit, unfit): (Vec<_>, Vec<_>) = manifest.plans.iter().partition(|plan| limit.fits(&plan.memory));
    if unfit.is_empty() {
        return Ok(());
    }
    let numbers = |plans: Vec<&PlanInfo>| {
        plans.iter().map(|plan| report::grouped(plan.world_size)).collect::<Vec<_>>().join(" or ")
    };
    let (fit, unfit) = (numbers(fit), numbers(unfit));
    Ok(print(&format!("does not fit in {} with ranks = {unfit}; fits with ranks = {fit}\n", limit.name()))?)
}

/// The name of the TOML file, or else of the model, in the current folder.
fn default_output(source: &Source, manifest: &Manifest) -> PathBuf {
    let stem = source.path().and_then(|path| path.file_stem().map(PathBuf::from));
    let mut name =
        stem.unwrap_or_else(|| format!("{}_{}", manifest.model.name, manifest.model.flavor).into());
    name.as_mut_os_string().push(".titan");
    name
}
