//! `titanc check FILE.toml`.

use super::build::{advise, must_fit};
use super::prepare::prepare;
use crate::cli::{CheckArgs, CommandResult, print};
use crate::driver::{Built, Limit, Source, manifest};
use crate::model::Registry;
use crate::report;

pub(crate) fn run(registry: &Registry, args: CheckArgs, overrides: Vec<String>) -> CommandResult {
    let overrides = [overrides, args.device.overrides()].concat();
    let source = Source { file: args.file, overrides };
    let prepared = prepare(registry, &source)?;
    if args.passes.stop_after.is_some() {
        prepared.print_stopped(&args.passes)?;
        return Ok(());
    }
    let (plans, kernels) = prepared.plan(&args.passes)?;
    let num_kernels = kernels.kernels.len() as u64;
    let manifest = manifest(&Built {
        config: &prepared.config,
        config_file: source.file_name(),
        model: &prepared.model,
        target: prepared.target,
        plans: &plans,
        kernels,
        device_compiler: None,
        keep_ir: false,
    })?;
    let limit = Limit::of(&prepared.config, prepared.target);
    print(&format!("{}\n", report::summary(&manifest, limit)))?;
    must_fit(registry, &source, &prepared.config, &manifest)?;
    print(&format!("no mistakes; {}\n", report::plural(num_kernels, "kernel")))?;
    advise(registry, &source, &manifest, limit)
}
