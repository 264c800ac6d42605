//! `cse`: computes equal nodes once, at the place of the first.

use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use std::collections::BTreeMap;
use titan_ir::{DiagResult, Func, Module, Node, Op, Stage, ValueId, Values};

/// The pass.
#[derive(Debug, Clone, Default)]
pub struct Cse;

impl Pass for Cse {
    fn name(&self) -> &'static str {
        "cse"
    }

    fn summary(&self) -> &'static str {
        "compute equal nodes once"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &Stage::ALL
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        let mut changed = false;
        for func in &mut module.funcs {
            changed |= merge_equal(func);
        }
        Ok(changed.into())
    }
}

/// Replaces every node equal to an earlier one by it; whether there were any.
pub(super) fn merge_equal(func: &mut Func) -> bool {
    let mut replaced: Vec<ValueId> = (0..func.num_values()).map(ValueId::new).collect();
    let mut seen: BTreeMap<(&'static str, Values), Vec<usize>> = BTreeMap::new();
    let mut kept: Vec<Node> = Vec::with_capacity(func.nodes.len());
    let before = func.nodes.len();
    for mut node in std::mem::take(&mut func.nodes) {
        for operand in &mut node.ins {
            *operand = replaced[operand.index()];
        }
        let same = seen.entry((node.op.rules().name(), node.ins.clone())).or_default();
        let types_agree = |a: &Node| a.outs.iter().zip(&node.outs).all(|(&x, &y)| func.ty(x) == func.ty(y));
        match same.iter().map(|&i| &kept[i]).find(|n| same_op(&n.op, &node.op) && types_agree(n)) {
            Some(first) => {
                for (out, &by) in node.outs.iter().zip(&first.outs) {
                    replaced[out.index()] = by;
                }
            }
            None => {
                same.push(kept.len());
                kept.push(node);
            }
        }
    }
    func.nodes = kept;
    for result in &mut func.results {
        result.value = replaced[result.value.index()];
    }
    func.nodes.len() != before
}

/// Whether the ops compute the same. Constants are told apart by their bits: 0 equals -0 and is another number.
fn same_op(a: &Op, b: &Op) -> bool {
    match (a, b) {
        (Op::Full(a), Op::Full(b)) => a.value.to_bits() == b.value.to_bits() && a == b,
        _ => a == b,
    }
}
