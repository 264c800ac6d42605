//! What tests of whole programs share: a folder of their own, and the two programs.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The project's test data.
pub(crate) fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

/// A program of this workspace: beside the folder of test programs.
pub(crate) fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let path = here.parent().and_then(Path::parent).unwrap().join(name);
    assert!(path.exists(), "{} is missing: run `cargo build --release` first", path.display());
    path
}

/// A line of `--metrics-json`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Step {
    /// Loss.
    pub(crate) loss: f64,
    /// Gradient norm.
    pub(crate) grad_norm: f64,
    /// Learning rate.
    pub(crate) lr: f64,
}

/// A folder for one build, removed at the end.
pub(crate) struct Work {
    /// The folder.
    pub(crate) folder: PathBuf,
}

impl Work {
    /// A fresh folder; `name` tells tests of one process apart.
    pub(crate) fn new(name: &str) -> Self {
        let safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let folder = std::env::temp_dir().join(format!("titan-test-{}-{safe}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    /// Builds `run.titan` from the text of a configuration.
    pub(crate) fn build(&self, toml: &str) {
        std::fs::write(self.folder.join("run.toml"), toml).unwrap();
        let output = self.titanc(&["build", "run.toml", "-o", "run.titan"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs `titanc` in the folder.
    pub(crate) fn titanc(&self, args: &[&str]) -> Output {
        Command::new(program("titanc")).args(args).current_dir(&self.folder).output().unwrap()
    }

    /// Runs `titan-run` in the folder.
    pub(crate) fn titan_run(&self, args: &[&str]) -> Output {
        Command::new(program("titan-run")).args(args).current_dir(&self.folder).output().unwrap()
    }

    /// Trains `run.titan` and gives every step's numbers.
    pub(crate) fn train(&self, ranks: u64, threads: u64, args: &[&str]) -> Vec<Step> {
        let (ranks, threads) = (ranks.to_string(), threads.to_string());
        let fixed =
            ["run.titan", "--nodes", &ranks, "--threads", &threads, "--metrics-json", "metrics.jsonl"];
        let output = self.titan_run(&[&fixed, args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(self.folder.join("metrics.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // A folder that stays behind harms no other test.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
