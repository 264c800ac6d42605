//! The bytes a build plans are the bytes a run maps for tensors, on every number of ranks and threads.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use titan_tests::programs::{TINY, Work, stderr};
use titan_tests::tensors::{draw_tokens, write_tokens};

/// The parts of a memory report that do not depend on the number of threads.
const PARTS: [&str; 8] = [
    "params_bytes",
    "grads_bytes",
    "optimizer_bytes",
    "buffers_bytes",
    "activations_bytes",
    "collectives_bytes",
    "workspace_bytes",
    "communication_bytes",
];

fn planned(report: &Value, threads: u64) -> u64 {
    let bytes = |part: &str| report[part].as_u64().unwrap_or_else(|| panic!("no {part} in {report}"));
    assert_eq!(report.as_object().unwrap().len(), PARTS.len() + 1, "{report}");
    PARTS.iter().map(|part| bytes(part)).sum::<u64>() + bytes("workspace_per_thread_bytes") * threads
}

fn check(dtype: &str) {
    let work = Work::new(&format!("memory {dtype}"));
    let open = ["--parallelism.data_parallel_shard_degree", "-1", "--titan.ranks", "1,2"];
    work.build_with(TINY, &[&open[..], &["--training.mixed_precision_param", dtype]].concat());
    let inspected = work.titanc(&["inspect", "run.titan", "--json"]);
    assert!(inspected.status.success(), "{}", stderr(&inspected));
    let inspected: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    let mut totals = Vec::new();
    for plan in inspected["manifest"]["plans"].as_array().unwrap() {
        let ranks = plan["world_size"].as_u64().unwrap();
        let rows = ranks as usize;
        write_tokens(&work.path("t.safetensors"), [1, rows, 23], &draw_tokens(rows * 23, 77));
        for threads in [1, 2] {
            let total = planned(&plan["memory"], threads);
            let given = ["--steps", "1", "--tokens", "t.safetensors"];
            let steps = work.train(ranks, ranks * threads, &given);
            assert_eq!(steps[0].memory_bytes, total, "{dtype}, {ranks} ranks, {threads} threads per rank");
            totals.push(total);
        }
    }
    assert_eq!(totals.len(), 4, "plans for one and two ranks");
    assert!(totals[0] < totals[1], "a thread has workspace of its own");
    assert!(totals[2] < totals[0], "two ranks share the state");
}

#[test]
fn f32_runs_map_what_was_planned() {
    check("float32");
}

#[test]
fn bf16_runs_map_what_was_planned() {
    check("bfloat16");
}
