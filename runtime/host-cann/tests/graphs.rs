//! Replays: what is frozen, what is read again, and what must not happen to a graph.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::*;

const LEN: usize = 4096;

/// The bytes as memory the library may copy from.
fn upload(pointer: *mut c_void, value: u8) {
    let bytes = vec![value; LEN];
    let kind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE;
    // SAFETY: the vector has the bytes.
    unsafe { acl().aclrtMemcpy(pointer, LEN, bytes.as_ptr().cast(), LEN, kind).unwrap() };
}

#[test]
fn a_replay_reads_device_memory_anew() {
    let _session = session();
    let (one, from, to) = (stream(), device_memory(LEN), device_memory(LEN));
    let graph = capture(one, || copy(to, from, LEN, one).unwrap()).unwrap();
    for value in [1, 2] {
        upload(from, value);
        replay(graph, one).unwrap();
        synchronize(one).unwrap();
        assert_eq!(read(to, LEN).unwrap(), vec![value; LEN]);
    }
    assert_eq!(read(from, LEN).unwrap(), vec![2; LEN], "capturing ran nothing");
}

/// Forks from `one` to `two` and back; `two` copies what `one` has written. Without the event the fork comes first.
fn fork(one: aclrtStream, two: aclrtStream, memory: [*mut c_void; 2], has_event: bool) {
    let events = [event(), event()];
    if !has_event {
        record(events[0], one);
    }
    fill(memory[0], LEN, 5, one).unwrap();
    if has_event {
        record(events[0], one);
    }
    wait(two, events[0]);
    copy(memory[1], memory[0], LEN, two).unwrap();
    record(events[1], two);
    wait(one, events[1]);
}

#[test]
fn events_order_the_streams_of_a_graph() {
    let _session = session();
    let (one, two, memory) = (stream(), stream(), [device_memory(LEN), device_memory(LEN)]);
    let graph = capture(one, || fork(one, two, memory, true)).unwrap();
    for _ in 0..20 {
        replay(graph, one).unwrap();
        fill(memory[0], LEN, 6, one).unwrap();
    }
    synchronize(one).unwrap();
    assert_eq!(read(memory[1], LEN).unwrap(), vec![5; LEN]);
}

#[test]
fn a_race_in_a_graph_is_found_when_its_capture_ends() {
    let _session = session();
    let (one, two, memory) = (stream(), stream(), [device_memory(LEN), device_memory(LEN)]);
    let told = text(capture(one, || fork(one, two, memory, false)));
    assert!(told.contains("507053") && told.contains("race: "), "{told}");
    assert!(told.contains("fill on stream") && told.contains("copy on stream"), "{told}");
}

#[test]
fn two_graphs_on_two_streams_may_race() {
    let _session = session();
    let (one, two, memory) = (stream(), stream(), device_memory(LEN));
    let graphs = [one, two].map(|stream| capture(stream, || fill(memory, LEN, 1, stream).unwrap()).unwrap());
    replay(graphs[0], one).unwrap();
    replay(graphs[1], two).unwrap();
    let told: String = [one, two].map(|stream| text(synchronize(stream))).concat();
    assert!(told.contains("race: ") && told.contains("of graph"), "{told}");
}

#[test]
fn one_graph_on_two_streams_needs_an_order() {
    let _session = session();
    let (one, two, memory, event) = (stream(), stream(), device_memory(LEN), event());
    let graph = capture(one, || fill(memory, LEN, 1, one).unwrap()).unwrap();
    replay(graph, one).unwrap();
    replay(graph, two).unwrap();
    let told: String = [one, two].map(|stream| text(synchronize(stream))).concat();
    assert!(told.contains("507011") && told.contains("replay"), "{told}");
    // In order it is fine.
    replay(graph, one).unwrap();
    record(event, one);
    wait(two, event);
    replay(graph, two).unwrap();
    synchronize(one).unwrap();
    synchronize(two).unwrap();
}

