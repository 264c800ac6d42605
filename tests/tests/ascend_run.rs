//! `titan-run --device ascend`: the same training as on the CPU, captured or not, in one process or in several; and what it says when it fails.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::io::BufRead;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use titan_tests::ascend::{SMALL, bare_command, bits, command, host_cann, results, run, start, train};
use titan_tests::programs::{Work, finish, stderr, stdout};
use titan_tests::tensors::{draw_tokens, write_tokens};

const ROW_LEN: usize = 33;

/// A model for devices, and batches for as many ranks.
fn built(name: &str, ranks: usize, overrides: &[&str]) -> Work {
    let work = Work::new(name);
    let target = [
        "--target",
        "Ascend910B3",
        "--parallelism.data_parallel_shard_degree",
        "-1",
        "--titan.ranks",
        "1,2,4",
    ];
    work.build_with(SMALL, &[&target[..], overrides].concat());
    write_tokens(
        &work.path("t.safetensors"),
        [5, 2 * ranks, ROW_LEN],
        &draw_tokens(5 * 2 * ranks * ROW_LEN, 128),
    );
    work
}

const TOKENS: [&str; 2] = ["--tokens", "t.safetensors"];

#[test]
fn graphs_single_calls_and_mapped_memory_give_the_same_bits() {
    for style in ["aclnn", "fused"] {
        let work = built(&format!("device {style}"), 1, &["--ascend-kernels", style]);
        let (steps, weights) = train(&work, &TOKENS);
        assert_eq!(steps.len(), 5);
        for more in ["--no-capture", "--expandable-segments", "--profile"] {
            let (again, same) = train(&work, &[&TOKENS[..], &[more]].concat());
            assert_eq!(bits(&steps), bits(&again), "{style} {more}");
            assert!(weights == same, "{style} {more}");
        }
    }
}

#[test]
fn devices_train_as_the_cpu_does() {
    let work = built("device and cpu", 2, &["--ascend-kernels", "aclnn"]);
    let (device, _) = train(&work, &[&TOKENS[..], &["--nproc-per-node", "2"]].concat());
    let fp = ["--parallelism.data_parallel_shard_degree", "-1", "--titan.ranks", "1,2,4"];
    work.build_with(SMALL, &fp);
    let cpu = work.train(2, 2, &TOKENS);
    assert_eq!(device.len(), cpu.len());
    for (device, cpu) in device.iter().zip(&cpu) {
        assert!((device.loss - cpu.loss).abs() < 0.02, "{device:?} {cpu:?}");
        assert!((device.grad_norm - cpu.grad_norm).abs() < 0.05 * cpu.grad_norm, "{device:?} {cpu:?}");
        assert_eq!(device.lr, cpu.lr);
    }
}

/// Ranks `first` and so on of a run of 4 in a process of its own.
fn process(work: &Work, address: &str, first: u64, more: &[&str]) -> std::process::Command {
    let first = first.to_string();
    let place =
        ["--world-size", "4", "--nproc-per-node", "2", "--first-rank", &first, "--rendezvous", address];
    command(
        work,
        &[&place[..], &["--first-device", &first, "--rendezvous-timeout", "60"], &TOKENS, more].concat(),
    )
}

fn free_address() -> String {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("127.0.0.1:{port}")
}

#[test]
fn processes_train_as_one_does() {
    let work = built("device processes", 4, &["--ascend-kernels", "aclnn"]);
    let (steps, weights) = train(&work, &[&TOKENS[..], &["--nproc-per-node", "4"]].concat());
    let address = free_address();
    let files = ["--metrics-json", "two.jsonl", "--save-weights", "two.safetensors"];
    let first = start(&mut process(&work, &address, 0, &files));
    let second = start(&mut process(&work, &address, 2, &["--save-weights", "not.safetensors"]));
    for output in [finish(first), finish(second)] {
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    }
    let (again, same) = results(&work, "two");
    assert_eq!(bits(&steps), bits(&again));
    assert!(weights == same);
    assert!(!work.path("not.safetensors").exists(), "the process of rank 0 writes");
}

