//! What four ranks get, against what they gave.

use crate::ranks::*;
use crate::support::*;
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::ptr;

const RANKS: u32 = 4;

/// Value `i` of rank `rank`, as `Rank::values` has it.
fn value(rank: u32, i: usize) -> f32 {
    (rank * 100) as f32 + i as f32
}

fn over_ranks(f: impl Fn(u32) -> f32) -> Vec<f32> {
    (0..RANKS).map(f).collect()
}

#[test]
fn all_reduce_joins_in_each_way() {
    let ops =
        [SUM, HcclReduceOp::HCCL_REDUCE_PROD, HcclReduceOp::HCCL_REDUCE_MAX, HcclReduceOp::HCCL_REDUCE_MIN];
    let got = on_ranks(RANKS, |rank| {
        let results = ops.map(|op| {
            let (send, recv) = (upload(&rank.values(5)), device_memory(20));
            // SAFETY: the library checks the memory.
            unsafe { hccl().HcclAllReduce(send, recv, 5, F32, op, rank.comm, rank.stream).unwrap() };
            rank.wait();
            download(recv, 5)
        });
        results.to_vec()
    });
    let of_all =
        |f: fn(&[f32]) -> f32| (0..5).map(|i| f(&over_ranks(|rank| value(rank, i)))).collect::<Vec<_>>();
    let want = [
        of_all(|values| values.iter().sum()),
        of_all(|values| values.iter().product()),
        of_all(|values| values[3]),
        of_all(|values| values[0]),
    ];
    for results in got {
        assert_eq!(results, want);
    }
}

#[test]
fn gathers_scatters_and_broadcasts_move_what_they_say() {
    let got = on_ranks(RANKS, |rank| {
        let (comm, stream) = (rank.comm, rank.stream);
        let all = upload(&rank.values(8));
        let buffers: Vec<*mut c_void> = (0..5).map(|_| device_memory(32)).collect();
        let copied = upload(&rank.values(3));
        // SAFETY: the library checks the memory.
        unsafe {
            hccl().HcclAllGather(all, buffers[0], 2, F32, comm, stream).unwrap();
            hccl().HcclReduceScatter(all, buffers[1], 2, F32, SUM, comm, stream).unwrap();
            hccl().HcclBroadcast(copied, 3, F32, 2, comm, stream).unwrap();
            hccl().HcclReduce(all, buffers[2], 8, F32, SUM, 1, comm, stream).unwrap();
            hccl().HcclScatter(all, buffers[3], 2, F32, 3, comm, stream).unwrap();
            hccl().HcclAlltoAll(all, 2, F32, buffers[4], 2, F32, comm, stream).unwrap();
            hccl().HcclBarrier(comm, stream).unwrap();
        }
        rank.wait();
        let reduced = (rank.rank == 1).then(|| download(buffers[2], 8));
        let parts = (download(buffers[0], 8), download(buffers[1], 2), download(copied, 3));
        (rank.rank, parts, reduced, download(buffers[3], 2), download(buffers[4], 8))
    });
    let total = |i: usize| over_ranks(|rank| value(rank, i)).iter().sum::<f32>();
    for (rank, (gathered, reduced, copied), root, scattered, exchanged) in got {
        let own = [2 * rank as usize, 2 * rank as usize + 1];
        assert_eq!(gathered, (0..RANKS).flat_map(|r| [value(r, 0), value(r, 1)]).collect::<Vec<_>>());
        assert_eq!(reduced, own.map(total));
        assert_eq!(copied, [value(2, 0), value(2, 1), value(2, 2)]);
        assert!(root.is_none_or(|root| root == (0..8).map(total).collect::<Vec<_>>()));
        assert_eq!(scattered, own.map(|i| value(3, i)));
        assert_eq!(exchanged, (0..RANKS).flat_map(|r| own.map(|i| value(r, i))).collect::<Vec<_>>());
    }
}

