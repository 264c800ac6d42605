//! What build and check have in common: from arguments to plans.

use crate::cli::{PassArgs, note, print, warn};
use crate::config::{Config, ParallelDims};
use crate::driver::{Kernels, PassFlags, Planned, Planner, ResolvedModel, Source, resolve};
use crate::model::Registry;
use crate::report;
use crate::target::Target;
use titan_ir::{Diags, ice, text};

/// A configuration whose parts are all known to exist.
pub(super) struct Prepared<'a> {
    pub(super) config: Config,
    pub(super) model: ResolvedModel<'a>,
    pub(super) target: Target,
    /// The meshes to plan for, at least one.
    pub(super) meshes: Vec<ParallelDims>,
}

/// Reads the configuration and resolves everything it names; prints warnings.
pub(super) fn prepare<'a>(registry: &'a Registry, source: &Source) -> Result<Prepared<'a>, Diags> {
    let (config, warnings) = source.load()?;
    warn(&warnings);
    let mut errors = Diags::default();
    let model = resolve(registry, &config).map_err(|diags| errors.0.extend(diags.0)).ok();
    let target = Target::of_name(&config.titan.target).map_err(|diag| errors.push(diag)).ok();
    let meshes = config.planned_dims().map_err(|diags| errors.0.extend(diags.0)).ok();
    let (Some(model), Some(target), Some(meshes)) = (model, target, meshes) else { return Err(errors) };
    if config.job.print_config {
        let json = serde_json::to_string_pretty(&config);
        print(&format!("{}\n", json.unwrap_or_else(|e| ice!("the configuration is not JSON: {e}"))))?;
    }
    Ok(Prepared { config, model, target, meshes })
}

impl PassArgs {
    pub(super) fn flags(&self) -> PassFlags {
        PassFlags {
            dump_dir: self.dump_ir.clone(),
            stop_after: self.stop_after.clone(),
            disabled: self.disable_pass.clone(),
        }
    }
}

impl Prepared<'_> {
    /// Plans for every mesh; prints progress, and times if asked.
    pub(super) fn plan(&self, args: &PassArgs) -> Result<(Vec<Planned>, Kernels), Diags> {
        let flags = args.flags();
        let mut planner = Planner::new(&self.config, &self.model, self.target, &flags);
        let mut plans = Vec::new();
        for dims in &self.meshes {
            note(&format!("planning for {}", report::ranks(dims.world())));
            let planned = planner.plan(dims)?;
            if args.timing {
                note(&planned.report.table());
            }
            plans.push(planned);
        }
        warn(&planner.take_warnings());
        Ok((plans, planner.into_kernels()))
    }

    /// Runs the passes up to the one of `--stop-after` for the first mesh and prints the program.
    pub(super) fn print_stopped(&self, args: &PassArgs) -> Result<(), Diags> {
        let flags = args.flags();
        let mut planner = Planner::new(&self.config, &self.model, self.target, &flags);
        let stopped = planner.run_passes(&self.meshes[0])?;
        warn(&planner.take_warnings());
        if args.timing {
            note(&stopped.report.table());
        }
        Ok(print(&text::print(&stopped.module))?)
    }
}