#[test]
fn a_process_that_fails_stops_the_others() {
    let work = built("device process fails", 4, &["--ascend-kernels", "aclnn"]);
    let mut tokens = draw_tokens(5 * 8 * ROW_LEN, 128);
    // Step 3 of rank 3.
    tokens[(2 * 8 + 6) * ROW_LEN + 1] = 128;
    write_tokens(&work.path("t.safetensors"), [5, 8, ROW_LEN], &tokens);
    let address = free_address();
    let first = start(&mut process(&work, &address, 0, &["--save-weights", "w.safetensors"]));
    let second = start(&mut process(&work, &address, 2, &[]));
    let (first, second) = (finish(first), finish(second));
    assert_eq!((first.status.code(), second.status.code()), (Some(1), Some(1)));
    // The host's CANN may add which collectives were left waiting.
    let said = stderr(&second);
    assert!(said.contains("error[T0822]: token 128 is outside"), "{said}");
    assert!(said.contains("note: rank 3 failed, so all 4 stopped"), "{said}");
    let said = stderr(&first);
    assert!(said.contains("error[T0764]: the process of rank 2 has failed: token 128 is outside"), "{said}");
    assert!(!work.path("w.safetensors").exists());
}

#[test]
fn a_signal_ends_a_process_that_waits_for_others() {
    let work = built("device waits", 4, &["--ascend-kernels", "aclnn"]);
    for (first, says) in [(0, "for ranks 2 to 3\n"), (2, "with ranks 2 to 3\n")] {
        let address = free_address();
        let mut child = start(&mut process(&work, &address, first, &[]));
        let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with(says) {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it does not wait");
        }
        assert!(line.contains(&format!(" at {address} ")), "{line}");
        let sent = std::process::Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        let output = finish(child);
        assert_eq!(output.status.signal(), Some(15), "{}", stderr(&output));
        assert_eq!(stderr(&output), "\ninterrupted before the first step: nothing is trained or saved\n");
    }
}

#[test]
fn without_cann_one_line_says_what_was_looked_for() {
    let work = built("device without cann", 1, &["--ascend-kernels", "aclnn"]);
    let output = run(bare_command(&work, &TOKENS).env("ASCEND_HOME_PATH", "/no/cann"));
    assert_eq!(output.status.code(), Some(1));
    let expected = "error[T0740]: CANN's library is not found: looked for libacl_rt.so, libascendcl.so in /no/cann/lib64 \
                    (ASCEND_HOME_PATH), the dynamic loader's path (LD_LIBRARY_PATH)\n  \
                    help: source CANN's set_env.sh, or say where CANN is with `--cann PATH`\n";
    assert_eq!(stderr(&output), expected);
    let output = run(&mut bare_command(&work, &[&TOKENS[..], &["--cann", "/no/such"]].concat()));
    assert!(
        stderr(&output).starts_with("error[T0740]: CANN is not found: --cann /no/such does not exist\n"),
        "{}",
        stderr(&output)
    );
    host_cann(&work);
    for place in ["host-cann", "host-cann/lib64", "host-cann/lib64/libacl_rt.so"] {
        let more = ["--steps", "1", "--no-capture", "--cann", place];
        let output = run(&mut bare_command(&work, &[&TOKENS[..], &more].concat()));
        assert!(output.status.success(), "{place}: {}", stderr(&output));
        let said = stdout(&output);
        assert!(said.contains("Running on Ascend910B3 with CANN "), "{said}");
        assert!(said.contains("lib64/libacl_rt.so, simulated by host-cann\n"), "{said}");
    }
}

#[test]
fn the_machine_must_be_the_artifact_s() {
    let work = built("device machine", 2, &[]);
    let run_with = |args: &[&str], name: &str, value: &str| {
        let output = run(command(&work, &[&TOKENS[..], args].concat()).env(name, value));
        assert_eq!(output.status.code(), Some(1));
        stderr(&output)
    };
    let said = run_with(&[], "HOST_CANN_SOC", "Ascend910B1");
    assert!(
        said.starts_with(
            "error[T0753]: the artifact was built for Ascend910B3, this machine has Ascend910B1"
        ),
        "{said}"
    );
    let said = run_with(&["--nproc-per-node", "2"], "HOST_CANN_DEVICES", "1");
    assert!(
        said.starts_with("error[T0754]: the ranks of this process need 2 devices, the machine has 1"),
        "{said}"
    );
    let output = work.titan_run(&[&["run.titan"][..], &TOKENS].concat());
    assert!(stderr(&output).contains("help: run it with `--device ascend`"), "{}", stderr(&output));
}

