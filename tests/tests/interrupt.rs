//! Runs that are ended from outside: signals that ask end a run cleanly, one that does not ask leaves nothing half-written.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::{Child, Command, Output};
use std::time::Duration;
use titan_tests::programs::{TINY, Work, finish, read_metrics, stderr, stdout};

/// A run far too long to end by itself, on text.
fn built(name: &str) -> Work {
    let work = Work::new(name);
    let open = ["--parallelism.data_parallel_shard_degree", "-1", "--titan.ranks", "1,2"];
    let long = ["--training.steps", "1000000", "--metrics.log_freq", "1000000"];
    work.build_with(TINY, &[&open[..], &long, &["--titan.model_args.vocab_size=301"]].concat());
    work
}

fn start(work: &Work, ranks: &str) -> Child {
    let files = ["--metrics-json", "m.jsonl", "--save-weights", "w.safetensors"];
    let child = work.start(&[&["run.titan", "--nodes", ranks][..], &files].concat());
    let num_lines = || std::fs::read_to_string(work.path("m.jsonl")).map_or(0, |text| text.lines().count());
    while num_lines() < 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn send(signal: &str, to: Child) -> Output {
    let sent = Command::new("kill").args(["-s", signal, &to.id().to_string()]).status().unwrap();
    assert!(sent.success());
    finish(to)
}

#[test]
fn a_signal_that_asks_ends_the_run_after_a_step() {
    let work = built("interrupt");
    for (signal, ranks) in [("INT", "1"), ("TERM", "2"), ("INT", "2")] {
        let output = send(signal, start(&work, ranks));
        assert_eq!(output.status.code(), Some(0));
        assert!(stderr(&output).starts_with("\nstopping after this step"), "{}", stderr(&output));
        let steps = read_metrics(&work.path("m.jsonl"));
        let said = stdout(&output);
        let stopped = format!("Interrupted: stopping after step {}\n", steps.len());
        assert!(said.contains(&stopped), "{} steps: {said}", steps.len());
        assert!(said.contains("Saved the weights to w.safetensors\n"), "{said}");
        assert!(steps.iter().zip(1..).all(|(step, number)| step.step == number));

        // What was saved is what as many steps give.
        let weights = std::fs::read(work.path("w.safetensors")).unwrap();
        let num_steps = steps.len().to_string();
        let again = work.train(
            ranks.parse().unwrap(),
            2,
            &["--steps", &num_steps, "--save-weights", "again.safetensors"],
        );
        assert_eq!(again.last().unwrap().loss, steps.last().unwrap().loss);
        assert!(weights == std::fs::read(work.path("again.safetensors")).unwrap(), "{signal}, {ranks} ranks");
        std::fs::remove_file(work.path("m.jsonl")).unwrap();
    }
}

#[test]
fn a_killed_run_leaves_whole_lines_and_no_weights() {
    let work = built("kill");
    for ranks in ["1", "2"] {
        let output = send("KILL", start(&work, ranks));
        assert_eq!(output.status.code(), None, "it was killed");
        assert!(read_metrics(&work.path("m.jsonl")).len() >= 3);
        assert_eq!(work.names(), ["m.jsonl", "run.titan", "run.toml"]);
        std::fs::remove_file(work.path("m.jsonl")).unwrap();
    }
}
