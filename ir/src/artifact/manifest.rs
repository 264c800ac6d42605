//! What an artifact says of itself.

use crate::Mesh;
use crate::kernel::RowKernel;
use crate::plan::MemoryReport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The manifest, stored as JSON for people and scripts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the compiler.
    pub titan_version: String,
    /// Where the plans run.
    pub target: TargetInfo,
    /// What is trained.
    pub model: ModelInfo,
    /// How it is run.
    pub run: RunInfo,
    /// Where the text comes from.
    pub data: DataInfo,
    /// One entry per number of ranks.
    pub plans: Vec<PlanInfo>,
    /// Every key of the configuration with the value it resolved to.
    pub config: serde_json::Value,
    /// BLAKE3 of every input of the build, by name, and of all of them under `all`.
    pub fingerprint: BTreeMap<String, String>,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// `cpu-avx512`, `cpu-avx2`, `cpu-portable`, ...
    pub name: String,
    /// CPU features the code uses, as `/proc/cpuinfo` names them.
    pub features: Vec<String>,
}

/// The model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// `llama3`.
    pub name: String,
    /// `debugmodel`, `8B`, ...
    pub flavor: String,
    /// Trained elements.
    pub num_params: u64,
    /// Floating-point operations per trained token, as torchtitan counts them.
    pub flops_per_token: u64,
    /// Rows of the embedding table: token ids are below it.
    pub vocab_size: u64,
    /// What Hugging Face calls the weights.
    pub hf_names: Vec<HfName>,
}

/// The Hugging Face name of weights; `*` stands for a layer number in both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HfName {
    /// Our name, which is torchtitan's.
    pub fqn: String,
    /// Theirs.
    pub hf: String,
    /// For query and key projections the number of heads: their rows pair `i` with `i + head_dim / 2`, ours `2 i` with `2 i + 1`.
    pub rope_heads: Option<u64>,
}

/// The run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// `job.description`.
    pub description: String,
    /// File name of the TOML, without its folder.
    pub config_file: Option<String>,
    /// `job.dump_folder`.
    pub dump_folder: String,
    /// `training.steps`.
    pub steps: u64,
    /// Longest `--steps`: the length of the schedule's tables.
    pub max_steps: u64,
    /// `metrics.log_freq`.
    pub log_freq: u64,
    /// Whether step lines carry colours.
    pub color: bool,
    /// Tokens of a sequence.
    pub seq_len: u64,
    /// Sequences of a rank and microbatch.
    pub local_batch_size: u64,
    /// `debug.seed`.
    pub seed: u64,
    /// Device memory of the fit report.
    pub memory_bytes: Option<u64>,
    /// `bf16` or `f32`: element type of the compute.
    pub compute_dtype: String,
}

/// The data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataInfo {
    /// `training.dataset`.
    pub dataset: String,
    /// `training.dataset_path`.
    pub dataset_path: Option<String>,
    /// `model.hf_assets_path`.
    pub tokenizer_path: String,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanInfo {
    /// Ranks.
    pub world_size: u64,
    /// The mesh.
    pub mesh: Mesh,
    /// Microbatches of a step.
    pub accumulation: u64,
    /// Sequences of a step over all ranks.
    pub global_batch_size: u64,
    /// Bytes of a rank.
    pub memory: MemoryReport,
}

/// The generated kernels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelTable {
    /// What each kernel computes.
    pub kernels: Vec<RowKernel>,
    /// Where its code starts in the image.
    pub entries: Vec<u64>,
}
