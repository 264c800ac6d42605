//! Memory: what is fresh, what is gone, what belongs to whom.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::ptr;
use support::*;

const LEN: usize = 4096;

fn at(pointer: *mut c_void, offset: usize) -> *mut c_void {
    pointer.cast::<u8>().wrapping_add(offset).cast()
}

#[test]
fn allocations_are_aligned_fresh_and_counted() {
    let _session = session();
    let (mut before, mut after, mut total) = (0, 0, 0);
    // SAFETY: places that are written.
    unsafe {
        acl().aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut before, &mut total).unwrap();
        assert_eq!(total, 64 << 30);
        for len in [1, 63, 64, 100_000, 5 << 20] {
            let pointer = device_memory(len);
            assert!((pointer as usize).is_multiple_of(64));
            assert!(read(pointer, len).unwrap().iter().all(|byte| *byte == 0xff), "{len}");
        }
        acl().aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut after, &mut total).unwrap();
    }
    let charged: usize =
        [1_usize, 63, 64, 100_000, 5 << 20].iter().map(|len| len.next_multiple_of(32) + 32).sum();
    assert_eq!(before - after, charged);
}

#[test]
fn a_device_has_so_much_memory_and_no_more() {
    let _session = session();
    let mut pointer = ptr::null_mut();
    let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
    // SAFETY: the pointer is written.
    unsafe {
        assert_eq!(code(acl().aclrtMalloc(&mut pointer, 65 << 30, policy)), 207001);
        // Large memory costs the host only what is used of it.
        acl().aclrtMalloc(&mut pointer, 60 << 30, policy).unwrap();
        assert_eq!(code(acl().aclrtMalloc(&mut pointer, 5 << 30, policy)), 207001);
    }
    let one = stream();
    fill(at(pointer, 50 << 30), LEN, 1, one).unwrap();
    synchronize(one).unwrap();
    assert_eq!(read(at(pointer, (50 << 30) - 1), 2).unwrap(), [0xff, 1]);
    // SAFETY: nobody uses it.
    unsafe { acl().aclrtFree(pointer).unwrap() };
}

#[test]
fn tasks_stay_inside_one_live_allocation_of_the_device() {
    let _session = session();
    let (one, memory, pinned) = (stream(), device_memory(LEN), pinned_memory(LEN));
    let mut stack = [0_u8; 64];
    let freed = device_memory(LEN);
    // SAFETY: nobody uses it.
    unsafe { acl().aclrtFree(freed).unwrap() };
    for (pointer, why) in [
        (at(memory, 1), "which run 1 past the allocation"),
        (pinned, "host memory, not device memory"),
        (stack.as_mut_ptr().cast(), "in no allocation"),
        (at(freed, 8), "8 bytes into freed memory"),
    ] {
        fill(pointer, LEN, 1, one).unwrap();
        let told = text(synchronize(one));
        assert!(told.contains("507015") && told.contains("fill on stream") && told.contains(why), "{told}");
    }
    fill(memory, LEN, 1, one).unwrap();
    synchronize(one).unwrap();
    // SAFETY: device 1 exists; the memory is device 0's.
    unsafe {
        acl().aclrtSetDevice(1).unwrap();
        let other = stream();
        fill(memory, LEN, 1, other).unwrap();
        assert!(text(synchronize(other)).contains("memory of device 0, not 1"));
        acl().aclrtResetDevice(1).unwrap();
        acl().aclrtSetDevice(0).unwrap();
        acl().aclrtResetDevice(0).unwrap();
    }
}

#[test]
fn memory_freed_while_it_is_used_is_told() {
    let _session = session();
    let (one, memory) = (stream(), device_memory(LEN));
    fill(memory, LEN, 1, one).unwrap();
    // SAFETY: the library keeps the addresses from being used again.
    let freed = unsafe { acl().aclrtFree(memory) };
    let told = format!("{}{}", text(freed), text(synchronize(one)));
    // Either the task ran before, unordered, or it finds the memory gone.
    assert!(told.contains("the host freeing memory") || told.contains("freed memory"), "{told}");
    // SAFETY: as above.
    unsafe {
        assert_eq!(code(acl().aclrtFree(memory)), 107000, "freed twice");
        let memory = device_memory(LEN);
        fill(memory, LEN, 1, one).unwrap();
        acl().aclrtFreeWithDevSync(memory).unwrap();
    }
    synchronize(one).unwrap();
}