#[test]
fn a_value_that_is_not_finite_is_found_where_the_cpu_finds_it() {
    let work = built("device not finite", 1, &["--optimizer.lr", "1e30", "--ascend-kernels", "aclnn"]);
    let files = ["--save-weights", "w.safetensors"];
    let first_line = |output: &std::process::Output| {
        assert_eq!(output.status.code(), Some(1), "{}", stdout(output));
        assert!(!work.path("w.safetensors").exists());
        stderr(output).lines().next().unwrap_or_default().to_owned()
    };
    let on_device = [&[][..], &["--no-capture"]]
        .map(|more| first_line(&run(&mut command(&work, &[&TOKENS[..], &files, more].concat()))));
    work.build_with(SMALL, &["--optimizer.lr", "1e30"]);
    let on_cpu = first_line(&work.titan_run(&[&["run.titan"], &TOKENS[..], &files].concat()));
    assert!(on_cpu.starts_with("error[T0710]: step 2: `"), "{on_cpu}");
    assert_eq!(on_device, [on_cpu.clone(), on_cpu]);
}

#[test]
fn the_operator_that_demands_most_workspace_is_named() {
    let work =
        built("device workspace", 1, &["--ascend-kernels", "aclnn", "--titan.ascend_workspace_mib", "1"]);
    let said = stderr(&run(&mut command(&work, &TOKENS)));
    let [_, demanded] = said.split("error[T0756]: ").collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(demanded.contains("bytes of workspace, the artifact plans 1048576\n  at: "), "{said}");
    assert!(demanded.contains("calls demand more, this one the most"), "{said}");
    let (_, mib) = demanded.split_once("help: rebuild it with `--titan.ascend_workspace_mib ").unwrap();
    let mib = mib.split('`').next().unwrap().to_owned();
    let again =
        built("device workspace", 1, &["--ascend-kernels", "aclnn", "--titan.ascend_workspace_mib", &mib]);
    assert_eq!(train(&again, &TOKENS).0.len(), 5, "as much is enough");
}

#[test]
fn a_report_is_written_of_runs_that_end_and_of_runs_that_fail() {
    let work = built("device report", 1, &[]);
    let report = |command: &mut std::process::Command| -> Value {
        let output = run(command);
        let text =
            std::fs::read_to_string(work.path("r.json")).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        std::fs::remove_file(work.path("r.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let args = [&TOKENS[..], &["--report", "r.json"]].concat();
    let good = report(&mut command(&work, &args));
    assert_eq!(good["error"], Value::Null);
    assert_eq!(good["cann"]["soc"], "Ascend910B3");
    assert_eq!(good["manifest"]["target"]["name"], "Ascend910B3");
    assert_eq!(good["cann"]["simulated"], true);
    assert_eq!(good["finished_steps"], 5);
    assert!(good["last_loss"].as_f64().is_some_and(|loss| loss > 0.0), "{}", good["last_loss"]);
    assert_eq!(good["artifact"], work.path("run.titan").display().to_string());
    let rank = &good["ranks"][0];
    assert_eq!(rank["captured"], true);
    assert!(rank["num_graphs"].as_u64() > Some(0), "{rank}");
    assert!(rank["operators"].as_array().is_some_and(|all| !all.is_empty()), "{rank}");
    assert!(rank["last_call"].as_str().is_some_and(|call| call.contains("segment")), "{rank}");
    assert!(good["program"]["arena_bytes"].as_u64() > Some(0));
    let other = report(command(&work, &args).env("HOST_CANN_SOC", "Ascend910B1"));
    assert_eq!(other["error"]["code"], "T0753");
    assert_eq!((&other["cann"]["soc"], &other["finished_steps"]), (&"Ascend910B1".into(), &0.into()));
    let bad = report(bare_command(&work, &args).env("ASCEND_HOME_PATH", "/no/cann"));
    assert_eq!(bad["error"]["code"], "T0740");
    assert_eq!(bad["environment"]["ASCEND_HOME_PATH"], "/no/cann");
    assert!(bad["program"]["segments"].as_array().is_some_and(|all| !all.is_empty()));
}
