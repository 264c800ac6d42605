//! A loss or gradient that is not finite stops the run before the optimizer writes: the first bad value is named, in the same words every time.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ops::Range;
use titan_tests::programs::{TINY, Work, read_metrics, stderr};
use titan_tests::tensors::{draw_tokens, set_weights, write_tokens};

const NUM_STEPS: usize = 4;
const NOTE: &str = "  note: the step was stopped before the optimizer: weights and optimizer state are those of the step before\n";
const HELP: &str =
    "  help: lower `optimizer.lr`, lengthen `lr_scheduler.warmup_steps`, or look at the data of this step\n";
const HELP_START: &str = "  help: look at the weights the run started from\n";

/// Builds for one and two ranks, two microbatches a step on one.
fn built(name: &str, more: &[&str]) -> Work {
    let work = Work::new(name);
    let open = ["--parallelism.data_parallel_shard_degree", "-1", "--titan.ranks", "1,2"];
    work.build_with(TINY, &[&open[..], &["--training.global_batch_size", "2"], more].concat());
    for rows in [1, 2] {
        let dims = [NUM_STEPS * 2 / rows, rows, 23];
        write_tokens(&work.path(&format!("t{rows}.safetensors")), dims, &draw_tokens(NUM_STEPS * 2 * 23, 77));
    }
    work
}

/// Runs until the run stops itself in step `step`, and gives what it says.
fn message(work: &Work, ranks: u64, threads_per_rank: u64, step: usize, more: &[&str]) -> String {
    let (nodes, threads) = (ranks.to_string(), (ranks * threads_per_rank).to_string());
    let tokens = format!("t{ranks}.safetensors");
    let args = ["run.titan", "--nodes", &nodes, "--threads", &threads, "--tokens", &tokens];
    let files = ["--metrics-json", "m.jsonl", "--save-weights", "trained.safetensors"];
    let output = work.titan_run(&[&args[..], &files, more].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(!work.path("trained.safetensors").exists(), "weights of a run that failed");
    let path = work.path("m.jsonl");
    let num_steps = if path.exists() { read_metrics(&path).len() } else { 0 };
    assert_eq!(num_steps, step - 1, "only steps before the bad one are reported");
    if path.exists() {
        std::fs::remove_file(path).unwrap();
    }
    stderr(&output)
}

/// The message for a finding of `rank`.
fn expected(step: usize, what: &str, ranks: u64, rank: u64) -> String {
    let all = match ranks {
        1 => String::new(),
        n => format!("  note: rank {rank} failed, so all {n} stopped\n"),
    };
    let help = if what.ends_with("before the step") { HELP_START } else { HELP };
    format!("error[T0710]: step {step}: {what}\n  at: rank {rank}, step {step}\n{NOTE}{all}{help}")
}

/// Sets weights, trains on one and on two ranks, and compares the message. `rank` is who finds it on two ranks.
fn check(work: &Work, name: &str, elements: Range<usize>, value: f32, what: &str, rank: u64) {
    let start = ["--steps", "0", "--save-weights", "w.safetensors"];
    let output = work.titan_run(&[&["run.titan", "--tokens", "t1.safetensors"][..], &start].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    set_weights(&work.path("w.safetensors"), name, elements, value);
    for (ranks, threads, rank) in [(1, 1, 0), (1, 2, 0), (2, 1, rank), (2, 2, rank), (2, 1, rank)] {
        let said = message(work, ranks, threads, 1, &["--init-from", "w.safetensors"]);
        assert_eq!(said, expected(1, what, ranks, rank), "{ranks} ranks, {threads} threads");
    }
}

#[test]
fn weights_that_are_not_finite() {
    let work = built("non-finite weights", &[]);
    let name = "layers.1.feed_forward.w2.weight";
    // Rank 1 of two holds the upper half of the 36 rows of 51.
    check(&work, name, 1000..1001, f32::NAN, &format!("`{name}` holds NaN before the step"), 1);
    let name = "layers.0.attention.wo.weight";
    check(&work, name, 7..8, f32::INFINITY, &format!("`{name}` holds inf before the step"), 0);
}

#[test]
fn values_that_overflow() {
    let work = built("non-finite values", &[]);
    let what =
        "`layers.0.feed_forward.w1` (matmul) gives -inf in the forward pass, first at element 0 of result 0";
    check(&work, "layers.0.feed_forward.w1.weight", 0..51 * 36, 3e38, what, 0);
}

#[test]
fn gradients_that_overflow() {
    let work = built("non-finite gradients", &[]);
    // The loss is finite: all logits of a row are equal. The gradients are some 1e30, their squares are not finite.
    let what = "`tok_embeddings.weight` (fused) gives inf in the update, first at element 0 of result 0";
    check(&work, "output.weight", 0..77 * 36, 1e30, what, 0);
}

#[test]
fn a_learning_rate_far_too_high() {
    for dtype in ["float32", "bfloat16"] {
        let work =
            built("non-finite rate", &["--optimizer.lr=1e12", "--training.mixed_precision_param", dtype]);
        for ranks in [1, 2] {
            let first = message(&work, ranks, 1, 2, &[]);
            let what =
                first.strip_prefix("error[T0710]: step 2: `layers.0.").unwrap_or_else(|| panic!("{first}"));
            assert!(what.contains(" in the forward pass, first at element "), "{first}");
            for threads in [1, 2] {
                assert_eq!(message(&work, ranks, threads, 2, &[]), first, "{dtype}, {ranks} ranks");
            }
        }
    }
}

#[test]
fn weights_the_last_step_ruined_are_not_saved() {
    let work = built("non-finite end", &["--training.steps", "1", "--optimizer.lr", "1e38"]);
    let run =
        ["run.titan", "--nodes", "2", "--tokens", "t2.safetensors", "--save-weights", "end.safetensors"];
    let output = work.titan_run(&run);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error[T0710]: `") && said.contains("after the last step"), "{said}");
    assert!(!work.path("end.safetensors").exists());
}
