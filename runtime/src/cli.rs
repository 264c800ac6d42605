//! The command line of `titan-run`.

use clap::Parser;
use std::path::PathBuf;

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

    /// Where the step runs. This program runs `cpu`.
    #[arg(long, default_value = "cpu")]
    pub device: String,

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

    /// Print where the time of a step goes, by instruction of the plan.
    #[arg(long)]
    pub profile: bool,

    /// No colours in step lines.
    #[arg(long)]
    pub no_color: bool,
}

impl Options {
    /// Ranks of the run.
    pub fn world_size(&self) -> u64 {
        self.nodes.saturating_mul(self.nproc_per_node)
    }
}
