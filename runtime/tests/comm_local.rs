//! Local collectives against their definition, over ranks as threads.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use titan_ir::kernel::{CollectiveKind, ReduceKind};
use titan_ir::{AxisId, DType, Mesh};
use titan_run::comm::{Call, Comm, Part, Stopped, World};
use titan_run::pool::Pool;

/// Values with rounding errors, so that the order of a sum shows.
fn value(rank: u64, i: usize) -> f32 {
    let x = (rank + 1).wrapping_mul(2_654_435_761).wrapping_add(i as u64 * 40_503) % 10_007;
    (x as f32 - 5000.0) / 3.0
}

fn run(
    mesh: &Mesh,
    axis: AxisId,
    kind: CollectiveKind,
    src_len: usize,
    dst_len: usize,
    in_place: bool,
) -> Vec<Vec<f32>> {
    let world = World::new(mesh);
    let ranks = mesh.num_ranks();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let world = Arc::clone(&world);
                scope.spawn(move || {
                    let (comm, pool) = (Comm::new(&world, rank), Pool::new(2, None));
                    let mut src: Vec<f32> = (0..src_len).map(|i| value(rank, i)).collect();
                    let mut dst = vec![0.0_f32; dst_len];
                    let mut second = dst.clone();
                    let from = src.as_mut_ptr().cast();
                    let to = if in_place { from } else { dst.as_mut_ptr().cast() };
                    for _ in 0..3 {
                        if in_place {
                            (0..src_len).for_each(|i| src[i] = value(rank, i));
                        }
                        comm.barrier().unwrap();
                        let mut parts = vec![Part { src_len, src: from, dst: to }];
                        if !in_place {
                            parts.push(Part { src_len, src: from, dst: second.as_mut_ptr().cast() });
                        }
                        let call = Call { kind, dtype: DType::F32, parts: parts.into() };
                        // SAFETY: the buffers have the lengths of the kind and live until the call returns.
                        unsafe { comm.run(axis, &call, &pool).unwrap() };
                    }
                    if in_place {
                        return src;
                    }
                    assert_eq!(dst, second, "parts of one call are independent");
                    dst
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn sum_in_rank_order(ranks: &[u64], i: usize) -> f32 {
    ranks.iter().map(|&r| value(r, i)).reduce(|a, b| a + b).unwrap()
}

#[test]
fn collectives_do_what_they_say_along_every_axis() {
    let mesh = Mesh::new(&[("dp_replicate", 2), ("dp_shard", 3)]);
    for axis in [AxisId(0), AxisId(1)] {
        let size = mesh.size(axis) as usize;
        for part in [1_usize, 17, 100_003] {
            let whole = part * size;
            let gathered = run(&mesh, axis, CollectiveKind::AllGather, part, whole, false);
            let scattered =
                run(&mesh, axis, CollectiveKind::ReduceScatter(ReduceKind::Sum), whole, part, false);
            let reduced = run(&mesh, axis, CollectiveKind::AllReduce(ReduceKind::Sum), part, part, false);
            let in_place = run(&mesh, axis, CollectiveKind::AllReduce(ReduceKind::Sum), part, part, true);
            let largest = run(&mesh, axis, CollectiveKind::AllReduce(ReduceKind::Max), part, part, false);
            let exchanged = run(&mesh, axis, CollectiveKind::AllToAll, whole, whole, false);
            for rank in 0..mesh.num_ranks() {
                let (group, at) = (mesh.group(rank, axis), mesh.coordinate(rank, axis) as usize);
                let r = rank as usize;
                for i in [0, part / 2, part - 1] {
                    for (p, &peer) in group.iter().enumerate() {
                        assert_eq!(gathered[r][p * part + i], value(peer, i));
                        assert_eq!(exchanged[r][p * part + i], value(peer, at * part + i));
                    }
                    assert_eq!(scattered[r][i], sum_in_rank_order(&group, at * part + i));
                    assert_eq!(reduced[r][i], sum_in_rank_order(&group, i));
                    assert_eq!(largest[r][i], group.iter().map(|&p| value(p, i)).fold(f32::MIN, f32::max));
                }
                assert_eq!(reduced[r], in_place[r]);
            }
        }
    }
}

#[test]
fn a_rank_that_stops_releases_those_that_wait() {
    let mesh = Mesh::new(&[("dp_shard", 2)]);
    let world = World::new(&mesh);
    let waiting = {
        let world = Arc::clone(&world);
        std::thread::spawn(move || Comm::new(&world, 0).barrier())
    };
    Comm::new(&world, 1).stop();
    assert_eq!(waiting.join().unwrap(), Err(Stopped));
    assert_eq!(Comm::new(&world, 1).barrier(), Err(Stopped));
}
