//! What tests of whole programs share: a folder of their own, and the two programs as a user runs them.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No run of these tests takes longer, unless ranks wait for each other forever.
const LONGEST_RUN: Duration = Duration::from_secs(120);

/// A small Llama 3 in which no size is a multiple of a vector width or a rank count.
pub const TINY: &str = r#"
[model]
name = "llama3"
flavor = "debugmodel"
[titan.model_args]
dim = 36
n_layers = 2
n_heads = 3
n_kv_heads = 1
hidden_dim = 51
vocab_size = 77
[optimizer]
lr = 4e-3
[lr_scheduler]
warmup_steps = 2
decay_ratio = 0.5
[metrics]
disable_color_printing = true
[training]
local_batch_size = 1
seq_len = 22
steps = 4
mixed_precision_param = "float32"
"#;

/// The project's test data.
pub fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

/// A program of this workspace: beside this one, or beside the folder of test programs.
///
/// # Panics
/// When it was not built.
pub fn program(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let mut places = here.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    places
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{name} is missing: run `cargo build --release` first"))
}

/// A line of `--metrics-json`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Step {
    /// Step, from 1.
    pub step: u64,
    /// Loss.
    pub loss: f64,
    /// Gradient norm.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
    /// Bytes a rank maps.
    pub memory_bytes: u64,
}

/// The lines of a file of `--metrics-json`.
///
/// # Panics
/// When the file is not whole lines of JSON.
pub fn read_metrics(path: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is not whole: {text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A folder for one test, removed at its end.
#[derive(Debug)]
pub struct Work {
    /// The folder.
    pub folder: PathBuf,
}

impl Work {
    /// A fresh folder; `name` tells tests of one process apart.
    pub fn new(name: &str) -> Self {
        let safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let folder = std::env::temp_dir().join(format!("titan-test-{}-{safe}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Names of everything in the folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Builds `run.titan` from the text of a configuration.
    pub fn build(&self, toml: &str) {
        self.build_with(toml, &[]);
    }

    /// Builds `run.titan` from the text of a configuration and `--section.key value` pairs.
    pub fn build_with(&self, toml: &str, overrides: &[&str]) {
        std::fs::write(self.path("run.toml"), toml).unwrap();
        let output = self.titanc(&[&["build", "run.toml", "-o", "run.titan"], overrides].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }

    /// Runs `titanc` in the folder.
    pub fn titanc(&self, args: &[&str]) -> Output {
        Command::new(program("titanc")).args(args).current_dir(&self.folder).output().unwrap()
    }

    /// Starts `titan-run` in the folder, its output piped.
    pub fn start(&self, args: &[&str]) -> Child {
        let mut command = Command::new(program("titan-run"));
        command.args(args).current_dir(&self.folder).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs `titan-run` in the folder.
    ///
    /// # Panics
    /// When it does not end.
    pub fn titan_run(&self, args: &[&str]) -> Output {
        finish(self.start(args))
    }

    /// Trains `run.titan` and gives every step's numbers.
    pub fn train(&self, ranks: u64, threads: u64, args: &[&str]) -> Vec<Step> {
        let (ranks, threads) = (ranks.to_string(), threads.to_string());
        let fixed =
            ["run.titan", "--nodes", &ranks, "--threads", &threads, "--metrics-json", "metrics.jsonl"];
        let output = self.titan_run(&[&fixed, args].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        read_metrics(&self.path("metrics.jsonl"))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // A folder that stays behind harms no other test.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Waits for a program and gives its output.
///
/// # Panics
/// When it does not end.
pub fn finish(mut child: Child) -> Output {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > LONGEST_RUN {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("the run does not end:\n{}{}", stdout(&output), stderr(&output));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// What a program printed on standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a program printed on standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
