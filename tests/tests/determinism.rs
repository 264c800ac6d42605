//! The same command gives the same bits: losses, gradient norms, weights, console and artifact, whatever the number of threads, the
//! current folder or the environment.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;
use titan_tests::programs::{TINY, Work, program, read_metrics, stderr, stdout};

/// Sizes large enough that every kernel is split into several tasks, and two microbatches on two ranks, four on one.
const SPLIT: [&str; 19] = [
    "--titan.model_args.dim=120",
    "--titan.model_args.hidden_dim=250",
    "--titan.model_args.vocab_size=301",
    "--training.seq_len=150",
    "--training.local_batch_size",
    "3",
    "--training.global_batch_size",
    "12",
    "--training.steps",
    "3",
    "--metrics.log_freq",
    "1",
    "--parallelism.data_parallel_shard_degree",
    "-1",
    "--titan.ranks",
    "1,2",
    "--optimizer.lr=1e-2",
    "--lr_scheduler.warmup_steps",
    "1",
];

/// What a run leaves behind that must not vary.
#[derive(Debug, PartialEq)]
struct Trace {
    /// Bits of loss, gradient norm and learning rate of every step.
    numbers: Vec<[u64; 3]>,
    /// Step lines up to their times.
    lines: Vec<String>,
    /// The file of the trained weights.
    weights: Vec<u8>,
}

/// Runs `artifact` in `folder`, which is not the artifact's.
fn run(artifact: &Path, folder: &Work, ranks: u64, threads_per_rank: u64) -> Trace {
    let (nodes, threads) = (ranks.to_string(), (ranks * threads_per_rank).to_string());
    let args = [artifact.to_str().unwrap(), "--nodes", &nodes, "--threads", &threads];
    let files = ["--metrics-json", "m.jsonl", "--save-weights", "w.safetensors"];
    let output = folder.titan_run(&[&args[..], &files].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let steps = read_metrics(&folder.path("m.jsonl"));
    let text = stdout(&output);
    let untimed = |line: &str| Some(line.split_once("step: ")?.1.split_once("  tps:")?.0.to_owned());
    let trace = Trace {
        numbers: steps.iter().map(|s| [s.loss, s.grad_norm, s.lr].map(f64::to_bits)).collect(),
        // Threads take workspace, so the memory of a line depends on them.
        lines: text
            .lines()
            .filter_map(untimed)
            .map(|l| l.split("  memory:").next().unwrap().to_owned())
            .collect(),
        weights: fs::read(folder.path("w.safetensors")).unwrap(),
    };
    assert_eq!((trace.numbers.len(), trace.lines.len()), (3, 3), "{text}");
    trace
}

fn runs_agree(dtype: &str) {
    let work = Work::new(&format!("determinism {dtype}"));
    let elsewhere = Work::new(&format!("determinism elsewhere {dtype}"));
    work.build_with(TINY, &[&SPLIT[..], &["--training.mixed_precision_param", dtype]].concat());
    let artifact = work.path("run.titan");
    for ranks in [1, 2] {
        let first = run(&artifact, &work, ranks, 1);
        assert_ne!(first.numbers[0], first.numbers[2], "nothing is trained");
        for threads in [1, 2, 3] {
            let again = run(&artifact, &elsewhere, ranks, threads);
            assert_eq!(first.numbers, again.numbers, "{dtype}, {ranks} ranks, {threads} threads per rank");
            assert_eq!(first.lines, again.lines, "{dtype}, {ranks} ranks, {threads} threads per rank");
            assert!(first.weights == again.weights, "{dtype}, {ranks} ranks, {threads} threads per rank");
        }
    }
}

#[test]
fn f32_runs_agree_to_the_bit() {
    runs_agree("float32");
}

#[test]
fn bf16_runs_agree_to_the_bit() {
    runs_agree("bfloat16");
}

#[test]
fn builds_agree_to_the_byte() {
    let (work, elsewhere) = (Work::new("builds"), Work::new("builds elsewhere"));
    let keep = ["--emit-ir", "--parallelism.data_parallel_shard_degree", "-1", "--titan.ranks", "1,3"];
    work.build_with(TINY, &keep);
    let first = fs::read(work.path("run.titan")).unwrap();
    fs::write(elsewhere.path("run.toml"), TINY).unwrap();
    let titanc = program("titanc");
    let build = |program: &Path, before: &[&str], folder: &Work, toml: &Path, envs: &[(&str, &str)]| {
        let mut command = Command::new(program);
        command.args(before).arg("build").arg(toml).args(keep).args(["-o", "again.titan"]);
        command.current_dir(&folder.folder).envs(envs.iter().copied());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let again = fs::read(folder.path("again.titan")).unwrap();
        assert!(first == again, "{before:?} {} in {} {envs:?}", toml.display(), folder.folder.display());
    };
    build(&titanc, &[], &work, Path::new("run.toml"), &[]);
    build(&titanc, &[], &elsewhere, Path::new("run.toml"), &[]);
    build(&titanc, &[], &elsewhere, &work.path("run.toml"), &[]);
    let odd = [("RAYON_NUM_THREADS", "1"), ("TZ", "Asia/Tokyo"), ("LANG", "tr_TR.UTF-8"), ("HOME", "/")];
    build(&titanc, &[], &work, Path::new("run.toml"), &odd);
    build(Path::new("taskset"), &["-c", "0", titanc.to_str().unwrap()], &work, Path::new("run.toml"), &[]);
}
