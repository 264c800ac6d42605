//! The compiler's last text, run on the CPU.

use super::vendor::Compiled;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use titan_ir::ascend::{DeviceKernel, Soc};
use titan_ir::kernel::{Access, Input, Store};
use titan_kernel_tests::bound::Device;
use titan_kernel_tests::run::{Trial, Verdict};

#[derive(Serialize)]
struct Job {
    name: String,
    hivm: String,
    symbol: String,
    blocks: u32,
    reverse: bool,
    args: Vec<JobArg>,
}

#[derive(Serialize)]
struct JobArg {
    file: String,
    dims: Vec<u64>,
    size_bytes: u64,
    write: bool,
    over: Option<usize>,
}

#[derive(Deserialize)]
struct Answer {
    name: String,
    error: Option<String>,
}

/// A job and how to judge what it leaves.
struct Run<'a> {
    kernel: &'a DeviceKernel,
    trial: Trial,
    job: Job,
}

/// Simulates kernels, each once with results in memory of their own and, where a plan could have that, once over its operands, the blocks in the
/// opposite order.
pub(super) fn check(
    simulator: &Path,
    work: &Path,
    soc: &Soc,
    compiled: &Compiled<'_>,
) -> Result<bool, String> {
    let mut runs = Vec::new();
    for (kernel, text) in &compiled.made {
        runs.push(prepare(work, kernel, text, false)?);
        let in_place = prepare(work, kernel, text, true)?;
        if in_place.job.args.iter().any(|arg| arg.over.is_some()) {
            runs.push(in_place);
        }
    }
    let answers = simulate(simulator, work, &runs)?;
    let (mut num_good, mut total) = (0, Verdict::default());
    for (run, answer) in runs.iter().zip(answers) {
        if answer.name != run.job.name {
            return Err(format!("an answer for {}, not {}", answer.name, run.job.name));
        }
        let verdict = match answer.error {
            Some(error) => Err(error),
            None => outputs(run).and_then(|outputs| run.trial.judge(&outputs)),
        };
        match verdict {
            Ok(verdict) => {
                num_good += 1;
                total.num_elements += verdict.num_elements;
                total.num_equal += verdict.num_equal;
                total.worst = total.worst.max(verdict.worst);
            }
            Err(error) => println!(
                "  {}: {error}\n    {} rows of {:?}",
                run.job.name, run.kernel.rows, run.kernel.kernel
            ),
        }
    }
    println!(
        "{}: {num_good}/{} simulations right, {} of {} elements equal, worst relative error {:.1e}",
        soc.name,
        runs.len(),
        total.num_equal,
        total.num_elements,
        total.worst
    );
    Ok(num_good == runs.len())
}

fn prepare<'a>(work: &Path, kernel: &'a DeviceKernel, text: &str, in_place: bool) -> Result<Run<'a>, String> {
    let trial = Trial::new(kernel, kernel.rows, Device::VECTOR_CORE);
    let name = format!("{}{}", kernel.symbol, if in_place { "_over" } else { "" });
    let path = |suffix: &str| work.join(format!("{name}.{suffix}")).display().to_string();
    let write = |file: &str, bytes: &[u8]| std::fs::write(file, bytes).map_err(|e| format!("{file}: {e}"));
    let hivm = path("hivm.mlir");
    write(&hivm, text.as_bytes())?;
    let places = if in_place { places(kernel) } else { vec![None; kernel.kernel.outputs.len()] };
    let num_inputs = trial.inputs.len();
    let mut args = Vec::new();
    for (i, arg) in kernel.args.iter().enumerate() {
        let file = path(&i.to_string());
        if let Some(bytes) = trial.inputs.get(i) {
            write(&file, bytes)?;
        }
        let over = i.checked_sub(num_inputs).and_then(|output| places[output]);
        args.push(JobArg {
            file,
            dims: arg.dims.clone(),
            size_bytes: arg.size_bytes(),
            write: i >= num_inputs,
            over,
        });
    }
    let (symbol, blocks) = (kernel.symbol.clone(), kernel.num_blocks);
    let job = Job { name, hivm, symbol, blocks, reverse: in_place, args };
    Ok(Run { kernel, trial, job })
}

/// For each output an input it may lie over: the same elements, addressed alike.
fn places(kernel: &DeviceKernel) -> Vec<Option<usize>> {
    let mut is_free = vec![true; kernel.kernel.inputs.len()];
    let place = |output: &titan_ir::kernel::Output| {
        let access = match output.store {
            Store::Full => Access::Full,
            Store::Row => Access::Row,
            Store::ColSum { .. } => return None,
        };
        let wanted = Input { dtype: output.dtype, access };
        let found = (0..is_free.len()).find(|&k| is_free[k] && kernel.kernel.inputs[k] == wanted)?;
        is_free[found] = false;
        Some(found)
    };
    kernel.kernel.outputs.iter().map(place).collect()
}

/// Runs the jobs, on all processors.
fn simulate(simulator: &Path, work: &Path, runs: &[Run<'_>]) -> Result<Vec<Answer>, String> {
    let num = std::thread::available_parallelism().map_or(1, usize::from);
    let shares: Vec<_> = runs.chunks(runs.len().div_ceil(num).max(1)).enumerate().collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = shares
            .into_iter()
            .map(|(i, share)| {
                scope.spawn(move || simulate_share(simulator, &work.join(i.to_string()), share))
            })
            .collect();
        let answers = workers.into_iter().map(|w| w.join().expect("a worker does not panic"));
        answers.collect::<Result<Vec<_>, _>>().map(|answers| answers.into_iter().flatten().collect())
    })
}

fn simulate_share(simulator: &Path, work: &Path, runs: &[Run<'_>]) -> Result<Vec<Answer>, String> {
    std::fs::create_dir_all(work).map_err(|e| format!("{}: {e}", work.display()))?;
    let mut child = Command::new("python3")
        .arg("scripts/simulate_kernels.py")
        .args([simulator, work])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot run python3: {e}"))?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let jobs: String = runs
        .iter()
        .map(|run| serde_json::to_string(&run.job).map(|line| line + "\n"))
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    let writer = std::thread::spawn(move || stdin.write_all(jobs.as_bytes()));
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let written = writer.join().map_err(|_| "the writer panicked")?;
    written.map_err(|e| format!("the simulator stopped reading: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answers = text.lines().filter(|line| line.starts_with('{'));
    let answers: Vec<Answer> =
        answers.map(serde_json::from_str).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    if answers.len() == runs.len() {
        return Ok(answers);
    }
    let last = runs.get(answers.len()).map_or("", |run| run.job.name.as_str());
    Err(format!("the simulator ended at {last}: {}", output.status))
}

/// What a job left.
fn outputs(run: &Run<'_>) -> Result<Vec<Vec<u8>>, String> {
    let written = run.job.args.iter().filter(|arg| arg.write);
    written.map(|arg| std::fs::read(&arg.file).map_err(|e| format!("{}: {e}", arg.file))).collect()
}
