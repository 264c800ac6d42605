//! Every diagnostic of the file, as the user sees it.

use super::{codes, refused};
use crate::config::{load, parse};
use std::path::Path;

#[test]
fn unknown_names() {
    insta::assert_snapshot!(refused(
        "titanic = 1
seq_len = 2048
\"training.steps\" = 3

[training]
seq_length = 2048
lr = 3e-4
warmup_step = 5
zzz = 1
batch_size = 4

[optimiser]
lr = 1.0

[training.data_loader]
num_workers = 2

[float8]
filter_fqns = ['output']

[lr_scheduler]
warmup = 10
lr_min = 0.1
"
    ));
}

#[test]
fn wrong_types() {
    insta::assert_snapshot!(refused(
        "checkpoint = true

[training]
seq_len = \"2048\"
steps = 1e3
local_batch_size = true
global_batch_size = 99999999999999999999
dataset = 4
dataset_path = [\"a\"]
max_norm = \"1.0\"
enable_cpu_offload = \"False\"

[lr_scheduler]
decay_ratio = \"None\"

[model]
converters = \"float8, mx\"

[activation_checkpoint]
selective_ac_option = 2

[[parallelism]]
tensor_parallel_degree = 8

[job]
description = 2026-01-01

[titan]
ranks = 2

[titan.model_args]
dim = [1]
"
    ));
}

#[test]
fn bad_values() {
    insta::assert_snapshot!(refused(
        "[optimizer]
name = \"adamw\"
lr = -1
beta2 = 1.0
eps = nan
weight_decay = inf

[lr_scheduler]
decay_type = \"exponential\"
decay_ratio = 1.5

[training]
local_batch_size = 0
warp_speed = 9
max_norm = 0
mixed_precision_param = \"bf16\"

[parallelism]
data_parallel_shard_degree = 0

[activation_checkpoint]
selective_ac_option = \"ops\"

[debug]
seed = -3

[titan]
target = \"ascend910b\"
ranks = [2, 0, 4]
"
    ));
}

#[test]
fn refused_features() {
    insta::assert_snapshot!(refused(
        "[job]
custom_config_module = \"my.config\"

[model]
converters = [\"quantize.linear.float8\"]

[training]
dtype = \"bfloat16\"

[parallelism]
tensor_parallel_degree = 8
pipeline_parallel_degree = 2
context_parallel_degree = 4
expert_parallel_degree = 2

[checkpoint]
enable = true

[activation_checkpoint]
mode = \"memory_budget\"

[validation]
enable = true

[fault_tolerance]
enable = true
"
    ));
}

#[test]
fn warnings() {
    let text = "[profiling]
enable_profiling = true
enable_memory_snapshot = true

[metrics]
enable_tensorboard = true
enable_wandb = true

[model]
tokenizer_path = \"./assets/tokenizer\"
hf_assets_path = \"./other\"

[training]
steps = 100
seed = 7

[lr_scheduler]
warmup_steps = 150
decay_ratio = 0.5
total_steps = 90
";
    let (config, warnings) = parse("train.toml", text, &[]).unwrap();
    insta::assert_snapshot!(warnings);
    assert_eq!(config.model.hf_assets_path, "./assets/tokenizer");
    assert_eq!(config.debug.seed, Some(7));
    assert_eq!((config.lr_schedule().warmup, config.lr_schedule().decay), (90, 0));
}

#[test]
fn values_that_do_not_agree() {
    insta::assert_snapshot!(refused(
        "[model]
tokenizer_path = \"./assets/tokenizer/original/tokenizer.model\"
converters = [\"float8\"]

[titan]
ranks = [2, 4, 2]
"
    ));
    assert_eq!(codes(&refused("titan.ranks = []")), ["T0423"]);
}

#[test]
fn syntax_errors() {
    insta::assert_snapshot!(refused(
        "[training]
steps = 10
steps = 20
enable_cpu_offload = False
dataset = c4

[optimizer
lr = 3e-4
"
    ));
}

#[test]
fn a_missing_file_is_named() {
    let diags = load(Some(Path::new("no/such/file.toml")), &[]).unwrap_err();
    assert_eq!(codes(&diags), ["T0400"]);
    assert!(diags.to_string().contains("no/such/file.toml"), "{diags}");
    let args = ["--job.config-file=no/such/other.toml".to_string()];
    assert!(load(None, &args).unwrap_err().to_string().contains("no/such/other.toml"));
}

#[test]
fn unknown_names_may_belong_to_a_schema_extension() {
    insta::assert_snapshot!(refused(
        "[experimental]
custom_args_module = \"torchtitan.models.flux.job_config\"

[training]
img_size = 256

[encoder]
t5_encoder = \"google/t5-v1_1-xxl\"
"
    ));
}
