//! What passes that order communication need to know of a node.

use titan_ir::kernel::CollectiveKind;
use titan_ir::{AxisId, Func, Node, Op};

/// The collective an op is, and its axis.
pub fn collective(op: &Op) -> Option<(CollectiveKind, AxisId)> {
    match op {
        Op::AllGather(op) => Some((CollectiveKind::AllGather, op.axis)),
        Op::ReduceScatter(op) => Some((CollectiveKind::ReduceScatter(op.reduce), op.axis)),
        Op::AllReduce(op) => Some((CollectiveKind::AllReduce(op.reduce), op.axis)),
        _ => None,
    }
}

/// Whether an op communicates: such nodes run on the communication stream.
pub fn is_comm(op: &Op) -> bool {
    collective(op).is_some()
}

/// The repeated block a module path is in: the path up to its first number, `layers.3` for `layers.3.attention.wq`.
pub fn block_of(path: &str) -> Option<&str> {
    let mut end = 0;
    for segment in path.split('.') {
        end += segment.len();
        if !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit()) {
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}

/// For every node whether it is computed from parameters alone by a chain of cheap unary ops, so that it may be done at any time.
///
/// A gather of such a value is a weight's.
pub(crate) fn from_params(func: &Func) -> Vec<bool> {
    let defs = func.defs();
    let mut anytime = vec![false; func.nodes.len()];
    for (i, node) in func.nodes.iter().enumerate() {
        let ready = || node.ins.iter().all(|v| defs[v.index()].is_none_or(|def| anytime[def as usize]));
        anytime[i] = (is_carried(node) || matches!(node.op, Op::AllGather(_) | Op::RankSlice(_))) && ready();
    }
    anytime
}

/// Whether a node only brings one value into the form a collective wants.
pub(crate) fn is_carried(node: &Node) -> bool {
    matches!(node.op, Op::Cast(_) | Op::Pad(_) | Op::TakeRows(_) | Op::Reshape(_))
}
