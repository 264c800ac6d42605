//! Lifecycle: what must be called before what, whose objects are whose, and what is left at the end.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use ascend_rs_sys::types::*;
use std::ffi::CStr;
use std::ptr;
use support::*;

#[test]
fn calls_before_the_begin_and_after_the_end_fail() {
    let only = alone();
    let mut pointer = ptr::null_mut();
    let mut handle = aclrtStream::NULL;
    // SAFETY: places that are written.
    unsafe {
        let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
        let codes = [
            code(acl().aclrtSetDevice(0)),
            code(acl().aclrtMalloc(&mut pointer, 8, policy)),
            code(acl().aclrtCreateStream(&mut handle)),
            code(acl().aclrtSynchronizeDevice()),
            code(acl().aclFinalize()),
        ];
        assert_eq!(codes, [100001, 100001, 100001, 100001, 100037]);
        let _session = begin(only);
        assert_eq!(code(acl().aclInit(ptr::null())), 100002);
        // A thread without a device has no context.
        let other = std::thread::spawn(|| {
            let mut handle = aclrtStream::NULL;
            code(acl().aclrtCreateStream(&mut handle))
        });
        assert_eq!(other.join().unwrap(), 107002);
    }
}

#[test]
fn devices_are_counted() {
    let _session = session();
    // SAFETY: the stream is written.
    unsafe {
        acl().aclrtSetDevice(0).unwrap();
        acl().aclrtResetDevice(0).unwrap();
        let kept = stream();
        synchronize(kept).unwrap();
        acl().aclrtResetDevice(0).unwrap();
        assert_eq!(code(synchronize(kept)), 107002, "the context is gone");
        assert_eq!(code(acl().aclrtResetDevice(0)), 107000);
        acl().aclrtSetDevice(0).unwrap();
        assert_eq!(code(synchronize(kept)), 107017, "and so is the stream");
    }
}

#[test]
fn handles_do_not_outlive_their_objects_or_leave_their_context() {
    let _session = session();
    let (one, mark) = (stream(), event());
    // SAFETY: handles, and places that are written.
    unsafe {
        let mut old = aclrtContext::NULL;
        acl().aclrtGetCurrentContext(&mut old).unwrap();
        let mut new = aclrtContext::NULL;
        acl().aclrtCreateContext(&mut new, 0).unwrap();
        let theirs = stream();
        assert_eq!(code(synchronize(one)), 107003);
        assert_eq!(code(acl().aclrtRecordEvent(mark, theirs)), 107003);
        acl().aclrtSetCurrentContext(old).unwrap();
        synchronize(one).unwrap();
        acl().aclrtDestroyContext(new).unwrap();
        assert_eq!(code(acl().aclrtSetCurrentContext(new)), 107017);
        assert_eq!(code(acl().aclrtDestroyContext(old)), 107000, "the device's own");
        acl().aclrtDestroyStream(one).unwrap();
        acl().aclrtDestroyEvent(mark).unwrap();
        let told = text(acl().aclrtDestroyStream(one));
        assert!(told.contains("107017") && told.contains("has been destroyed"), "{told}");
        assert_eq!(code(acl().aclrtRecordEvent(mark, stream())), 107017);
        assert!(text(acl().aclrtDestroyEvent(aclrtEvent(theirs.0))).contains("is no event"));
    }
}

#[test]
fn what_is_left_is_told_at_the_end() {
    let guard = session();
    let (one, memory) = (stream(), device_memory(100));
    let graph = capture(one, || fill(memory, 100, 1, one).unwrap()).unwrap();
    // SAFETY: the text lives until the thread's next call.
    let told = || unsafe {
        let text = acl().aclGetRecentErrMsg().unwrap();
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_str().unwrap().to_owned() }
    };
    // SAFETY: handles and memory nobody uses.
    unsafe {
        acl().aclrtResetDevice(0).unwrap();
        acl().aclFinalize().unwrap();
        let report = told();
        assert!(
            report.contains("3 left") && report.contains("graph") && report.contains("100 bytes"),
            "{report}"
        );
        drop(guard);
        let guard = session();
        assert_eq!(code(acl().aclmdlRIDestroy(graph)), 107017);
        let (one, memory) = (stream(), device_memory(100));
        let graph = capture(one, || fill(memory, 100, 1, one).unwrap()).unwrap();
        replay(graph, one).unwrap();
        synchronize(one).unwrap();
        acl().aclmdlRIDestroy(graph).unwrap();
        acl().aclrtFree(memory).unwrap();
        acl().aclrtDestroyStream(one).unwrap();
        acl().aclrtResetDevice(0).unwrap();
        assert_eq!(code(acl().aclrtSetDevice(99)), 107001);
        let before = told();
        acl().aclFinalize().unwrap();
        assert_eq!(told(), before, "no report");
        drop(guard);
    }
}

