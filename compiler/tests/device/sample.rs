//! The program of a small llama3 on two ranks.

use titan_ir::Plan;
use titan_ir::ascend::{DeviceKernels, Program, Soc};
use titan_passes::check::{capture, device_races};
use titan_passes::emit_plan::KernelTable;
use titanc::config;
use titanc::driver::{PassFlags, Planner, resolve};
use titanc::model::Registry;
use titanc::target::Target;

const TOML: &str = "\
[training]
seq_len = 64
local_batch_size = 2
global_batch_size = 8
steps = 3

[lr_scheduler]
warmup_steps = 1

[titan]
target = \"Ascend910B3\"

[titan.model_args]
dim = 64
n_layers = 2
n_heads = 4
vocab_size = 64
multiple_of = 16
";

/// A plan, its program and all kernels.
pub(crate) struct Sample {
    pub(crate) plan: Plan,
    pub(crate) program: Program,
    device_kernels: DeviceKernels,
    kernels: KernelTable,
}

impl Sample {
    pub(crate) fn of_style(style: &str) -> Self {
        let overrides = [format!("--titan.ascend_kernels={style}")];
        let (config, _) = config::parse("a.toml", TOML, &overrides).unwrap();
        let registry = Registry::builtin();
        let model = resolve(&registry, &config).unwrap();
        let flags = PassFlags::default();
        let target = Target::of_name(&config.titan.target).unwrap();
        let mut planner = Planner::new(&config, &model, target, &flags);
        let planned = planner.plan(&config.parallel_dims(2).unwrap()).unwrap();
        let made = planner.into_kernels();
        let mut kernels = KernelTable::default();
        for kernel in &made.kernels {
            kernels.index_of(kernel);
        }
        let program = planned.program.unwrap();
        Self { plan: planned.plan, program, device_kernels: made.lowered.kernels, kernels }
    }

    /// The first code a checker of the build finds in a program in place of this one.
    pub(crate) fn found(&self, program: &Program) -> Option<&'static str> {
        let soc = Soc::of_name("Ascend910B3").unwrap();
        let captured = capture::check(&self.plan, program, soc);
        let proven = captured
            .and_then(|()| device_races::check(&self.plan, program, &self.device_kernels, &self.kernels));
        proven.err().map(|diags| diags.0[0].code)
    }
}
