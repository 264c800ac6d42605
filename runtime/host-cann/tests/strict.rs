//! `HOST_CANN_STRICT`, `HOST_CANN_STATS` and `HOST_CANN_SEED`. Each is set in a process of its own, which is this program again.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeSet;
use std::env;
use std::ffi::c_void;
use std::process::{Command, Output};
use std::sync::Mutex;
use support::*;

/// Runs the test `name` of this program with a variable, which tells it that it is the child.
fn child(name: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]).env("HOST_CANN_TEST_CHILD", name);
    command.envs(variables.iter().copied()).output().unwrap()
}

fn is_child(name: &str) -> bool {
    env::var("HOST_CANN_TEST_CHILD").is_ok_and(|child| child == name)
}

#[test]
fn strict_an_error_ruins_a_capture_and_a_leak_aborts() {
    const NAME: &str = "strict_an_error_ruins_a_capture_and_a_leak_aborts";
    if is_child(NAME) {
        let _session = session();
        let one = stream();
        let told = text(capture(one, || assert_eq!(code(synchronize(one)), 107027)));
        println!("told: {told}");
        return;
    }
    let output = child(NAME, &[("HOST_CANN_STRICT", "1")]);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("507903") && text.contains("aclrtSynchronizeStream has failed"), "{text}");
    assert!(!output.status.success() && text.contains("1 left at aclFinalize: stream"), "{text}");
}

#[test]
fn one_line_of_counts_is_written_at_the_end() {
    const NAME: &str = "one_line_of_counts_is_written_at_the_end";
    if is_child(NAME) {
        let _session = session();
        let (one, memory) = (stream(), device_memory(64));
        let graph = capture(one, || fill(memory, 64, 1, one).unwrap()).unwrap();
        replay(graph, one).unwrap();
        replay(graph, one).unwrap();
        synchronize(one).unwrap();
        assert_eq!(code(fill(memory, 64, 1, stream())), 0);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats");
    assert!(child(NAME, &[("HOST_CANN_STATS", path.to_str().unwrap())]).status.success());
    let text = std::fs::read_to_string(path).unwrap();
    for part in
        ["graphs_captured 1 ", "graphs_replayed 2 ", "replayed_tasks 2 ", "races 0 ", "peak_bytes 96 "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.lines().count(), 1);
}

static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

unsafe extern "C" fn note(number: *mut c_void) {
    ORDER.lock().unwrap().push(number as usize);
}

#[test]
fn seeds_change_the_order_and_not_the_result() {
    const NAME: &str = "seeds_change_the_order_and_not_the_result";
    if is_child(NAME) {
        let _session = session();
        let streams = [stream(), stream()];
        let memory = [device_memory(64), device_memory(64)];
        for number in 0..12 {
            for i in 0..2 {
                fill(memory[i], 64, number, streams[i]).unwrap();
                let number = (i * 12 + number as usize) as *mut c_void;
                // SAFETY: the function takes a number.
                unsafe { acl().aclrtLaunchHostFunc(streams[i], Some(note), number).unwrap() };
            }
        }
        let mark = event();
        record(mark, streams[1]);
        wait(streams[0], mark);
        copy(memory[0], memory[1], 32, streams[0]).unwrap();
        synchronize(streams[0]).unwrap();
        println!("order {:?} result {:?}", ORDER.lock().unwrap(), read(memory[0], 64).unwrap());
        return;
    }
    let (mut orders, mut results) = (BTreeSet::new(), BTreeSet::new());
    for seed in ["1", "2", "3", "4"] {
        let output = child(NAME, &[("HOST_CANN_SEED", seed)]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line =
            text.lines().find_map(|line| line.split_once("order ")).unwrap_or_else(|| panic!("{text}")).1;
        let (order, result) = line.split_once(" result ").unwrap();
        orders.insert(order.to_owned());
        results.insert(result.to_owned());
    }
    assert!(orders.len() > 1, "{orders:?}");
    assert_eq!(results.len(), 1, "{results:?}");
}

#[test]
fn a_wrong_variable_is_an_error_of_the_begin() {
    const NAME: &str = "a_wrong_variable_is_an_error_of_the_begin";
    if is_child(NAME) {
        // SAFETY: no configuration file.
        println!("{}", text(unsafe { acl().aclInit(std::ptr::null()) }));
        return;
    }
    for (variable, value, why) in [
        ("HOST_CANN_SEED", "x", "`x` is no number"),
        ("HOST_CANN_DEVICES", "0", "it is from 1 to 64"),
        ("HOST_CANN_SOC", "Ascend310", "there is no device `Ascend310`"),
    ] {
        let output = child(NAME, &[(variable, value)]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("100000") && text.contains(&format!("{variable}: {why}")), "{text}");
    }
}
