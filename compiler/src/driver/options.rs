//! Options of the passes from the configuration.

use crate::config::{AcMode, AscendKernels, Config, OptimizerName, ReshardPolicy, SelectiveAc};
use crate::target::Target;
use titan_passes::accumulate::Accumulate;
use titan_passes::bucket_collectives::BucketCollectives;
use titan_passes::fuse::Fuse;
use titan_passes::optimizer::Optimizer;
use titan_passes::pipeline::PipelineOptions;
use titan_passes::remat::{Checkpointing, Remat, ReshardAfterForward};

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// The options of the whole pipeline for a step of `num_microbatches`.
pub(super) fn pipeline_options(config: &Config, target: Target, num_microbatches: u64) -> PipelineOptions {
    PipelineOptions {
        accumulate: Accumulate { num_microbatches },
        optimizer: optimizer(config),
        remat: remat(config),
        bucket: bucket(config),
        fuse: fuse(config, target),
        ..PipelineOptions::default()
    }
}

fn optimizer(config: &Config) -> Optimizer {
    let key = &config.optimizer;
    Optimizer {
        beta1: key.beta1,
        beta2: key.beta2,
        eps: key.eps,
        weight_decay: key.weight_decay,
        decoupled: key.name == OptimizerName::AdamW,
        max_norm: config.training.max_norm,
        schedule: config.lr_schedule(),
        num_steps: config.training.steps,
    }
}

fn remat(config: &Config) -> Remat {
    let key = &config.activation_checkpoint;
    let checkpointing = match (key.mode, key.selective_ac_option) {
        (AcMode::None, _) => Checkpointing::None,
        (AcMode::Full, _) | (AcMode::Selective, SelectiveAc::EveryNth(0)) => Checkpointing::Full,
        (AcMode::Selective, SelectiveAc::Op) => Checkpointing::PerOp,
        (AcMode::Selective, SelectiveAc::EveryNth(n)) => Checkpointing::EveryNth(n),
        (AcMode::MemoryBudget, _) => titan_ir::ice!("the configuration let activation_checkpoint.mode pass"),
    };
    let reshard_after_forward = match config.parallelism.fsdp_reshard_after_forward {
        ReshardPolicy::Default => ReshardAfterForward::Default,
        ReshardPolicy::Always => ReshardAfterForward::Always,
        ReshardPolicy::Never => ReshardAfterForward::Never,
    };
    let recompute_like = key.per_op_sac_force_recompute_mm_shapes_by_fqns.clone();
    Remat { checkpointing, recompute_like, reshard_after_forward, ..Remat::default() }
}

fn bucket(config: &Config) -> BucketCollectives {
    let default = BucketCollectives::default();
    let max_bytes = config.titan.bucket_mib.map_or(default.max_bytes, |mib| mib.saturating_mul(MIB));
    BucketCollectives { max_bytes, ..default }
}

/// Operators of the vendor compute one op each, and none of its products takes a kernel over its tiles.
fn fuse(config: &Config, target: Target) -> Fuse {
    let default = Fuse::default();
    match (target, config.titan.ascend_kernels) {
        (Target::Cpu(_), _) => default,
        (Target::Ascend(_), AscendKernels::Aclnn) => Fuse { max_operands: 0, epilogues: false },
        (Target::Ascend(_), AscendKernels::Fused) => Fuse { epilogues: false, ..default },
    }
}
