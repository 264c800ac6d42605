//! Runs on Ascend devices that the host plays.
#![expect(clippy::unwrap_used, reason = "tests")]

pub mod mutants;
pub mod proof;
pub mod runs;

use crate::programs::{Step, Work, finish, program, read_metrics, stderr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A small model whose sizes the devices' operators take.
pub const SMALL: &str = r#"
[model]
name = "llama3"
flavor = "debugmodel"
[titan.model_args]
dim = 64
n_layers = 2
n_heads = 4
n_kv_heads = 2
hidden_dim = 96
vocab_size = 128
[optimizer]
lr = 4e-3
[lr_scheduler]
warmup_steps = 2
decay_ratio = 0.5
[metrics]
disable_color_printing = true
[training]
local_batch_size = 2
seq_len = 32
steps = 5
"#;

/// Variables that decide where CANN is found, or what plays it.
const VARIABLES: [&str; 7] = [
    "ASCEND_HOME_PATH",
    "ASCEND_TOOLKIT_HOME",
    "ASCEND_CUSTOM_OPP_PATH",
    "LD_LIBRARY_PATH",
    "RANK",
    "WORLD_SIZE",
    "TITAN_BISHENGIR",
];

/// A folder in `work` as CANN's installer would make it, with the host's CANN as every library.
///
/// # Panics
/// When that was not built.
pub fn host_cann(work: &Work) -> PathBuf {
    let home = work.path("host-cann");
    let folder = home.join("lib64");
    if !folder.exists() {
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libacl_rt.so", "libnnopbase.so", "libopapi.so", "libhccl.so"] {
            std::os::unix::fs::symlink(library(), folder.join(name)).unwrap();
        }
    }
    home
}

/// The host's CANN: beside this test program, or where `cargo build` puts it.
fn library() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let beside = here.with_file_name("libhost_cann.so");
    if beside.exists() { beside } else { program("libhost_cann.so") }
}

/// `titan-run run.titan` in the folder of `work`, on devices the host plays.
pub fn command(work: &Work, args: &[&str]) -> Command {
    command_of(work, "run.titan", args)
}

/// `titan-run` of an artifact in the folder of `work`, on devices the host plays.
pub fn command_of(work: &Work, artifact: &str, args: &[&str]) -> Command {
    let mut command = without_cann(work, artifact, args);
    command.env("ASCEND_HOME_PATH", host_cann(work));
    command
}

/// `titan-run run.titan` in the folder of `work`, with no CANN to be found.
pub fn bare_command(work: &Work, args: &[&str]) -> Command {
    without_cann(work, "run.titan", args)
}

fn without_cann(work: &Work, artifact: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program("titan-run"));
    command.args([artifact, "--device", "ascend", "--kernel-cache", "kernels"]).args(args);
    command.current_dir(&work.folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.env("TITAN_BISHENGIR", program("host-bishengir"));
    command
}

/// Starts a command.
pub fn start(command: &mut Command) -> Child {
    command.spawn().unwrap()
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Output {
    finish(start(command))
}

/// Trains `run.titan` on devices, and gives every step's numbers and the bytes of the weights.
///
/// # Panics
/// When the run fails.
pub fn train(work: &Work, args: &[&str]) -> (Vec<Step>, Vec<u8>) {
    let files = ["--metrics-json", "device.jsonl", "--save-weights", "device.safetensors"];
    let output = run(&mut command(work, &[&files[..], args].concat()));
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    results(work, "device")
}

/// Numbers and weights of a run.
///
/// # Panics
/// When they are not there.
pub fn results(work: &Work, name: &str) -> (Vec<Step>, Vec<u8>) {
    let (metrics, weights) = (work.path(&format!("{name}.jsonl")), work.path(&format!("{name}.safetensors")));
    let found = (read_metrics(&metrics), std::fs::read(&weights).unwrap());
    let remove = |path: &Path| std::fs::remove_file(path).unwrap();
    remove(&metrics);
    remove(&weights);
    found
}

/// Losses and gradient norms as bits: equal only if nothing differs.
pub fn bits(steps: &[Step]) -> Vec<[u64; 2]> {
    steps.iter().map(|step| [step.loss.to_bits(), step.grad_norm.to_bits()]).collect()
}
