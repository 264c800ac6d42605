//! Ranks that disagree, leave, or come never.

use crate::ranks::*;
use crate::support::*;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

/// What each of two ranks is told at its synchronisation, and by its communicator.
fn told(body: impl Fn(&Rank, *mut c_void, *mut c_void) + Sync) -> Vec<(String, HcclResult)> {
    on_ranks(2, |rank| {
        let (send, recv) = (upload(&rank.values(8)), device_memory(64));
        body(rank, send, recv);
        let error = text(synchronize(rank.stream));
        let mut state = HcclResult::HCCL_SUCCESS;
        // SAFETY: the result is written.
        unsafe { hccl().HcclGetCommAsyncError(rank.comm, &mut state).unwrap() };
        (error, state)
    })
}

#[test]
fn ranks_that_disagree_learn_of_each_other() {
    let count = told(|rank, send, recv| {
        let count = u64::from(4 + rank.rank);
        // SAFETY: the library checks the memory.
        unsafe { hccl().HcclAllReduce(send, recv, count, F32, SUM, rank.comm, rank.stream).unwrap() };
    });
    let order = told(|rank, send, recv| {
        // SAFETY: as above.
        unsafe {
            match rank.rank {
                0 => hccl().HcclAllReduce(send, recv, 4, F32, SUM, rank.comm, rank.stream).unwrap(),
                _ => hccl().HcclAllGather(send, recv, 4, F32, rank.comm, rank.stream).unwrap(),
            }
        }
    });
    let dtype = told(|rank, send, recv| {
        let dtype = [F32, HcclDataType::HCCL_DATA_TYPE_BFP16][rank.rank as usize];
        // SAFETY: as above.
        unsafe { hccl().HcclAllReduce(send, recv, 4, dtype, SUM, rank.comm, rank.stream).unwrap() };
    });
    let cases = [
        (count, "AllReduce of 4 FP32", "AllReduce of 5 FP32"),
        (order, "AllReduce of 4 FP32", "AllGather of 4 FP32"),
        (dtype, "AllReduce of 4 FP32", "AllReduce of 4 BFP16"),
    ];
    for (ranks, first, second) in cases {
        for (error, state) in ranks {
            let both = error.contains("rank 0 is in") && error.contains("rank 1 is in");
            assert!(both && error.contains(first) && error.contains(second), "{error}");
            assert!(error.contains("507049"), "{error}");
            assert_eq!(state, HcclResult::HCCL_E_REMOTE);
        }
    }
}

#[test]
fn transfers_agree_on_counts() {
    let ranks = told(|rank, send, recv| {
        // SAFETY: the library checks the memory.
        unsafe {
            match rank.rank {
                0 => hccl().HcclSend(send, 4, F32, 1, rank.comm, rank.stream).unwrap(),
                _ => hccl().HcclRecv(recv, 3, F32, 0, rank.comm, rank.stream).unwrap(),
            }
        }
    });
    for (error, _) in ranks {
        assert!(error.contains("rank 0 sends 4 FP32 and rank 1 receives 3 FP32"), "{error}");
    }
}

#[test]
fn a_rank_that_does_not_come_is_a_time_out_that_names_it() {
    let config = |_| HcclCommConfig { hcclExecTimeOut: 1, ..HcclCommConfig::unset() };
    let errors = on_configured_ranks(2, config, |rank| {
        let (send, recv) = (upload(&rank.values(4)), device_memory(16));
        if rank.rank == 0 {
            // SAFETY: the library checks the memory.
            unsafe { hccl().HcclAllReduce(send, recv, 4, F32, SUM, rank.comm, rank.stream).unwrap() };
        }
        text(synchronize(rank.stream))
    });
    let error = &errors[0];
    assert!(error.contains("507048") && error.contains("rank 0 is in AllReduce"), "{error}");
    assert!(error.contains("not there: 1"), "{error}");
    assert_eq!(errors[1], "no error");
}

#[test]
fn graphs_are_replayed_in_the_order_they_were_captured() {
    let errors = on_ranks(2, |rank| {
        let (send, recv) = (upload(&rank.values(2)), device_memory(8));
        let mode = aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
        let graphs = [(); 2].map(|()| {
            let mut graph = aclmdlRI::NULL;
            // SAFETY: handles are alive, the graph is written.
            unsafe {
                acl().aclmdlRICaptureBegin(rank.stream, mode).unwrap();
                hccl().HcclAllReduce(send, recv, 2, F32, SUM, rank.comm, rank.stream).unwrap();
                acl().aclmdlRICaptureEnd(rank.stream, &mut graph).unwrap();
            }
            graph
        });
        // SAFETY: as above.
        unsafe { acl().aclmdlRIExecuteAsync(graphs[rank.rank as usize], rank.stream).unwrap() };
        let error = text(synchronize(rank.stream));
        for graph in graphs {
            // SAFETY: as above.
            unsafe { acl().aclmdlRIDestroy(graph).unwrap() };
        }
        error
    });
    for error in errors {
        assert!(error.contains("in graph 0") && error.contains("in graph 1"), "{error}");
    }
}

