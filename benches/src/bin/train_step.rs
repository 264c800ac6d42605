//! `cargo run --release -p titan-benches --bin train_step [-- --torch PYTHON] [--steps N]`
//!
//! Trains the llama3 debug model at 8 x 2048 tokens in f32 and bf16 and prints tokens per second, the share of the machine's measured GEMM
//! peak, and peak resident memory. With `--torch`, the same work by PyTorch runs in turn with ours, step counts equal, and ratios are
//! printed: the machine may be noisy, so compare within one run only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use titan_benches::{Used, median, program, project, run};
use titan_ir::DType;
use titan_run::kernels::peak::peak;
use titan_run::pool::Pool;

type Error = Box<dyn std::error::Error>;

const BATCH: u64 = 8;
const SEQ_LEN: u64 = 2048;

struct Args {
    torch: Option<PathBuf>,
    steps: u64,
    threads: usize,
}

struct Row {
    who: &'static str,
    dtype: &'static str,
    tokens_per_s: f64,
    peak_rss_bytes: u64,
}

fn main() -> Result<(), Error> {
    let args = parse_args()?;
    let folder = std::env::temp_dir().join(format!("titan-train-step-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut rows = Vec::new();
    for dtype in ["bfloat16", "float32"] {
        rows.push(titan(&args, &folder, dtype)?);
        if let Some(python) = &args.torch {
            rows.push(torch(&args, python, &folder, dtype)?);
        }
    }
    print_table(&args, &rows);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn parse_args() -> Result<Args, Error> {
    let mut parsed = Args { torch: None, steps: 5, threads: 2 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--torch" => parsed.torch = Some(value.into()),
            "--steps" => parsed.steps = value.parse()?,
            "--threads" => parsed.threads = value.parse()?,
            _ => return Err(format!("unknown option {arg}").into()),
        }
    }
    Ok(parsed)
}

fn check(what: &str, used: Used, log: &Path) -> Result<Used, Error> {
    if used.status.success() {
        return Ok(used);
    }
    Err(format!("{what} failed: {}\n{}", used.status, std::fs::read_to_string(log)?).into())
}

fn titan(args: &Args, folder: &Path, dtype: &'static str) -> Result<Row, Error> {
    let (artifact, log) = (folder.join("step.titan"), folder.join("titan.log"));
    let metrics = folder.join("metrics.jsonl");
    let mut build = Command::new(program("titanc")?);
    build.arg("build").arg(project().join("benches/train_step.toml")).arg("-o").arg(&artifact);
    build.args(["--training.mixed_precision_param", dtype, "--titan.world_size", "1"]);
    build.args(["--training.steps", &args.steps.to_string()]);
    check("titanc", run(&mut build, &log)?, &log)?;
    let mut train = Command::new(program("titan-run")?);
    train.arg(&artifact).args(["--threads", &args.threads.to_string()]).arg("--metrics-json").arg(&metrics);
    let used = check("titan-run", run(&mut train, &log)?, &log)?;
    Ok(Row {
        who: "titan",
        dtype,
        tokens_per_s: tokens_per_s(&metrics)?,
        peak_rss_bytes: used.peak_rss_bytes,
    })
}

fn torch(args: &Args, python: &Path, folder: &Path, dtype: &'static str) -> Result<Row, Error> {
    let (metrics, log) = (folder.join("torch.jsonl"), folder.join("torch.log"));
    let mut command = Command::new(python);
    command.arg(project().join("benches/torch_train_step.py"));
    command.args(["--dtype", dtype, "--batch", &BATCH.to_string(), "--seq-len", &SEQ_LEN.to_string()]);
    command.args(["--steps", &args.steps.to_string(), "--threads", &args.threads.to_string()]);
    command.arg("--metrics-json").arg(&metrics);
    let used = check("PyTorch", run(&mut command, &log)?, &log)?;
    Ok(Row {
        who: "torch.compile",
        dtype,
        tokens_per_s: tokens_per_s(&metrics)?,
        peak_rss_bytes: used.peak_rss_bytes,
    })
}

/// The median over all steps but the first, which may compile.
fn tokens_per_s(metrics: &Path) -> Result<f64, Error> {
    let text = std::fs::read_to_string(metrics)?;
    let read = |line: &str| serde_json::from_str::<BTreeMap<String, f64>>(line).map(|step| step["tps"]);
    let steps: Result<Vec<f64>, _> = text.lines().skip(1).map(read).collect();
    Ok(median(steps?))
}

/// Operations a step really does per token: causal attention does half of what torchtitan counts; recomputation is not counted.
fn needed_flops_per_token() -> f64 {
    let (layers, dim, hidden, vocab) = (6.0, 256.0, 768.0, 2048.0);
    let matmul_params = layers * (4.0 * dim * dim + 3.0 * dim * hidden) + dim * vocab;
    let attention = 6.0 * layers * dim * SEQ_LEN as f64;
    6.0 * matmul_params + attention
}

fn print_table(args: &Args, rows: &[Row]) {
    let pool = Pool::new(args.threads, None);
    println!(
        "llama3 debugmodel, {BATCH} x {SEQ_LEN} tokens a step, {} threads, {} steps",
        args.threads, args.steps
    );
    println!("| | dtype | tokens/s | share of GEMM peak | peak RSS, MiB |");
    println!("|---|---|---|---|---|");
    for row in rows {
        let dtype = if row.dtype == "float32" { DType::F32 } else { DType::Bf16 };
        let share = row.tokens_per_s * needed_flops_per_token() / peak(&pool, dtype);
        let mib = row.peak_rss_bytes >> 20;
        println!(
            "| {} | {} | {:.0} | {:.1} % | {mib} |",
            row.who,
            row.dtype,
            row.tokens_per_s,
            100.0 * share
        );
    }
    for dtype in ["bfloat16", "float32"] {
        let of = |who| rows.iter().find(|row| row.who == who && row.dtype == dtype);
        if let (Some(ours), Some(theirs)) = (of("titan"), of("torch.compile")) {
            println!(
                "{dtype}: {:.2} x the tokens/s, {:.2} x the peak RSS of torch.compile",
                ours.tokens_per_s / theirs.tokens_per_s,
                ours.peak_rss_bytes as f64 / theirs.peak_rss_bytes as f64
            );
        }
    }
}