#[test]
fn pinned_memory_is_read_when_the_copy_runs_and_pageable_memory_at_once() {
    let _session = session();
    let (one, memory, pinned) = (stream(), device_memory(LEN), pinned_memory(LEN));
    let mut pageable = vec![1_u8; LEN];
    copy(memory, pageable.as_ptr().cast(), LEN, one).unwrap();
    pageable.fill(2);
    assert_eq!(read(memory, LEN).unwrap(), vec![1; LEN], "the stream was waited for");
    copy(pageable.as_mut_ptr().cast(), memory, LEN, one).unwrap();
    assert_eq!(pageable, [1; LEN]);
    let mut gate = aclrtEvent::NULL;
    // SAFETY: handles, memory that is ours, and places that are written.
    unsafe {
        // The graph keeps the copy from running before the host has changed its mind.
        acl().aclrtCreateEventWithFlag(&mut gate, ACL_EVENT_EXTERNAL).unwrap();
        let graph = capture(one, || acl().aclrtStreamWaitEvent(one, gate).unwrap()).unwrap();
        pinned.cast::<u8>().write_bytes(3, LEN);
        replay(graph, one).unwrap();
        copy(memory, pinned, LEN, one).unwrap();
        pinned.cast::<u8>().write_bytes(4, LEN);
        record(gate, stream());
        synchronize(one).unwrap();
        assert_eq!(read(memory, LEN).unwrap(), vec![4; LEN]);
        let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST;
        assert_eq!(
            code(acl().aclrtMemcpyAsync(memory, LEN, pinned, LEN, kind, one)),
            107000,
            "the wrong way"
        );
        let kind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_HOST;
        assert_eq!(code(acl().aclrtMemcpyAsync(pinned, 8, pinned, 8, kind, one)), 207000);
        let graph = capture(one, || copy(memory, pinned, LEN, one).unwrap()).unwrap();
        acl().aclrtFreeHost(pinned).unwrap();
        replay(graph, one).unwrap();
        let told = text(synchronize(one));
        assert!(told.contains("507013") && told.contains("its host memory"), "{told}");
    }
}

#[test]
fn physical_memory_is_mapped_into_reserved_addresses() {
    const UNIT: usize = 2 << 20;
    let _session = session();
    let one = stream();
    let location = aclrtMemLocation { id: 0, type_: aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE };
    let mut prop = aclrtPhysicalMemProp {
        handleType: aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE,
        allocationType: aclrtMemAllocationType::ACL_MEM_ALLOCATION_TYPE_PINNED,
        memAttr: aclrtMemAttr::ACL_HBM_MEM_HUGE,
        location,
        reserve: 0,
    };
    let (mut start, mut unit) = (ptr::null_mut(), 0);
    let mut handles = [aclrtDrvMemHandle::NULL; 2];
    // SAFETY: places that are written; the library checks the addresses.
    unsafe {
        let minimum = aclrtMemGranularityOptions::ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM;
        acl().aclrtMemGetAllocationGranularity(&mut prop, minimum, &mut unit).unwrap();
        assert_eq!(unit, UNIT);
        acl().aclrtReserveMemAddress(&mut start, 4 * UNIT, 0, ptr::null_mut(), 0).unwrap();
        for (i, handle) in handles.iter_mut().enumerate() {
            assert_eq!(code(acl().aclrtMallocPhysical(handle, UNIT + 1, &prop, 0)), 107000);
            acl().aclrtMallocPhysical(handle, UNIT, &prop, 0).unwrap();
            acl().aclrtMapMem(at(start, i * UNIT), UNIT, 0, *handle, 0).unwrap();
            fill(at(start, i * UNIT), UNIT, i as u8, one).unwrap();
        }
        synchronize(one).unwrap();
        assert_eq!(read(at(start, UNIT - 1), 2).unwrap(), [0, 1], "neighbours are one range");
        fill(at(start, UNIT - 8), 16, 7, one).unwrap();
        synchronize(one).unwrap();
        fill(at(start, 2 * UNIT), 1, 0, one).unwrap();
        assert!(text(synchronize(one)).contains("507015"), "nothing is mapped there");
        assert_eq!(code(read(at(start, 2 * UNIT), 1)), 107000);
        assert_eq!(code(acl().aclrtReleaseMemAddress(start)), 107000, "still mapped");
        acl().aclrtFreePhysical(handles[0]).unwrap();
        for (i, handle) in handles.iter().enumerate() {
            acl().aclrtUnmapMem(at(start, i * UNIT)).unwrap();
            assert_eq!(code(acl().aclrtFreePhysical(*handle)), if i == 0 { 107017 } else { 0 });
        }
        acl().aclrtReleaseMemAddress(start).unwrap();
    }
}

#[test]
fn devices_copy_to_each_other_once_both_have_allowed_it() {
    let _session = session();
    let (one, here) = (stream(), device_memory(LEN));
    // SAFETY: handles and memory the library checks.
    unsafe {
        let mut context = aclrtContext::NULL;
        acl().aclrtGetCurrentContext(&mut context).unwrap();
        acl().aclrtSetDevice(1).unwrap();
        let (two, there) = (stream(), device_memory(LEN));
        fill(there, LEN, 5, two).unwrap();
        synchronize(two).unwrap();
        acl().aclrtDeviceEnablePeerAccess(0, 0).unwrap();
        acl().aclrtSetCurrentContext(context).unwrap();
        assert_eq!(code(copy(here, there, LEN, one)), 107000, "only one side has allowed it");
        acl().aclrtDeviceEnablePeerAccess(1, 0).unwrap();
        copy(here, there, LEN, one).unwrap();
        synchronize(one).unwrap();
        assert_eq!(read(here, LEN).unwrap(), vec![5; LEN]);
        acl().aclrtResetDevice(1).unwrap();
    }
}
