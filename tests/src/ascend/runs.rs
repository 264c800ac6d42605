//! One artifact run in several ways: styles, orders, with capture and without.

use super::command_of;
use crate::programs::{Step, Work, finish, read_metrics, stderr};
use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Output};

/// What computes between matrix products: `--ascend-kernels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Operators of the vendor only.
    Aclnn,
    /// Generated kernels where they fit.
    Fused,
}

impl Style {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Aclnn, Self::Fused];

    /// The value of `--ascend-kernels`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aclnn => "aclnn",
            Self::Fused => "fused",
        }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How an artifact is run.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Ranks, each a device.
    pub ranks: u64,
    /// Whether graphs are captured and replayed.
    pub captures: bool,
    /// In which order the host's devices run what may run.
    pub seed: u64,
}

/// What a run gave.
#[derive(Debug, Clone)]
pub struct Run {
    /// Its steps.
    pub steps: Vec<Step>,
    /// What the host implementation counted, by name.
    pub counts: BTreeMap<String, u64>,
}

impl Run {
    /// A count of the host implementation.
    ///
    /// # Panics
    /// When it does not count that.
    pub fn count(&self, name: &str) -> u64 {
        *self.counts.get(name).unwrap_or_else(|| panic!("no count of {name} in {:?}", self.counts))
    }

    /// Losses and gradient norms, bit for bit.
    pub fn bits(&self) -> Vec<[u64; 2]> {
        super::bits(&self.steps)
    }
}

/// Builds `NAME.titan` for an Ascend device from the text of a configuration.
///
/// # Panics
/// When it does not build.
pub fn build(work: &Work, name: &str, toml: &str, style: Style, overrides: &[&str]) {
    let (config, artifact) = (format!("{name}.toml"), format!("{name}.titan"));
    std::fs::write(work.path(&config), toml).expect("a folder that can be written");
    let fixed =
        ["build", &config, "-o", &artifact, "--target", "Ascend910B3", "--ascend-kernels", style.name()];
    let output = work.titanc(&[&fixed, overrides].concat());
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A command that runs `NAME.titan` on host devices; `run` names its files.
pub fn command(work: &Work, name: &str, run: &str, settings: Settings, args: &[&str]) -> Command {
    let (ranks, metrics) = (settings.ranks.to_string(), format!("{run}.jsonl"));
    let fixed = ["--nodes", &ranks, "--metrics-json", &metrics];
    let mut command = command_of(work, &format!("{name}.titan"), &[&fixed, args].concat());
    command
        .args((!settings.captures).then_some("--no-capture"))
        .env("HOST_CANN_SEED", settings.seed.to_string())
        .env("HOST_CANN_STATS", format!("{run}.stats"));
    command
}

/// Runs `NAME.titan` on host devices.
///
/// # Errors
/// What a run that failed printed.
///
/// # Panics
/// When it does not end, or leaves no numbers.
pub fn train(work: &Work, name: &str, settings: Settings, args: &[&str]) -> Result<Run, Output> {
    let run = format!("{name}-{}-{}-{}", settings.ranks, settings.captures, settings.seed);
    let output = finish(command(work, name, &run, settings, args).spawn().expect("titan-run starts"));
    if !output.status.success() {
        return Err(output);
    }
    let text = std::fs::read_to_string(work.path(&format!("{run}.stats"))).expect("counts at the end");
    let words: Vec<&str> = text.split_whitespace().collect();
    let counts = words.windows(2).filter_map(|pair| Some((pair[0].to_owned(), pair[1].parse().ok()?)));
    Ok(Run { steps: read_metrics(&work.path(&format!("{run}.jsonl"))), counts: counts.collect() })
}
