//! Which forward values the backward pass may read.

use super::{Checkpointing, Remat, ReshardAfterForward};
use std::collections::BTreeSet;
use titan_ir::{Dims, Func, Lowering, Node, Op, Phase, Role, TensorType, ValueId};

/// For every value whether later phases may read it. True for all but forward values.
pub(super) fn kept_values(func: &Func, options: &Remat) -> Vec<bool> {
    let blocks = Blocks::of(func);
    let weights = weight_values(func);
    let read = read_later(func);
    let mut kept = vec![true; func.num_values()];
    let recomputed = weights_like(func, &options.recompute_like);
    let mut num_products = vec![0_u64; blocks.num_blocks];
    for (index, node) in forward_nodes(func) {
        let block = blocks.of_node(node);
        let is_product = matches!(node.op, Op::Einsum(_));
        let counts = is_product && !recomputed.contains(weight_dims(func, node));
        if let (true, Some(block)) = (counts, block) {
            num_products[block] += 1;
        }
        for &out in &node.outs {
            kept[out.index()] = match block {
                _ if weights[out.index()] => keeps_weight(options.reshard_after_forward, &blocks, index),
                None => true,
                Some(block) if blocks.leaves[out.index()] || !is_wrapped(options.checkpointing, block) => {
                    true
                }
                Some(block) => {
                    options.checkpointing == Checkpointing::PerOp
                        && (counts || !is_product)
                        && is_saved_op(node, num_products[block])
                }
            };
        }
    }
    if options.cheap {
        drop_cheap(func, &weights, &read, blocks.last_node, &mut kept);
    }
    kept
}

/// Dimensions of a product's second operand, the weight.
fn weight_dims<'a>(func: &'a Func, node: &Node) -> &'a Dims {
    &func.ty(node.ins[1]).dims
}

/// Dimensions of the weights of products in modules whose path contains one of `parts`.
fn weights_like(func: &Func, parts: &[String]) -> BTreeSet<Dims> {
    let is_listed = |node: &Node| parts.iter().any(|part| func.path(node.loc).contains(part.as_str()));
    let products = forward_nodes(func).filter(|(_, n)| matches!(n.op, Op::Einsum(_)) && is_listed(n));
    products.map(|(_, node)| weight_dims(func, node).clone()).collect()
}

/// Forward nodes with their index.
fn forward_nodes(func: &Func) -> impl Iterator<Item = (usize, &Node)> {
    func.nodes.iter().enumerate().filter(|(_, n)| n.phase == Phase::Forward)
}

/// Whether a block is recomputed from its input, or by op.
fn is_wrapped(checkpointing: Checkpointing, block: usize) -> bool {
    match checkpointing {
        Checkpointing::None => false,
        Checkpointing::Full | Checkpointing::PerOp => true,
        Checkpointing::EveryNth(n) => n == 0 || (block as u64 + 1).is_multiple_of(n),
    }
}

/// Whether a value stays under the policy by op: products cost most to recompute, and torchtitan's list keeps every second one.
fn is_saved_op(node: &Node, num_products: u64) -> bool {
    match node.op {
        Op::Einsum(_) => num_products % 2 == 1,
        Op::Attention(_) | Op::ReduceScatter(_) => true,
        _ => false,
    }
}

/// Whether a value computed from weights alone stays, in particular a gathered weight.
fn keeps_weight(policy: ReshardAfterForward, blocks: &Blocks, node: usize) -> bool {
    match policy {
        ReshardAfterForward::Never => true,
        ReshardAfterForward::Always => false,
        ReshardAfterForward::Default => blocks.last_node.is_none_or(|last| node > last),
    }
}

