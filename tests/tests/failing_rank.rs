//! When one rank fails all stop, and the message names the rank and what it met.

use titan_tests::programs::{TINY, Work, read_metrics, stderr};
use titan_tests::tensors::{draw_tokens, write_tokens};

const ROW_LEN: usize = 23;

#[test]
fn bad_data_of_one_rank_stops_all() {
    let work = Work::new("failing rank");
    let mesh = [
        "--parallelism.data_parallel_replicate_degree",
        "2",
        "--parallelism.data_parallel_shard_degree",
        "2",
    ];
    work.build_with(TINY, &mesh);
    let run = |tokens: &[i32]| {
        write_tokens(&work.path("t.safetensors"), [4, 4, ROW_LEN], tokens);
        let files = ["--metrics-json", "m.jsonl", "--save-weights", "w.safetensors"];
        let args = ["run.titan", "--nodes", "2", "--nproc-per-node", "2", "--tokens", "t.safetensors"];
        work.titan_run(&[&args[..], &files].concat())
    };
    let tokens = draw_tokens(4 * 4 * ROW_LEN, 77);
    for (step, rank) in [(0, 3), (2, 0), (2, 2), (3, 1)] {
        let mut bad = tokens.clone();
        bad[(step * 4 + rank) * ROW_LEN + 5] = 77;
        let output = run(&bad);
        let expected = format!(
            "error[T0822]: token 77 is outside the model's vocabulary of 77\n  at: t.safetensors: tokens[{step}, {rank}, 5]\n  \
             note: rank {rank} failed, so all 4 stopped\n  help: build with a larger titan.model_args.vocab_size, or make the \
             token file for this model\n"
        );
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), expected));
        assert!(!work.path("w.safetensors").exists(), "weights of a run that failed");
        let path = work.path("m.jsonl");
        assert_eq!(path.exists(), step > 0);
        if path.exists() {
            assert_eq!(read_metrics(&path).len(), step, "the steps before are reported");
            std::fs::remove_file(path).unwrap();
        }
    }
    // Of several that fail the lowest is named, whoever is first.
    let mut bad = tokens.clone();
    bad.iter_mut().skip(ROW_LEN).step_by(ROW_LEN).for_each(|token| *token = -5);
    for _ in 0..5 {
        let said = stderr(&run(&bad));
        assert!(
            said.contains("  at: t.safetensors: tokens[0, 1, 0]\n  note: rank 1 failed, so all 4 stopped\n"),
            "{said}"
        );
    }
    assert!(run(&tokens).status.success(), "good data");
}

#[test]
fn a_full_disk_stops_all() {
    let work = Work::new("full disk");
    work.build_with(TINY, &["--parallelism.data_parallel_shard_degree", "2"]);
    write_tokens(&work.path("t.safetensors"), [4, 2, ROW_LEN], &draw_tokens(4 * 2 * ROW_LEN, 77));
    let files =
        ["--tokens", "t.safetensors", "--metrics-json", "/dev/full", "--save-weights", "w.safetensors"];
    let output = work.titan_run(&[&["run.titan", "--nodes", "2"][..], &files].concat());
    let expected = "error[T0704]: `/dev/full` of --metrics-json cannot be written: No space left on device (os error 28)\n  \
                    note: rank 0 failed, so all 2 stopped\n";
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), expected));
    assert!(!work.path("w.safetensors").exists(), "weights of a run that failed");
}
