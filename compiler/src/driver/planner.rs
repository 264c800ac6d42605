//! Plans: one per number of ranks, their generated kernels in one table.

use super::device::{DevicePlanner, Lowered};
use super::options::pipeline_options;
use super::resolve::ResolvedModel;
use crate::config::{Config, ParallelDims};
use crate::nn::{TraceOptions, Traced};
use crate::target::Target;
use std::path::PathBuf;
use titan_ir::artifact::PlanInfo;
use titan_ir::ascend::Program;
use titan_ir::kernel::RowKernel;
use titan_ir::{Diags, Mesh, Module, Plan, ice, text};
use titan_passes::manager::{self, ManagerOptions, Report};
use titan_passes::pass::PassCx;
use titan_passes::pipeline::pipeline;

/// How the passes are run.
#[derive(Debug, Clone, Default)]
pub struct PassFlags {
    /// `--dump-ir`: folder for the module after every pass.
    pub dump_dir: Option<PathBuf>,
    /// `--stop-after`: the last pass to run.
    pub stop_after: Option<String>,
    /// `--disable-pass`: passes left out.
    pub disabled: Vec<String>,
}

/// Plans a model for several numbers of ranks.
#[derive(Debug)]
pub struct Planner<'a> {
    config: &'a Config,
    model: &'a ResolvedModel<'a>,
    target: Target,
    flags: &'a PassFlags,
    cx: PassCx,
    device: Option<DevicePlanner>,
}

/// What the passes made for one number of ranks.
#[derive(Debug)]
pub struct Planned {
    /// Ranks, batch and memory.
    pub info: PlanInfo,
    /// The plan.
    pub plan: Plan,
    /// The plan in the terms of an Ascend device, if it is for one.
    pub program: Option<Program>,
    /// Elements of all weights.
    pub num_params: u64,
    /// The module before the first pass, as text: an input of the fingerprint.
    pub traced_ir: String,
    /// The module after the last pass.
    pub module: Module,
    /// What each pass did.
    pub report: Report,
}

/// Generated kernels of several plans.
#[derive(Debug)]
pub struct Kernels {
    /// By the index the plans use.
    pub kernels: Vec<RowKernel>,
    /// What the device's programs use, if there are any.
    pub lowered: Lowered,
}

/// A module on its way, when `--stop-after` ends the pipeline early.
#[derive(Debug)]
pub struct Stopped {
    /// The module after that pass.
    pub module: Module,
    /// What each pass did.
    pub report: Report,
}

impl<'a> Planner<'a> {
    /// A planner with empty kernel tables.
    pub fn new(
        config: &'a Config,
        model: &'a ResolvedModel<'a>,
        target: Target,
        flags: &'a PassFlags,
    ) -> Self {
        let device = target.soc().map(|soc| DevicePlanner::new(config, soc));
        Self { config, model, target, flags, cx: PassCx::default(), device }
    }

    /// Plans for the mesh `dims`.
    ///
    /// # Errors
    /// What batch arithmetic, tracing, a pass or a check of the device program finds.
    pub fn plan(&mut self, dims: &ParallelDims) -> Result<Planned, Diags> {
        let traced = self.trace(dims)?;
        let traced_ir = text::print(&traced.module);
        let num_params = traced.num_params;
        let Stopped { module, report } = self.run(traced, dims)?;
        let Some(plan) = self.cx.plan.take() else { ice!("the pipeline ended without a plan") };
        let program = match &mut self.device {
            Some(device) => Some(device.lower(&plan, &self.cx.kernels)?),
            None => None,
        };
        let batch = self.config.batch(dims)?;
        let info = PlanInfo {
            world_size: dims.world(),
            mesh: plan.mesh.clone(),
            accumulation: batch.num_accumulation_steps,
            global_batch_size: batch.global,
            memory: program.as_ref().map_or(plan.memory, |program| program.memory),
        };
        Ok(Planned { info, plan, program, num_params, traced_ir, module, report })
    }

    /// Runs the passes, up to the one `--stop-after` names.
    ///
    /// # Errors
    /// As [`Planner::plan`].
    pub fn run_passes(&mut self, dims: &ParallelDims) -> Result<Stopped, Diags> {
        let traced = self.trace(dims)?;
        self.run(traced, dims)
    }

    /// Findings of the passes that do not stop the build, each once.
    pub fn take_warnings(&mut self) -> Diags {
        let mut warnings = std::mem::take(&mut self.cx.warnings);
        warnings.dedup();
        Diags(warnings)
    }

    /// The kernels and the device's own, of all plans made so far.
    pub fn into_kernels(self) -> Kernels {
        let kernels = self.cx.kernels.kernels().cloned().collect();
        let lowered = self.device.map_or_else(Lowered::default, DevicePlanner::finish);
        Kernels { kernels, lowered }
    }

    fn trace(&self, dims: &ParallelDims) -> Result<Traced, Diags> {
        let batch = self.config.batch(dims)?;
        let options = TraceOptions {
            mesh: Mesh::new(&[("dp_replicate", dims.dp_replicate), ("dp_shard", dims.fsdp())]),
            batch: batch.local * dims.dp(),
            seq_len: self.config.training.seq_len,
            compute: self.config.training.mixed_precision_param.dtype(),
        };
        Ok(self.model.model.trace(&self.model.args, options)?)
    }

    fn run(&mut self, traced: Traced, dims: &ParallelDims) -> Result<Stopped, Diags> {
        let mut module = traced.module;
        let batch = self.config.batch(dims)?;
        let steps = pipeline(pipeline_options(self.config, self.target, batch.num_accumulation_steps));
        let options = ManagerOptions {
            dump_dir: self.flags.dump_dir.as_ref().map(|dir| dir.join(format!("ranks-{}", dims.world()))),
            stop_after: self.flags.stop_after.clone(),
            disabled: self.flags.disabled.clone(),
            ..ManagerOptions::default()
        };
        let report = manager::run(&mut module, &mut self.cx, &steps, &options)?;
        Ok(Stopped { module, report })
    }
}