#[test]
fn a_device_has_so_many_streams_and_events() {
    let _session = session();
    let (mut num_streams, mut num_events) = (0, 0);
    let (mut handle, mut mark) = (aclrtStream::NULL, aclrtEvent::NULL);
    // SAFETY: places that are written.
    unsafe {
        while acl().aclrtCreateStream(&mut handle).is_ok() {
            num_streams += 1;
        }
        let told = text(acl().aclrtCreateStream(&mut handle));
        assert!(told.contains("207005") && told.contains("EE1023"), "{told}");
        while acl().aclrtCreateEventExWithFlag(&mut mark, 0).is_ok() {
            num_events += 1;
        }
        assert_eq!(code(acl().aclrtCreateEventExWithFlag(&mut mark, 0)), 207005);
        acl().aclrtDestroyStream(handle).unwrap();
        acl().aclrtCreateStream(&mut handle).unwrap();
    }
    assert_eq!((num_streams, num_events), (1983, 65536), "one stream is the default");
}

#[test]
fn a_stream_that_stops_on_failure_stays_stopped() {
    let _session = session();
    let (one, memory) = (stream(), device_memory(64));
    // SAFETY: handles only.
    unsafe { acl().aclrtSetStreamFailureMode(one, u64::from(ACL_STOP_ON_FAILURE)).unwrap() };
    fill(memory, 65, 1, one).unwrap();
    assert_eq!([code(synchronize(one)), code(synchronize(one)), code(fill(memory, 64, 1, one))], [507015; 3]);
    assert_eq!(read(memory, 64).unwrap(), [0xff; 64]);
}

#[test]
fn the_device_says_what_it_is() {
    let _session = session();
    let (mut cores, mut arch) = (0, 0);
    let mut version = [0; 3];
    // SAFETY: places that are written.
    unsafe {
        let name = CStr::from_ptr(acl().aclrtGetSocName().unwrap());
        assert_eq!(name.to_str().unwrap(), "Ascend910B3");
        acl().aclrtGetDeviceInfo(0, aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM, &mut cores).unwrap();
        acl().aclrtGetDeviceInfo(0, aclrtDevAttr::ACL_DEV_ATTR_NPU_ARCH, &mut arch).unwrap();
        let [major, minor, patch] = &mut version;
        acl().aclrtGetVersion(major, minor, patch).unwrap();
        assert!(acl().has("aclrtMalloc") && !acl().has("aclrtMemcpy2d"), "what is not done is not exported");
    }
    assert_eq!((cores, arch, version), (40, 2201, [1, 17, 0]));
}

#[test]
fn threads_with_devices_of_their_own_do_not_meet() {
    let _session = session();
    let threads: Vec<_> = (0..4_u8)
        .map(|id| {
            std::thread::spawn(move || {
                // SAFETY: the calls take no pointers.
                unsafe { acl().aclrtSetDevice(i32::from(id)).unwrap() };
                let (one, two, memory) = (stream(), stream(), [device_memory(64), device_memory(64)]);
                let events = [event(), event()];
                for round in 0..30 {
                    let value = id * 50 + round;
                    let graph = capture(one, || {
                        fill(memory[0], 64, value, one).unwrap();
                        record(events[0], one);
                        wait(two, events[0]);
                        copy(memory[1], memory[0], 64, two).unwrap();
                        record(events[1], two);
                        wait(one, events[1]);
                    })
                    .unwrap();
                    replay(graph, one).unwrap();
                    synchronize(one).unwrap();
                    // Other devices are being captured, which is nothing to this one's context.
                    assert_eq!(read(memory[1], 64).unwrap(), [value; 64]);
                    // SAFETY: the graph is ours.
                    unsafe { acl().aclmdlRIDestroy(graph).unwrap() };
                }
                // SAFETY: as above.
                unsafe { acl().aclrtResetDevice(i32::from(id)).unwrap() };
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
