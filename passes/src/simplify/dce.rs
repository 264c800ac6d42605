//! `dce`: removes nodes nothing reads.

use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use titan_ir::{DiagResult, Func, Module, Stage};

/// The pass.
#[derive(Debug, Clone, Default)]
pub struct Dce;

impl Pass for Dce {
    fn name(&self) -> &'static str {
        "dce"
    }

    fn summary(&self) -> &'static str {
        "remove nodes nothing reads"
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
            changed |= remove_dead(func);
        }
        Ok(changed.into())
    }
}

/// Removes nodes no result depends on; whether there were any.
pub fn remove_dead(func: &mut Func) -> bool {
    let mut live = vec![false; func.num_values()];
    for result in &func.results {
        live[result.value.index()] = true;
    }
    for node in func.nodes.iter().rev() {
        if node.outs.iter().any(|v| live[v.index()]) {
            for operand in &node.ins {
                live[operand.index()] = true;
            }
        }
    }
    let before = func.nodes.len();
    func.nodes.retain(|node| node.outs.iter().any(|v| live[v.index()]));
    func.nodes.len() != before
}
