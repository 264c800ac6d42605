//! The settings torchtitan ships.

use super::{accepted, codes};
use crate::config::{AcMode, ReshardPolicy, SelectiveAc, parse};

/// llama3 `debug_model.toml`.
pub(super) const DEBUG: &str = r#"
[job]
dump_folder = "./outputs"
description = "Llama 3 debug training"
print_config = false

[profiling]
enable_profiling = false
save_traces_folder = "profile_trace"
profile_freq = 10
enable_memory_snapshot = false
save_memory_snapshot_folder = "memory_snapshot"

[metrics]
log_freq = 1
disable_color_printing = false
enable_tensorboard = false
save_tb_folder = "tb"
enable_wandb = false

[model]
name = "llama3"
flavor = "debugmodel"
hf_assets_path = "./tests/assets/tokenizer"

[optimizer]
name = "AdamW"
lr = 8e-4
eps = 1e-8

[lr_scheduler]
warmup_steps = 2
decay_ratio = 0.8
decay_type = "linear"
min_lr_factor = 0.0

[training]
local_batch_size = 8
seq_len = 2048
max_norm = 1.0
steps = 10
dataset = "c4_test"

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
fsdp_reshard_after_forward = "default"
tensor_parallel_degree = 1
enable_async_tensor_parallel = false
pipeline_parallel_degree = 1
pipeline_parallel_schedule = "Interleaved1F1B"
context_parallel_degree = 1
expert_parallel_degree = 1
expert_tensor_parallel_degree = 1

[checkpoint]
enable = false
folder = "checkpoint"
interval = 10
last_save_model_only = false
export_dtype = "float32"
async_mode = "disabled"

[activation_checkpoint]
mode = "selective"
selective_ac_option = '2'

[compile]
enable = false
components = ["model", "loss"]

[quantize.linear.float8]
enable_fsdp_float8_all_gather = false
precompute_float8_dynamic_scale_for_fsdp = false
filter_fqns = ["output"]

[validation]
enable = false
dataset = "c4_validation"
freq = 5
steps = 10
"#;

/// llama3 `llama3_8b.toml`.
pub(super) const LLAMA3_8B: &str = r#"
[job]
dump_folder = "./outputs"
description = "Llama 3 8B training"

[profiling]
enable_profiling = true
save_traces_folder = "profile_trace"
profile_freq = 100

[metrics]
log_freq = 10
enable_tensorboard = true
save_tb_folder = "tb"

[model]
name = "llama3"
flavor = "8B"
hf_assets_path = "./assets/hf/Llama-3.1-8B"

[optimizer]
name = "AdamW"
lr = 3e-4
eps = 1e-8

[lr_scheduler]
warmup_steps = 200

[training]
local_batch_size = 1
seq_len = 8192
max_norm = 1.0
steps = 1000
dataset = "c4"

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = -1
tensor_parallel_degree = 1
pipeline_parallel_degree = 1
context_parallel_degree = 1

[checkpoint]
enable = false
folder = "checkpoint"
interval = 500
last_save_model_only = true
export_dtype = "float32"
async_mode = "disabled"