#[test]
fn memory_a_graph_uses_must_outlive_it() {
    let _session = session();
    let (one, memory) = (stream(), device_memory(LEN));
    let graph = capture(one, || fill(memory, LEN, 1, one).unwrap()).unwrap();
    // SAFETY: the library keeps the addresses from being used.
    unsafe { acl().aclrtFree(memory).unwrap() };
    replay(graph, one).unwrap();
    let told = text(synchronize(one));
    assert!(told.contains("507015") && told.contains("freed memory") && told.contains("fill"), "{told}");
    synchronize(one).unwrap();
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn count(_: *mut c_void) {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn sleep(_: *mut c_void) {
    std::thread::sleep(std::time::Duration::from_millis(100));
}

#[test]
fn host_functions_run_at_every_replay_and_a_running_graph_is_waited_for() {
    let _session = session();
    let one = stream();
    let launch = |function: unsafe extern "C" fn(*mut c_void)| {
        // SAFETY: the functions take nothing.
        unsafe { acl().aclrtLaunchHostFunc(one, Some(function), ptr::null_mut()).unwrap() };
    };
    let graph = capture(one, || {
        launch(sleep);
        launch(count);
    })
    .unwrap();
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    replay(graph, one).unwrap();
    replay(graph, one).unwrap();
    // SAFETY: handles only.
    unsafe {
        acl().aclmdlRIDestroy(graph).unwrap();
        assert_eq!(CALLS.load(Ordering::Relaxed), 2, "destroyed after both replays");
        assert_eq!(code(acl().aclmdlRIDestroy(graph)), 107017);
    }
    assert_eq!(code(replay(graph, one)), 107017);
}

#[test]
fn tasks_of_a_group_can_be_replaced() {
    let _session = session();
    let (one, two, memory) = (stream(), stream(), device_memory(LEN));
    let mut group = aclrtTaskGrp::NULL;
    // SAFETY: handles, and places that are written.
    unsafe {
        let graph = capture(one, || {
            acl().aclmdlRICaptureTaskGrpBegin(one).unwrap();
            fill(memory, LEN, 1, one).unwrap();
            acl().aclmdlRICaptureTaskGrpEnd(one, &mut group).unwrap();
        })
        .unwrap();
        replay(graph, one).unwrap();
        synchronize(one).unwrap();
        assert_eq!(read(memory, 4).unwrap(), [1; 4]);
        acl().aclmdlRICaptureTaskUpdateBegin(two, group).unwrap();
        fill(memory, LEN, 2, two).unwrap();
        acl().aclmdlRICaptureTaskUpdateEnd(two).unwrap();
        synchronize(two).unwrap();
        assert_eq!(read(memory, 4).unwrap(), [1; 4], "an update runs nothing");
        replay(graph, one).unwrap();
        synchronize(one).unwrap();
        assert_eq!(read(memory, 4).unwrap(), [2; 4]);
        acl().aclmdlRICaptureTaskUpdateBegin(two, group).unwrap();
        let told = text(acl().aclmdlRICaptureTaskUpdateEnd(two));
        assert!(told.contains("107040") && told.contains("fill"), "{told}");
    }
}

#[test]
fn another_stream_in_an_open_group_ruins_the_capture() {
    let _session = session();
    let (one, two, memory, fork) = (stream(), stream(), device_memory(LEN), event());
    let mut status = aclmdlRICaptureStatus(9);
    let told = text(capture(one, || {
        record(fork, one);
        wait(two, fork);
        // SAFETY: handles, and places that are written.
        unsafe {
            acl().aclmdlRICaptureTaskGrpBegin(one).unwrap();
            assert_eq!(code(fill(memory, LEN, 1, two)), 107034);
            acl().aclmdlRICaptureGetInfo(one, &mut status, ptr::null_mut()).unwrap();
            let mut group = aclrtTaskGrp::NULL;
            acl().aclmdlRICaptureTaskGrpEnd(one, &mut group).unwrap();
        }
    }));
    assert_eq!(status, aclmdlRICaptureStatus::ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
    assert!(told.contains("507903"), "{told}");
}

#[test]
fn a_graph_waits_for_an_external_event() {
    let _session = session();
    let (one, two, from, to) = (stream(), stream(), device_memory(LEN), device_memory(LEN));
    let mut gate = aclrtEvent::NULL;
    // SAFETY: handles, and places that are written.
    unsafe {
        acl().aclrtCreateEventWithFlag(&mut gate, ACL_EVENT_EXTERNAL).unwrap();
        let graph = capture(one, || {
            acl().aclrtStreamWaitEvent(one, gate).unwrap();
            acl().aclrtResetEvent(gate, one).unwrap();
            copy(to, from, LEN, one).unwrap();
        })
        .unwrap();
        for value in [3, 4] {
            replay(graph, one).unwrap();
            assert_eq!(code(acl().aclrtSynchronizeStreamWithTimeout(one, 30)), 507046);
            fill(from, LEN, value, two).unwrap();
            record(gate, two);
            synchronize(one).unwrap();
            assert_eq!(read(to, 4).unwrap(), [value; 4]);
        }
    }
}

#[test]
fn external_flags_reach_out_of_a_graph() {
    let _session = session();
    let (one, two, memory, other) = (stream(), stream(), device_memory(LEN), device_memory(LEN));
    let (inward, outward) = (event(), event());
    // SAFETY: handles only.
    unsafe {
        let graph = capture(one, || {
            acl().aclrtStreamWaitEventWithFlag(one, inward, 0, ACL_EVENT_WAIT_EXTERNAL).unwrap();
            copy(other, memory, LEN, one).unwrap();
            acl().aclrtRecordEventWithFlag(outward, one, ACL_EVENT_RECORD_EXTERNAL).unwrap();
            let again = acl().aclrtRecordEventWithFlag(outward, one, ACL_EVENT_RECORD_EXTERNAL);
            assert_eq!(code(again), 207000);
        })
        .unwrap();
        fill(memory, LEN, 9, two).unwrap();
        record(inward, two);
        replay(graph, one).unwrap();
        wait(two, outward);
        fill(other, LEN, 8, two).unwrap();
        synchronize(two).unwrap();
        synchronize(one).unwrap();
    }
    assert_eq!(read(other, 4).unwrap(), [8; 4]);
}

#[test]
fn long_captures_take_hidden_streams() {
    let _session = session();
    let (one, memory) = (stream(), device_memory(64));
    let available = || {
        let mut num = 0;
        // SAFETY: the number is written.
        unsafe { acl().aclrtGetStreamAvailableNum(&mut num).unwrap() };
        num
    };
    let before = available();
    let graph = capture(one, || (0..5000).for_each(|_| fill(memory, 64, 1, one).unwrap())).unwrap();
    assert_eq!(before - available(), 3);
    replay(graph, one).unwrap();
    synchronize(one).unwrap();
    // SAFETY: handles only.
    unsafe { acl().aclmdlRIDestroy(graph).unwrap() };
    assert_eq!(before, available());
}
