//! The command line of `titan-run`.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// What runs a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceKind {
    /// This machine's processor; all ranks are threads of this process.
    Cpu,
    /// Ascend NPUs, by CANN; every rank of this process has a device.
    Ascend,
}

/// Trains what `titanc build` compiled.
#[derive(Debug, Clone, Parser)]
#[command(name = "titan-run", version, about, long_about = None)]
pub struct Options {
    /// The artifact `titanc build` wrote.
    pub artifact: PathBuf,

    /// Machines. On one machine they are simulated: all ranks are threads of this process.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub nodes: u64,

    /// Ranks of a machine.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub nproc_per_node: u64,

    /// Steps to train, at most as many as the artifact's schedule has; the default is `training.steps`.
    #[arg(long)]
    pub steps: Option<u64>,

    /// Threads of all ranks together, at most 4096; the default is one per core.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub threads: Option<u64>,

    /// What runs the step.
    #[arg(long, value_enum, default_value_t = DeviceKind::Cpu)]
    pub device: DeviceKind,

    /// Seed of the initial weights, instead of the artifact's.
    #[arg(long)]
    pub seed: Option<u64>,

    /// Folder or file of training text, instead of the artifact's.
    #[arg(long, conflicts_with = "tokens")]
    pub dataset_path: Option<String>,

    /// Folder of the tokenizer, instead of the artifact's.
    #[arg(long)]
    pub hf_assets_path: Option<String>,

    /// Train on fixed batches: a safetensors file with `tokens [steps * microbatches, batch, seq_len + 1]`.
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,

    /// First weights: safetensors with torchtitan's or Hugging Face's names, a file or a folder.
    #[arg(long, value_name = "FILE")]
    pub init_from: Option<PathBuf>,

    /// Write the trained weights, as safetensors with torchtitan's names, after the last step.
    #[arg(long, value_name = "FILE")]
    pub save_weights: Option<PathBuf>,

    /// Write every step's numbers in full precision, one JSON object per line.
    #[arg(long, value_name = "FILE")]
    pub metrics_json: Option<PathBuf>,

    /// Print where the time of a step goes, by instruction of the plan. On `ascend` the calls are then issued one at a time.
    #[arg(long)]
    pub profile: bool,

    /// No colours in step lines.
    #[arg(long)]
    pub no_color: bool,

    /// Write what is known of the run into a file, also when it fails: versions, devices, environment, program, errors.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// CANN: where it is installed, or a folder of its libraries, or one file that is all of them; the default is ASCEND_HOME_PATH.
    #[arg(long, value_name = "PATH", help_heading = "Ascend")]
    pub cann: Option<PathBuf>,

    /// Issue every step call by call instead of replaying captured graphs.
    #[arg(long, help_heading = "Ascend")]
    pub no_capture: bool,

    /// Map device memory piece by piece into one range, instead of one allocation.
    #[arg(long, help_heading = "Ascend")]
    pub expandable_segments: bool,

    /// Folder of compiled kernels; the default is titan/kernels in XDG_CACHE_HOME or ~/.cache.
    #[arg(long, value_name = "FOLDER", help_heading = "Ascend")]
    pub kernel_cache: Option<PathBuf>,

    /// Device of this process' first rank; the default is 0, or LOCAL_RANK as below.
    #[arg(long, default_value_t = 0, value_name = "NUMBER", help_heading = "Ascend")]
    pub first_device: u64,

    /// Ranks of the run over all processes. This process has `nproc-per-node` of them, from `first-rank` on. Without this option
    /// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say so, if a launcher has set them; under torchrun, whose
    /// own store listens at MASTER_PORT, the port after it is used.
    #[arg(long, value_name = "RANKS", help_heading = "Ascend, several processes", value_parser = clap::value_parser!(u64).range(1..))]
    pub world_size: Option<u64>,

    /// First rank of this process.
    #[arg(long, value_name = "RANK", requires = "world_size", help_heading = "Ascend, several processes")]
    pub first_rank: Option<u64>,

    /// Where the process of rank 0 listens for the others; the same for all.
    #[arg(long, value_name = "HOST:PORT", help_heading = "Ascend, several processes")]
    pub rendezvous: Option<String>,

    /// Seconds processes wait for each other at the start.
    #[arg(long, default_value_t = 120, value_name = "SECONDS", help_heading = "Ascend, several processes")]
    pub rendezvous_timeout: u64,

    /// HCCL's rank table, instead of letting rank 0's HCCL tell the others where it is.
    #[arg(long, value_name = "FILE", help_heading = "Ascend, several processes")]
    pub rank_table: Option<PathBuf>,
}
