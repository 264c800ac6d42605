//! One collective per transformer block instead of one per weight, placed where it costs least.
//!
//! * The gathers of a block's weights become one `all_gather`, right before the first use of any of them.
//! * The reductions of a block's gradients become one `reduce_scatter` (or `all_reduce`), as soon as the last of them is known, wherever
//!   the optimizer wrote them; what only prepares them (casts, padding) moves along.
//!
//! A block is what shares a module path up to the first number; collectives outside blocks join their neighbours. Forward and
//! backward gathers (recomputed ones) stay apart. Memory grows by one block's weights and gradients at most. Merging never makes
//! a cycle: a bucket that would is taken apart again.

mod order;

use crate::collectives::{block_of, collective, from_params, is_carried};
use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use order::{Item, order};
use titan_ir::kernel::CollectiveKind;
use titan_ir::{AxisId, DType, DiagResult, Func, LocId, Module, Node, Phase, Stage, ValueId};

/// The pass.
#[derive(Debug, Clone)]
pub struct BucketCollectives {
    /// Merge the collectives of a block; otherwise each is only placed.
    pub by_block: bool,
    /// Most bytes of the larger side of one bucket; a tensor that is larger has a bucket of its own.
    pub max_bytes: u64,
}

impl Default for BucketCollectives {
    fn default() -> Self {
        Self { by_block: true, max_bytes: u64::MAX }
    }
}

impl Pass for BucketCollectives {
    fn name(&self) -> &'static str {
        "bucket-collectives"
    }

    fn summary(&self) -> &'static str {
        "merge the collectives of a block and place them where they cost least"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Local]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        for func in &mut module.funcs {
            let mut buckets = self.buckets(func);
            let order = loop {
                match order(func, &buckets) {
                    Ok(order) => break order,
                    Err(bucket) => split(&mut buckets, bucket),
                }
            };
            rebuild(func, &buckets, order);
        }
        Ok(Changed::Yes)
    }
}

/// What the members of a bucket have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    kind: CollectiveKind,
    axis: AxisId,
    dtype: DType,
    phase: Phase,
    block: Option<String>,
}

/// Nodes merged into one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bucket {
    key: Key,
    /// In the order of the merged operands.
    members: Vec<usize>,
    bytes: u64,
}

impl BucketCollectives {
    /// All collectives that may move, grouped.
    fn buckets(&self, func: &Func) -> Vec<Bucket> {
        let anytime = from_params(func);
        let ready = ready_positions(func);
        let is_movable = |&i: &usize| match collective(&func.nodes[i].op) {
            Some((CollectiveKind::AllGather, _)) => anytime[i],
            kind => kind.is_some(),
        };
        let mut nodes: Vec<usize> = (0..func.nodes.len()).filter(is_movable).collect();
        nodes.sort_by_key(|&i| if anytime[i] { i } else { ready[i] });
        let mut buckets: Vec<Bucket> = Vec::new();
        // The bucket that still grows, per kind, axis and element type: a handful.
        let mut open: Vec<usize> = Vec::new();
        for i in nodes {
            let key = key(func, i);
            let bytes = bytes(func, &func.nodes[i]);
            let slot = open.iter().position(|&b| {
                let k = &buckets[b].key;
                (k.kind, k.axis, k.dtype) == (key.kind, key.axis, key.dtype)
            });
            if let Some(slot) = slot {
                let bucket = &mut buckets[open[slot]];
                if self.by_block && bucket.key == key && bucket.bytes + bytes <= self.max_bytes {
                    bucket.members.push(i);
                    bucket.bytes += bytes;
                    continue;
                }
                open.remove(slot);
            }
            open.push(buckets.len());
            buckets.push(Bucket { key, members: vec![i], bytes });
        }
        buckets
    }
}

fn key(func: &Func, i: usize) -> Key {
    let node = &func.nodes[i];
    let (kind, axis) = collective(&node.op).expect("only collectives are bucketed");
    let block = block_of(func.path(node.loc)).map(str::to_owned);
    Key { kind, axis, dtype: func.ty(node.ins[0]).dtype, phase: node.phase, block }
}

fn bytes(func: &Func, node: &Node) -> u64 {
    let of = |values: &[ValueId]| values.iter().map(|&v| func.ty(v).size_bytes()).sum::<u64>();
    of(&node.ins).max(of(&node.outs))
}

/// For every node the position of the last node it waits for, where what only prepares a collective, and collectives, take no time.
fn ready_positions(func: &Func) -> Vec<usize> {
    let defs = func.defs();
    let mut ready = vec![0; func.nodes.len()];
    for (i, node) in func.nodes.iter().enumerate() {
        let moves = is_carried(node) || collective(&node.op).is_some();
        let operands =
            || node.ins.iter().filter_map(|v| defs[v.index()]).map(|def| ready[def as usize]).max();
        ready[i] = if moves { operands().unwrap_or(0) } else { i };
    }
    ready
}

fn split(buckets: &mut Vec<Bucket>, at: usize) {
    let bucket = buckets.remove(at);
    for (k, &member) in bucket.members.iter().enumerate() {
        buckets.insert(at + k, Bucket { members: vec![member], ..bucket.clone() });
    }
}

fn rebuild(func: &mut Func, buckets: &[Bucket], order: Vec<Item>) {
    let locs: Vec<LocId> = buckets.iter().map(|bucket| loc(func, bucket)).collect();
    let mut old: Vec<Option<Node>> = std::mem::take(&mut func.nodes).into_iter().map(Some).collect();
    let mut take = |i: usize| old[i].take().expect("each node is emitted once");
    for item in order {
        let node = match item {
            Item::Node(i) => take(i),
            Item::Bucket(b) => {
                let mut members = buckets[b].members.iter().map(|&member| take(member));
                let mut merged = members.next().expect("a bucket has members");
                for node in members {
                    merged.ins.extend(node.ins);
                    merged.outs.extend(node.outs);
                }
                Node { loc: locs[b], ..merged }
            }
        };
        func.nodes.push(node);
    }
}

/// The path of a bucket: the block's, or outside blocks that of the largest tensor.
fn loc(func: &mut Func, bucket: &Bucket) -> LocId {
    let node = |i: usize| &func.nodes[i];
    match &bucket.key.block {
        Some(block) if bucket.members.len() > 1 => func.intern(block),
        _ => {
            let largest = bucket.members.iter().rev().max_by_key(|&&i| bytes(func, node(i)));
            node(*largest.expect("a bucket has members")).loc
        }
    }
}
