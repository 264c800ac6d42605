//! All ranks together compute what the global module computes, on every mesh, with sizes no rank count divides.

use titan_ir::kernel::ReduceKind;
use titan_ir::{DType, Func, Mesh, Module, Node, Op, verify};
use titan_passes::accumulate::Accumulate;
use titan_passes::autodiff::Autodiff;
use titan_passes::bucket_collectives::BucketCollectives;
use titan_passes::check::spmd;
use titan_passes::fuse::Fuse;
use titan_passes::insert_reshard::InsertReshard;
use titan_passes::localize::Localize;
use titan_passes::optimizer::Optimizer;
use titan_passes::pass::{Pass, PassCx};
use titan_passes::prefetch::Prefetch;
use titan_passes::propagate::Propagate;
use titan_passes::remat::{Remat, ReshardAfterForward};
use titan_tests::decoder::Decoder;

/// Differences allowed for ops, where sums of f64 come in another order, and for kernels, whose constants are f32.
const OPS: f64 = 1e-9;
const KERNELS: f64 = 1e-6;

fn run(module: &mut Module, passes: &[&dyn Pass]) {
    for pass in passes {
        pass.run(module, &mut PassCx::default()).unwrap_or_else(|diag| panic!("{}: {diag}", pass.name()));
        verify::verify(module).unwrap_or_else(|diags| panic!("after {}: {diags}", pass.name()));
    }
}

/// The training step on the global graph and on ranks.
fn both(decoder: &Decoder, num_microbatches: u64, local: &[&dyn Pass]) -> (Module, Module) {
    let mut global = decoder.module().expect("sizes fit");
    run(&mut global, &[&Autodiff, &Accumulate { num_microbatches }, &Optimizer::default()]);
    let mut sharded = global.clone();
    run(&mut sharded, &[&Propagate, &InsertReshard, &Localize]);
    run(&mut sharded, local);
    (global, sharded)
}

fn decoder(mesh: &[(&str, u64)]) -> Decoder {
    let mesh = Mesh::new(mesh);
    let batch = mesh.num_ranks() * 2;
    Decoder {
        mesh,
        batch,
        num_layers: 2,
        vocab: 11,
        hidden: 10,
        dim: 12,
        compute: DType::Bf16,
        ..Decoder::default()
    }
}

fn check(mesh: &[(&str, u64)], num_microbatches: u64) {
    let decoder = decoder(mesh);
    let late: [&dyn Pass; 4] =
        [&Remat::default(), &BucketCollectives::default(), &Prefetch::default(), &Fuse::default()];
    for (local, tolerance) in [(&late[..0], OPS), (&late[..3], OPS), (&late, KERNELS)] {
        let (global, sharded) = both(&decoder, num_microbatches, local);
        if let Err(difference) = spmd::compare_within(&global, &sharded, decoder.vocab, tolerance) {
            panic!("{mesh:?}, {num_microbatches} microbatches, {} passes: {difference}", local.len());
        }
    }
}

#[test]
fn fsdp() {
    check(&[("dp_replicate", 1), ("dp_shard", 1)], 1);
    check(&[("dp_replicate", 1), ("dp_shard", 2)], 1);
    check(&[("dp_shard", 4)], 1);
}

#[test]
fn more_ranks_than_rows() {
    check(&[("dp_shard", 13)], 1);
}

#[test]
fn ddp() {
    check(&[("dp_replicate", 2), ("dp_shard", 1)], 1);
}

#[test]
fn hsdp() {
    check(&[("dp_replicate", 2), ("dp_shard", 2)], 1);
    check(&[("dp_replicate", 2), ("dp_shard", 3)], 1);
}

#[test]
fn accumulation() {
    check(&[("dp_replicate", 2), ("dp_shard", 2)], 3);
}

