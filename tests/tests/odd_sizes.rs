//! Sizes that are multiples of nothing, against an oracle: the traced model with its gradients and optimizer, evaluated op by op in f64
//! on one rank and in one microbatch. No kernel, layout, collective, fusion or plan of the run takes part in it.
#![expect(clippy::unwrap_used, reason = "tests")]

use titan_ir::eval::{EvalMode, Tensor, eval};
use titan_ir::{Func, ResultKind, text};
use titan_tests::programs::{Step, TINY, Work, stderr, stdout};
use titan_tests::tensors::{draw_tokens, write_tokens};

/// Tokens of a row of a token file: a sequence and the label of its last token.
const ROW_LEN: usize = 23;
const VOCAB: u64 = 77;
const NUM_STEPS: usize = 4;
/// The seed of an artifact whose configuration names none.
const SEED: u64 = 42;

/// Loss and gradient norm of a step.
type Numbers = (f64, f64);

fn tokens(batch: usize) -> Vec<i32> {
    draw_tokens(NUM_STEPS * batch * ROW_LEN, VOCAB)
}

/// What `NUM_STEPS` steps on `batch` sequences give in f64.
fn oracle(work: &Work, batch: usize) -> Vec<Numbers> {
    std::fs::write(work.path("run.toml"), TINY).unwrap();
    let size = batch.to_string();
    let stop = ["--stop-after", "optimizer", "--titan.world_size", "1", "--training.local_batch_size", &size];
    let output = work.titanc(&[&["build", "run.toml"], &stop[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let module = text::parse("traced", &stdout(&output)).unwrap();
    let [func] = &module.funcs[..] else { panic!("one microbatch is one function") };
    let mut args: Vec<Tensor> = func.params.iter().map(|param| first_value(func, param)).collect();
    let rows = tokens(batch);
    let mut numbers = Vec::new();
    for (step, rows) in rows.chunks_exact(batch * ROW_LEN).enumerate() {
        for (param, arg) in func.params.iter().zip(&mut args) {
            let of_rows = |skip: usize| {
                let rows = rows.chunks_exact(ROW_LEN);
                rows.flat_map(|row| row[skip..][..ROW_LEN - 1].iter().map(|&t| f64::from(t))).collect()
            };
            match param.name.as_str() {
                "tokens" => arg.data = of_rows(0),
                "labels" => arg.data = of_rows(1),
                "step" => arg.data = vec![step as f64],
                _ => {}
            }
        }
        let results = eval(func, &args, EvalMode::F64);
        let output = |name: &str| {
            let named = |kind: &ResultKind| matches!(kind, ResultKind::Output(n) if n == name);
            results[func.results.iter().position(|r| named(&r.kind)).unwrap()].data[0]
        };
        numbers.push((output("loss"), output("grad_norm")));
        for (result, value) in func.results.iter().zip(&results) {
            if let ResultKind::Update(param) = result.kind {
                args[param] = value.clone();
            }
        }
    }
    numbers
}

fn first_value(func: &Func, param: &titan_ir::Param) -> Tensor {
    let dims = &func.ty(param.value).dims;
    let mut values = vec![0.0_f32; dims.iter().product::<u64>() as usize];
    param.init.fill(SEED, &param.name, dims, 0, &mut values);
    Tensor::new(dims, values.into_iter().map(f64::from).collect())
}

fn check(run: &str, steps: &[Step], expected: &[Numbers], tolerance: f64) {
    assert_eq!(steps.len(), expected.len(), "{run}");
    for (step, (loss, norm)) in steps.iter().zip(expected) {
        let off = [step.loss / loss - 1.0, step.grad_norm / norm - 1.0];
        assert!(
            off.iter().all(|x| x.abs() <= tolerance),
            "{run}, step {}: loss {} for {loss}, grad_norm {} for {norm}: off by {off:?}",
            step.step,
            step.loss,
            step.grad_norm
        );
    }
}

/// Builds for all of `ranks` and trains on each: FSDP, `batch` sequences a step in microbatches of `local` sequences of a rank.
fn fsdp(
    work: &Work,
    ranks: &[u64],
    batch: usize,
    local: usize,
    more: &[&str],
    tolerance: f64,
    expected: &[Numbers],
) {
    let list = ranks.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let (local_size, global_size) = (local.to_string(), batch.to_string());
    let sizes = ["--training.local_batch_size", &local_size, "--training.global_batch_size", &global_size];
    let open = ["--parallelism.data_parallel_shard_degree", "-1", "--titan.ranks", &list];
    work.build_with(TINY, &[&sizes[..], &open, more].concat());
    for &ranks in ranks {
        train_and_check(work, ranks, batch, local, tolerance, expected);
    }
}

fn train_and_check(
    work: &Work,
    ranks: u64,
    batch: usize,
    local: usize,
    tolerance: f64,
    expected: &[Numbers],
) {
    let rows = ranks as usize * local;
    write_tokens(&work.path("t.safetensors"), [NUM_STEPS * batch / rows, rows, ROW_LEN], &tokens(batch));
    let steps = work.train(ranks, ranks * 2, &["--tokens", "t.safetensors"]);
    check(&format!("{ranks} ranks, {local} of {batch} sequences"), &steps, expected, tolerance);
}

#[test]
fn f32_runs_are_near_the_oracle() {
    let work = Work::new("odd sizes f32");
    let tolerance = 2e-6;
    fsdp(&work, &[1], 1, 1, &[], tolerance, &oracle(&work, 1));

    // The same six sequences on every mesh, in six to one microbatches.
    let six = oracle(&work, 6);
    fsdp(&work, &[1, 2, 3], 6, 1, &[], tolerance, &six);
    fsdp(&work, &[1, 2], 6, 3, &[], tolerance, &six);
    let ddp = [
        "--parallelism.data_parallel_replicate_degree",
        "2",
        "--parallelism.data_parallel_shard_degree",
        "1",
    ];
    work.build_with(TINY, &[&ddp[..], &["--training.local_batch_size", "3"]].concat());
    train_and_check(&work, 2, 6, 3, tolerance, &six);

    // Kernels for narrower machines.
    let mut targets = vec!["cpu-portable"];
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        targets.push("cpu-avx2");
    }
    for target in targets {
        fsdp(&work, &[2], 6, 3, &["--titan.target", target], tolerance, &six);
    }

    // On seven ranks the last holds no row of most weights.
    fsdp(&work, &[7], 7, 1, &[], tolerance, &oracle(&work, 7));
}

#[test]
fn bf16_runs_are_not_far_from_the_oracle() {
    let work = Work::new("odd sizes bf16");
    let bf16 = ["--training.mixed_precision_param", "bfloat16"];
    fsdp(&work, &[1, 3], 6, 2, &bf16, 1e-2, &oracle(&work, 6));
}
