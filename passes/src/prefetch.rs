//! Gathers issued one ahead: while a block computes, the weights of the next one arrive.
//!
//! In program order the gather of block `i + 1` moves before the computation of block `i`, right behind the gather of block `i`; in
//! the backward the next block is `i - 1`. With the communication stream of the plan the two then overlap. This costs the memory of
//! `depth` more gathered blocks.

use crate::collectives::from_params;
use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use titan_ir::{DiagResult, Func, Module, Node, Op, Stage};

/// The pass.
#[derive(Debug, Clone)]
pub struct Prefetch {
    /// How many gathers ahead; 0 turns it off.
    pub depth: usize,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self { depth: 1 }
    }
}

impl Pass for Prefetch {
    fn name(&self) -> &'static str {
        "prefetch"
    }

    fn summary(&self) -> &'static str {
        "issue the gather of the next block's weights before a block computes"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Local]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        let mut changed = false;
        for func in &mut module.funcs {
            changed |= self.reorder(func);
        }
        Ok(changed.into())
    }
}

impl Prefetch {
    fn reorder(&self, func: &mut Func) -> bool {
        let anytime = from_params(func);
        let is_gather = |&i: &usize| anytime[i] && matches!(func.nodes[i].op, Op::AllGather(_));
        let gathers: Vec<usize> = (0..func.nodes.len()).filter(is_gather).collect();
        if self.depth == 0 || gathers.len() < 2 {
            return false;
        }
        let defs = func.defs();
        let mut old: Vec<Option<Node>> = std::mem::take(&mut func.nodes).into_iter().map(Some).collect();
        let mut next = 0;
        for i in 0..old.len() {
            emit_with_operands(&mut old, &defs, i, &mut func.nodes);
            if gathers.get(next) == Some(&i) {
                let ahead = gathers[next + 1..].iter().take(self.depth);
                ahead.for_each(|&gather| emit_with_operands(&mut old, &defs, gather, &mut func.nodes));
                next += 1;
            }
        }
        true
    }
}

/// Emits a node after those of its operands that are still to come: for a gather, casts of parameters.
fn emit_with_operands(old: &mut [Option<Node>], defs: &[Option<u32>], i: usize, nodes: &mut Vec<Node>) {
    let Some(node) = old[i].take() else { return };
    for operand in &node.ins {
        if let Some(def) = defs[operand.index()] {
            emit_with_operands(old, defs, def as usize, nodes);
        }
    }
    nodes.push(node);
}