[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"

[compile]
enable = false
components = ["model", "loss"]

[quantize.linear.float8]
enable_fsdp_float8_all_gather = false
precompute_float8_dynamic_scale_for_fsdp = false
filter_fqns = ["output"]
"#;

/// llama3 `llama3_70b.toml`.
const LLAMA3_70B: &str = r#"
[model]
name = "llama3"
flavor = "70B"
hf_assets_path = "./assets/hf/Llama-3.1-70B"

[optimizer]
lr = 1.5e-4

[lr_scheduler]
warmup_steps = 200

[training]
local_batch_size = 8
seq_len = 8192
steps = 1000
dataset = "c4"

[parallelism]
tensor_parallel_degree = 8

[activation_checkpoint]
mode = "full"
"#;

/// llama3 `llama3_405b.toml`, with the old name of its converter as shipped.
const LLAMA3_405B: &str = r#"
[model]
name = "llama3"
flavor = "405B"
hf_assets_path = "./assets/hf/Llama-3.1-405B"
converters = ["float8"]

[optimizer]
lr = 8e-5

[lr_scheduler]
warmup_steps = 600

[training]
local_batch_size = 2
seq_len = 8192
steps = 3000
dataset = "c4"

[parallelism]
tensor_parallel_degree = 8
enable_async_tensor_parallel = true

[activation_checkpoint]
mode = "full"

[compile]
enable = true
components = ["model", "loss"]

[quantize.linear.float8]
enable_fsdp_float8_all_gather = true
precompute_float8_dynamic_scale_for_fsdp = true
filter_fqns = ["output"]
"#;

/// deepseek_v3 `deepseek_v3_16b.toml`.
const DEEPSEEK_16B: &str = r#"
[model]
name = "deepseek_v3"
flavor = "16B"

[optimizer]
lr = 2.2e-4

[lr_scheduler]
decay_ratio = 0.8
decay_type = "cosine"
min_lr_factor = 0.1

[training]
local_batch_size = 4
seq_len = 4096

[parallelism]
expert_parallel_degree = 8

[compile]
enable = true
components = ["loss"]
"#;

/// qwen3 `qwen3_moe_debug.toml`.
const QWEN3_MOE: &str = r#"
[model]
name = "qwen3"
flavor = "debugmodel_moe"

[optimizer]
lr = 3e-4

[lr_scheduler]
warmup_steps = 2

[training]
local_batch_size = 4
seq_len = 4096
steps = 10

[checkpoint]
export_dtype = "float16"

[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
"#;

/// llama3_ft `debug_model.toml`.
const LLAMA3_FT: &str = r#"
[job]
custom_config_module = "torchtitan.experiments.ft.config.job_config"

[model]
name = "llama3_ft"
flavor = "debugmodel"

[training]
steps = 100

[fault_tolerance]
enable = true
sync_steps = 10
num_fragments = 2
semi_sync_method = "diloco"
process_group = "nccl"
process_group_timeout_ms = 10000

[lr_scheduler]
warmup_steps = 2
"#;

/// All of them, for mutation.
pub(super) const ALL: &[&str] =
    &[DEBUG, LLAMA3_8B, LLAMA3_70B, LLAMA3_405B, DEEPSEEK_16B, QWEN3_MOE, LLAMA3_FT];

#[test]
fn the_debug_model_is_accepted_in_silence() {
    let config = accepted(DEBUG);
    assert_eq!(config.model.flavor, "debugmodel");
    assert_eq!((config.training.local_batch_size, config.training.seq_len), (8, 2048));
    assert_eq!(config.activation_checkpoint.mode, AcMode::Selective);
    assert_eq!(config.activation_checkpoint.selective_ac_option, SelectiveAc::EveryNth(2));
    assert_eq!(config.parallelism.fsdp_reshard_after_forward, ReshardPolicy::Default);
    let recomputed: Vec<u64> =
        (0..6).filter(|i| config.activation_checkpoint.selective_ac_option.recomputes_block(*i)).collect();
    assert_eq!(recomputed, [1, 3, 5]);
    assert_eq!(config.planned_dims().unwrap().len(), 4);
}

#[test]
fn base_config_is_the_debug_model_with_the_default_schedule() {
    let base = DEBUG.replace("pipeline_parallel_schedule = \"Interleaved1F1B\"\n", "");
    assert_eq!(accepted(&base).parallelism.pipeline_parallel_schedule, "1F1B");
}

#[test]
fn llama3_8b_is_accepted_with_warnings_about_observers() {
    let (config, warnings) = parse("llama3_8b.toml", LLAMA3_8B, &[]).unwrap();
    insta::assert_snapshot!(warnings);
    assert_eq!(config.activation_checkpoint.selective_ac_option, SelectiveAc::Op);
    assert_eq!(config.optimizer.lr, 3e-4);
    assert_eq!((config.lr_schedule().warmup, config.lr_schedule().decay), (200, 800));
    assert_eq!(config.parallel_dims(1024).unwrap().dp_shard, 1024);
}

#[test]
fn presets_with_missing_features_are_refused_by_name() {
    for (name, text) in [
        ("llama3_70b", LLAMA3_70B),
        ("llama3_405b", LLAMA3_405B),
        ("deepseek_v3_16b", DEEPSEEK_16B),
        ("llama3_ft", LLAMA3_FT),
    ] {
        insta::assert_snapshot!(name, parse(&format!("{name}.toml"), text, &[]).unwrap_err());
    }
}

#[test]
fn presets_without_missing_features_are_accepted() {
    accepted(&LLAMA3_70B.replace("tensor_parallel_degree = 8", "tensor_parallel_degree = 1"));
    let (_, warnings) = parse("qwen3_moe_debug.toml", QWEN3_MOE, &[]).unwrap();
    assert_eq!(codes(&warnings), Vec::<&str>::new());
    let plain = LLAMA3_405B.replace("_degree = 8", "_degree = 1").replace("[\"float8\"]", "[]");
    assert_eq!(accepted(&plain).training.steps, 3000);
}

#[test]
fn an_override_takes_a_refused_feature_back() {
    let overrides = ["--parallelism.tensor_parallel_degree=1", "--model.converters", ""].map(str::to_string);
    let (config, warnings) = parse("llama3_405b.toml", LLAMA3_405B, &overrides).unwrap();
    assert_eq!(codes(&warnings), ["T0413"]);
    assert_eq!((config.parallelism.tensor_parallel_degree, config.model.converters.len()), (1, 0));
}
