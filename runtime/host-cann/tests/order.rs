//! Order: tasks run late and in any order that events allow; what they leave open is found.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::ffi::c_void;
use std::sync::Mutex;
use support::*;

const LEN: usize = 4096;

#[test]
fn work_is_done_by_the_time_somebody_has_waited() {
    let _session = session();
    let (one, memory) = (stream(), device_memory(LEN));
    assert_eq!(read(memory, LEN).unwrap(), vec![0xff; LEN], "fresh memory is NaN");
    fill(memory, LEN, 7, one).unwrap();
    synchronize(one).unwrap();
    assert_eq!(read(memory, LEN).unwrap(), vec![7; LEN]);
}

#[test]
fn reading_without_waiting_is_a_race() {
    let _session = session();
    let (one, memory) = (stream(), device_memory(LEN));
    fill(memory, LEN, 7, one).unwrap();
    let early = read(memory, LEN);
    let late = synchronize(one);
    // One of them comes second and is told, whoever it is.
    let told = format!("{}{}", text(early), text(late));
    assert!(told.contains("race: ") && told.contains("fill on stream"), "{told}");
    assert!(told.contains("the host's aclrtMemcpy"), "{told}");
}

/// A chain over two streams, with or without its event. Gives what the end of it says.
fn chain(has_event: bool) -> (String, Vec<u8>) {
    let (one, two, first, second) = (stream(), stream(), device_memory(LEN), device_memory(LEN));
    fill(first, LEN, 3, one).unwrap();
    if has_event {
        let event = event();
        record(event, one);
        wait(two, event);
    }
    copy(second, first, LEN, two).unwrap();
    let results = [synchronize(one), synchronize(two)];
    let told = results.into_iter().filter_map(|r| r.err().map(|error| error.to_string())).collect();
    (told, read(second, LEN).unwrap())
}

#[test]
fn a_missing_event_is_found_and_a_present_one_is_silent() {
    let _session = session();
    let (told, bytes) = chain(true);
    assert_eq!((told.as_str(), bytes), ("", vec![3; LEN]));
    let (told, _) = chain(false);
    assert!(told.contains("507053") && told.contains("race: "), "{told}");
    assert!(told.contains("fill on stream") && told.contains("copy on stream"), "{told}");
}

static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());

unsafe extern "C" fn note(number: *mut c_void) {
    ORDER.lock().unwrap().push(number as usize);
}

#[test]
fn streams_interleave_and_each_keeps_its_order() {
    let _session = session();
    let streams = [stream(), stream(), stream()];
    let orders: Vec<Vec<usize>> = (0..6)
        .map(|_| {
            ORDER.lock().unwrap().clear();
            for number in 0..10 {
                for (i, stream) in streams.iter().enumerate() {
                    // SAFETY: the function takes a number.
                    unsafe {
                        acl()
                            .aclrtLaunchHostFunc(*stream, Some(note), (i * 10 + number) as *mut c_void)
                            .unwrap()
                    };
                }
            }
            // SAFETY: nothing is passed.
            unsafe { acl().aclrtSynchronizeDevice().unwrap() };
            ORDER.lock().unwrap().clone()
        })
        .collect();
    for order in &orders {
        for i in 0..3 {
            let of: Vec<_> = order.iter().filter(|n| **n / 10 == i).copied().collect();
            assert_eq!(of, (i * 10..i * 10 + 10).collect::<Vec<_>>());
        }
    }
    assert!(orders.iter().any(|order| order != &orders[0]), "always the same order: {:?}", orders[0]);
}

#[test]
fn a_wait_is_for_the_record_of_its_moment() {
    let _session = session();
    let (one, two, memory, other) = (stream(), stream(), device_memory(LEN), device_memory(LEN));
    let event = event();
    wait(two, event);
    fill(memory, LEN, 1, one).unwrap();
    record(event, one);
    wait(two, event);
    copy(other, memory, LEN, two).unwrap();
    // A later record orders nothing that was queued before.
    fill(memory, LEN, 2, one).unwrap();
    record(event, one);
    let told: String = [synchronize(one), synchronize(two)]
        .into_iter()
        .filter_map(|r| r.err())
        .map(|e| e.to_string())
        .collect();
    assert!(told.contains("race: "), "{told}");
}

#[test]
fn a_full_queue_holds_up_who_fills_it() {
    let _session = session();
    let (one, memory) = (stream(), device_memory(64));
    for i in 0..5000 {
        fill(memory, 64, i as u8, one).unwrap();
    }
    synchronize(one).unwrap();
    assert_eq!(read(memory, 64).unwrap(), vec![(4999 % 256) as u8; 64]);
}

#[test]
fn work_goes_on_though_nobody_waits() {
    let _session = session();
    ORDER.lock().unwrap().clear();
    // SAFETY: the function takes a number.
    unsafe { acl().aclrtLaunchHostFunc(stream(), Some(note), std::ptr::null_mut()).unwrap() };
    for _ in 0..10_000 {
        if !ORDER.lock().unwrap().is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("the device does nothing");
}