#[test]
fn a_missing_reduction_is_found() {
    let decoder = decoder(&[("dp_shard", 2)]);
    for is_reduction in
        [|op: &Op| matches!(op, Op::AllReduce(_)), |op: &Op| matches!(op, Op::ReduceScatter(_))]
    {
        let (global, mut sharded) = both(&decoder, 1, &[]);
        let nodes = &mut sharded.funcs[0].nodes;
        let node = nodes.iter_mut().find(|n| is_reduction(&n.op)).expect("there are reductions");
        match &mut node.op {
            Op::AllReduce(op) => op.reduce = ReduceKind::Max,
            Op::ReduceScatter(op) => op.reduce = ReduceKind::Max,
            _ => {}
        }
        assert!(spmd::compare_within(&global, &sharded, decoder.vocab, KERNELS).is_err());
    }
}

/// Collectives in program order: what they do, the number of tensors, the module path.
fn collectives(module: &Module) -> Vec<String> {
    let show = |func: &Func, node: &Node| {
        let kind = match &node.op {
            Op::AllGather(_) => "gather",
            Op::ReduceScatter(_) => "scatter",
            Op::AllReduce(_) => "reduce",
            _ => return None,
        };
        Some(format!("{kind} {} {}", node.ins.len(), func.path(node.loc)))
    };
    module.funcs.iter().flat_map(|f| f.nodes.iter().filter_map(move |n| show(f, n))).collect()
}

fn check_collectives(mesh: &[(&str, u64)], passes: &[&dyn Pass], expected: &[&str]) {
    let (_, sharded) = both(&decoder(mesh), 1, passes);
    assert_eq!(collectives(&sharded), expected);
}

/// Gathers right before a block, scatters right after its gradients, one reduction of scalars.
#[test]
fn one_collective_per_block() {
    let bucket = BucketCollectives::default();
    let expected = [
        "gather 1 tok_embeddings",
        "gather 9 layers.0",
        "gather 9 layers.1",
        "gather 2 output",
        "scatter 2 output.weight",
        "gather 9 layers.1",
        "scatter 9 layers.1",
        "gather 9 layers.0",
        "scatter 9 layers.0",
        "scatter 1 tok_embeddings.weight",
        "reduce 3 optimizer",
    ];
    check_collectives(&[("dp_shard", 2)], &[&Remat::default(), &bucket], &expected);
}

#[test]
fn replicas_reduce_what_shards_have_scattered() {
    let bucket = BucketCollectives::default();
    let no_remat = Remat { reshard_after_forward: ReshardAfterForward::Never, ..Remat::default() };
    let expected = [
        "gather 1 tok_embeddings",
        "gather 9 layers.0",
        "gather 9 layers.1",
        "gather 2 output",
        "scatter 2 output.weight",
        // With loss and token count, which have waited since forward.
        "reduce 4 output.weight",
        "scatter 9 layers.1",
        "reduce 9 layers.1",
        "scatter 9 layers.0",
        "reduce 9 layers.0",
        "scatter 1 tok_embeddings.weight",
        "reduce 1 tok_embeddings.weight",
        // Loss and token count across shards, and the squared norm, which replicas share.
        "reduce 3 optimizer",
    ];
    check_collectives(&[("dp_replicate", 2), ("dp_shard", 2)], &[&no_remat, &bucket], &expected);
}

#[test]
fn weights_of_the_next_block_are_gathered_ahead() {
    let passes: [&dyn Pass; 3] = [&Remat::default(), &BucketCollectives::default(), &Prefetch::default()];
    let expected = [
        "gather 1 tok_embeddings",
        "gather 9 layers.0",
        "gather 9 layers.1",
        "gather 2 output",
        "gather 9 layers.1",
        "scatter 2 output.weight",
        "gather 9 layers.0",
        "scatter 9 layers.1",
        "scatter 9 layers.0",
        "scatter 1 tok_embeddings.weight",
        "reduce 3 optimizer",
    ];
    check_collectives(&[("dp_shard", 2)], &passes, &expected);
}

#[test]
fn one_rank_needs_no_collective() {
    check_collectives(&[("dp_replicate", 1), ("dp_shard", 1)], &[&BucketCollectives::default()], &[]);
}