#[test]
fn pieces_of_different_lengths_find_their_places() {
    // Rank r sends s + 1 elements to rank s, from the back of its buffer to the front.
    let got = on_ranks(RANKS, |rank| {
        let counts: Vec<u64> = (0..4).map(|s| s + 1).collect();
        let starts: Vec<u64> = vec![9, 7, 4, 0];
        let expected = vec![u64::from(rank.rank) + 1; 4];
        let places: Vec<u64> = (0..4).map(|s| s * expected[0]).collect();
        let (send, recv) = (upload(&rank.values(10)), device_memory(64));
        let numbers = |numbers: &[u64]| numbers.as_ptr().cast::<c_void>();
        // SAFETY: the arrays have a number for each rank.
        unsafe {
            hccl()
                .HcclAlltoAllV(
                    send,
                    numbers(&counts),
                    numbers(&starts),
                    F32,
                    recv,
                    numbers(&expected),
                    numbers(&places),
                    F32,
                    rank.comm,
                    rank.stream,
                )
                .unwrap();
        }
        rank.wait();
        (rank.rank, download(recv, 4 * expected[0] as usize))
    });
    for (rank, values) in got {
        let start = [9, 7, 4, 0][rank as usize];
        let want = (0..RANKS).flat_map(|r| (0..=rank as usize).map(move |i| value(r, start + i)));
        assert_eq!(values, want.collect::<Vec<_>>());
    }
}

#[test]
fn neighbours_exchange_in_a_ring() {
    let got = on_ranks(RANKS, |rank| {
        let (next, previous) = ((rank.rank + 1) % RANKS, (rank.rank + RANKS - 1) % RANKS);
        let (send, recv, second) = (upload(&rank.values(3)), device_memory(12), device_memory(12));
        let item = |kind, buf, other| HcclSendRecvItem {
            sendRecvType: kind,
            buf,
            count: 3,
            dataType: F32,
            remoteRank: other,
        };
        let mut items = [
            item(HcclSendRecvType::HCCL_SEND, send, next),
            item(HcclSendRecvType::HCCL_RECV, recv, previous),
        ];
        // SAFETY: the library checks the memory.
        unsafe {
            hccl().HcclBatchSendRecv(items.as_mut_ptr(), 2, rank.comm, rank.stream).unwrap();
            if rank.rank == 0 {
                hccl().HcclSend(send, 3, F32, 1, rank.comm, rank.stream).unwrap();
            } else if rank.rank == 1 {
                hccl().HcclRecv(second, 3, F32, 0, rank.comm, rank.stream).unwrap();
            }
        }
        rank.wait();
        (previous, download(recv, 3), (rank.rank == 1).then(|| download(second, 3)))
    });
    for (previous, values, second) in got {
        assert_eq!(values, [0, 1, 2].map(|i| value(previous, i)));
        assert!(second.is_none_or(|second| second == [0, 1, 2].map(|i| value(0, i))));
    }
}

#[test]
fn groups_are_made_from_all_ranks_and_reduce_among_themselves() {
    let got = on_ranks(RANKS, |rank| {
        let mut members = [rank.rank % 2, rank.rank % 2 + 2];
        let (mut parent, mut group) = (rank.comm, HcclComm::NULL);
        let mut config = HcclCommConfig::unset();
        let (size, place) = (members.len() as u32, rank.rank / 2);
        let (send, recv) = (upload(&rank.values(2)), device_memory(8));
        let (mut group_size, mut group_rank) = (0, 0);
        // SAFETY: the arrays have these lengths; results are written.
        unsafe {
            let made = &mut group;
            hccl()
                .HcclCreateSubCommConfig(&mut parent, size, members.as_mut_ptr(), 7, place, &mut config, made)
                .unwrap();
            hccl().HcclGetRankSize(group, &mut group_size).unwrap();
            hccl().HcclGetRankId(group, &mut group_rank).unwrap();
            hccl().HcclAllReduce(send, recv, 2, F32, SUM, group, rank.stream).unwrap();
            rank.wait();
            let (mut of_group, mut nested) = (group, HcclComm::NULL);
            let refused = hccl().HcclCreateSubCommConfig(
                &mut of_group,
                size,
                members.as_mut_ptr(),
                8,
                place,
                &mut config,
                &mut nested,
            );
            assert!(text(refused).contains("groups are made from the communicator of all ranks"));
            hccl().HcclCommDestroy(group).unwrap();
        }
        assert_eq!((group_size, group_rank), (2, rank.rank / 2));
        (members, download(recv, 2))
    });
    for (members, values) in got {
        assert_eq!(values, [0, 1].map(|i| value(members[0], i) + value(members[1], i)));
    }
}