#[test]
fn a_destroyed_communicator_fails_what_was_captured_with_it() {
    let _session = session();
    let (mut device, mut comm) = (0, HcclComm::NULL);
    let mut graph = aclmdlRI::NULL;
    let stream = stream();
    let (send, recv) = (upload(&[1.0]), device_memory(4));
    let mode = aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    // SAFETY: handles are alive, results are written.
    unsafe {
        hccl().HcclCommInitAll(1, &mut device, &mut comm).unwrap();
        acl().aclmdlRICaptureBegin(stream, mode).unwrap();
        hccl().HcclAllReduce(send, recv, 1, F32, SUM, comm, stream).unwrap();
        acl().aclmdlRICaptureEnd(stream, &mut graph).unwrap();
        hccl().HcclCommDestroy(comm).unwrap();
        acl().aclmdlRIExecuteAsync(graph, stream).unwrap();
        assert!(text(synchronize(stream)).contains("was destroyed"));
        assert_eq!(code(hccl().HcclCommDestroy(comm)), HcclResult::HCCL_E_PARA.0);
        acl().aclmdlRIDestroy(graph).unwrap();
    }
}

#[test]
fn arguments_are_checked_at_the_call() {
    let codes = on_ranks(1, |rank| {
        let (memory, comm, stream) = (device_memory(64), rank.comm, rank.stream);
        let byte = |offset: usize| memory.wrapping_byte_add(offset);
        let bf16 = HcclDataType::HCCL_DATA_TYPE_BFP16;
        // SAFETY: nothing is submitted.
        unsafe {
            [
                code(hccl().HcclAllReduce(std::ptr::null_mut(), memory, 1, F32, SUM, comm, stream)),
                code(hccl().HcclAllReduce(memory, memory, 1, HcclDataType(13), SUM, comm, stream)),
                code(hccl().HcclAllReduce(byte(2), byte(2), 1, F32, SUM, comm, stream)),
                code(hccl().HcclAllReduce(memory, byte(4), 2, F32, SUM, comm, stream)),
                code(hccl().HcclAllReduce(memory, memory, 1, F32, HcclReduceOp(4), comm, stream)),
                code(hccl().HcclAllReduce(
                    memory,
                    memory,
                    1,
                    bf16,
                    HcclReduceOp::HCCL_REDUCE_PROD,
                    comm,
                    stream,
                )),
                code(hccl().HcclBroadcast(memory, 1, F32, 1, comm, stream)),
                code(hccl().HcclSend(memory, 1, F32, 0, comm, stream)),
                code(hccl().HcclAllReduce(memory, memory, 1, F32, SUM, HcclComm::NULL, stream)),
            ]
        }
    });
    let (ptr, para) = (HcclResult::HCCL_E_PTR.0, HcclResult::HCCL_E_PARA.0);
    assert_eq!(codes[0], [ptr, para, para, para, para, HcclResult::HCCL_E_NOT_SUPPORT.0, para, para, ptr]);
}

#[test]
fn a_start_that_cannot_be_is_refused() {
    let _session = session();
    let (info, mut comm) = (root_info(), HcclComm::NULL);
    let mut start = |config: HcclCommConfig, size: u32, info: &HcclRootInfo| {
        // SAFETY: the communicator is written.
        text(unsafe { hccl().HcclCommInitRootInfoConfig(size, info, 0, &config, &mut comm) })
    };
    let spoiled = |at: usize, value: i8| {
        let mut config = HcclCommConfig::unset();
        config.reserved[at] = value as _;
        config
    };
    assert!(start(spoiled(8, 0), 1, &info).contains("magic number"));
    assert!(start(spoiled(12, 11), 1, &info).contains("version 11"));
    assert!(start(spoiled(0, 8), 1, &info).contains("bytes"));
    assert!(
        start(HcclCommConfig { hcclDeterministic: 3, ..HcclCommConfig::unset() }, 1, &info)
            .contains("allowed: 0, 1, 2")
    );
    assert!(start(HcclCommConfig::unset(), 0, &info).contains("rank 0 of 0"));
    assert!(
        start(HcclCommConfig::unset(), 1, &HcclRootInfo { internal: [0; 4108] })
            .contains("not made by HcclGetRootInfo")
    );
    let huge = HcclCommConfig { hcclBufferSize: 40 << 10, ..HcclCommConfig::unset() };
    assert!(start(huge, 1, &info).contains("the buffers of a communicator"));
    assert_eq!(start(HcclCommConfig::unset(), 1, &info), "no error");
    // SAFETY: the communicator is alive.
    unsafe { hccl().HcclCommDestroy(comm).unwrap() };
}

#[test]
fn a_communicator_s_buffers_count() {
    let free = || {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are written.
        unsafe { acl().aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total).unwrap() };
        free
    };
    let _session = session();
    let before = free();
    let (mut device, mut comm) = (0, HcclComm::NULL);
    // SAFETY: results are written.
    unsafe {
        hccl().HcclCommInitAll(1, &mut device, &mut comm).unwrap();
        assert_eq!(before - free(), (2 * 200) << 20);
        hccl().HcclCommDestroy(comm).unwrap();
    }
    assert_eq!(before, free());
}

#[test]
fn a_communicator_is_of_its_device() {
    let _session = session();
    let (mut device, mut comm) = (0, HcclComm::NULL);
    // SAFETY: results are written.
    unsafe {
        hccl().HcclCommInitAll(1, &mut device, &mut comm).unwrap();
        acl().aclrtSetDevice(1).unwrap();
        let (memory, stream) = (device_memory(4), stream());
        let strange = hccl().HcclAllReduce(memory, memory, 1, F32, SUM, comm, stream);
        assert!(text(strange).contains("is of device 0; this thread's is 1"));
        acl().aclrtResetDeviceForce(1).unwrap();
        acl().aclrtSetDevice(0).unwrap();
        hccl().HcclCommDestroy(comm).unwrap();
    }
}