/// Values computed from weights alone.
fn weight_values(func: &Func) -> Vec<bool> {
    let mut weights = vec![false; func.num_values()];
    for param in func.params.iter().filter(|p| p.role == Role::Param) {
        weights[param.value.index()] = true;
    }
    for (_, node) in forward_nodes(func) {
        if !node.ins.is_empty() && node.ins.iter().all(|v| weights[v.index()]) {
            for out in &node.outs {
                weights[out.index()] = true;
            }
        }
    }
    weights
}

/// Values that nodes after forward read.
fn read_later(func: &Func) -> Vec<bool> {
    let mut read = vec![false; func.num_values()];
    for node in func.nodes.iter().filter(|n| n.phase != Phase::Forward) {
        for operand in &node.ins {
            read[operand.index()] = true;
        }
    }
    read
}

/// Drops values that a pass over memory makes again from parameters and values that are read later anyway: keeping them
/// would cost memory and save no traffic to speak of. Backward starts with what follows the last block: that stays.
fn drop_cheap(func: &Func, weights: &[bool], read: &[bool], last_node: Option<usize>, kept: &mut [bool]) {
    let mut available = read.to_vec();
    for param in &func.params {
        available[param.value.index()] = true;
    }
    for (_, node) in forward_nodes(func).take_while(|&(index, _)| last_node.is_some_and(|last| index <= last))
    {
        let is_new = |v: &ValueId| kept[v.index()] && !weights[v.index()];
        if !node.outs.iter().all(is_new)
            || !node.ins.iter().all(|v| available[v.index()])
            || !is_cheap(func, node)
        {
            continue;
        }
        let read_bytes: u64 = node.ins.iter().map(|&v| func.ty(v).size_bytes()).sum();
        for &out in &node.outs {
            // A small result of large operands, such as the statistics of rows, is worth its place.
            if 4 * func.ty(out).size_bytes() >= read_bytes {
                kept[out.index()] = false;
                available[out.index()] = true;
            }
        }
    }
}

/// Whether the node runs at the speed of memory on this rank alone.
fn is_cheap(func: &Func, node: &Node) -> bool {
    let ins: Vec<&TensorType> = node.ins.iter().map(|&v| func.ty(v)).collect();
    let outs: Vec<&TensorType> = node.outs.iter().map(|&v| func.ty(v)).collect();
    matches!(node.op.rules().lower(&ins, &outs), Lowering::Fragment(_) | Lowering::View)
}

/// The repeated blocks of a model, by the numbers in module paths.
struct Blocks {
    /// One more than the largest block number.
    num_blocks: usize,
    /// The block of every path of the function.
    of_loc: Vec<Option<usize>>,
    /// The last forward node in a block.
    last_node: Option<usize>,
    /// Values another block, or what follows the blocks, reads in forward.
    leaves: Vec<bool>,
}

impl Blocks {
    fn of(func: &Func) -> Self {
        let of_loc: Vec<Option<usize>> = func.locs.iter().map(|path| block_of_path(path)).collect();
        let mut def_block = vec![None; func.num_values()];
        let mut leaves = vec![false; func.num_values()];
        let mut last_node = None;
        for (index, node) in forward_nodes(func) {
            let block = of_loc[node.loc.index()];
            if block.is_some() {
                last_node = Some(index);
            }
            for operand in &node.ins {
                leaves[operand.index()] |= def_block[operand.index()].is_some_and(|b| Some(b) != block);
            }
            for out in &node.outs {
                def_block[out.index()] = block;
            }
        }
        for result in &func.results {
            leaves[result.value.index()] = true;
        }
        let num_blocks = of_loc.iter().flatten().max().map_or(0, |b| b + 1);
        Self { num_blocks, of_loc, last_node, leaves }
    }

    fn of_node(&self, node: &Node) -> Option<usize> {
        self.of_loc[node.loc.index()]
    }
}

/// `Some(3)` for `layers.3.attention.wq`.
fn block_of_path(path: &str) -> Option<usize> {
    let mut parts = path.split('.').skip_while(|&part| part != "layers");
    parts.nth(1)?.parse().ok()
}