#[test]
fn captured_collectives_are_replayed_on_new_values() {
    let got = on_ranks(RANKS, |rank| {
        let (send, recv, mut graph) = (upload(&rank.values(2)), device_memory(8), aclmdlRI::NULL);
        let mode = aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: handles are alive, the graph is written.
        unsafe {
            acl().aclmdlRICaptureBegin(rank.stream, mode).unwrap();
            hccl().HcclAllReduce(send, recv, 2, F32, SUM, rank.comm, rank.stream).unwrap();
            acl().aclmdlRICaptureEnd(rank.stream, &mut graph).unwrap();
        }
        let mut seen = Vec::new();
        for step in [1.0, 2.0] {
            overwrite(send, &[step, step * rank.rank as f32]);
            // SAFETY: as above.
            unsafe { acl().aclmdlRIExecuteAsync(graph, rank.stream).unwrap() };
            rank.wait();
            seen.push(download(recv, 2));
        }
        // SAFETY: as above.
        unsafe { acl().aclmdlRIDestroy(graph).unwrap() };
        seen
    });
    assert_eq!(got, vec![vec![vec![4.0, 6.0], vec![8.0, 12.0]]; 4]);
}

#[test]
fn one_process_makes_all_communicators_at_once() {
    let _session = session();
    let (mut devices, mut comms) = ([0, 1], [HcclComm::NULL; 2]);
    // SAFETY: both arrays have two places.
    unsafe { hccl().HcclCommInitAll(2, devices.as_mut_ptr(), comms.as_mut_ptr()).unwrap() };
    let rows = [0, 1].map(|device: usize| {
        // SAFETY: the library checks the memory.
        unsafe {
            acl().aclrtSetDevice(device as i32).unwrap();
            let (send, recv, stream) = (upload(&[device as f32 + 1.0]), device_memory(4), stream());
            hccl().HcclAllReduce(send, recv, 1, F32, SUM, comms[device], stream).unwrap();
            (recv, stream)
        }
    });
    for (device, (recv, stream)) in rows.into_iter().enumerate() {
        // SAFETY: handles only.
        unsafe {
            acl().aclrtSetDevice(device as i32).unwrap();
            synchronize(stream).unwrap();
            assert_eq!(download(recv, 1), [3.0]);
            hccl().HcclCommDestroy(comms[device]).unwrap();
        }
    }
    // SAFETY: no pointers.
    unsafe { acl().aclrtResetDeviceForce(1).unwrap() };
    assert!(!comms.contains(&HcclComm(ptr::null_mut())));
}

/// Sums whose result depends on their order.
fn uneven_sums(deterministic: u32) -> usize {
    let config = |_| HcclCommConfig { hcclDeterministic: deterministic, ..HcclCommConfig::unset() };
    let got = on_configured_ranks(RANKS, config, |rank| {
        let mut results = std::collections::BTreeSet::new();
        for _ in 0..12 {
            let large = [1e8, 1.0, -1e8, 1.0][rank.rank as usize];
            let (send, recv) = (upload(&[large]), device_memory(4));
            // SAFETY: the library checks the memory.
            unsafe { hccl().HcclAllReduce(send, recv, 1, F32, SUM, rank.comm, rank.stream).unwrap() };
            rank.wait();
            results.insert(download(recv, 1)[0].to_bits());
        }
        results
    });
    assert!(got.iter().all(|results| *results == got[0]), "all ranks get the same");
    got[0].len()
}

#[test]
fn only_deterministic_reductions_keep_the_order_of_ranks() {
    assert_eq!(uneven_sums(1), 1);
    assert!(uneven_sums(0) > 1);
}
