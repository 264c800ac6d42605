//! `simplify`: algebra on cheap ops by equality saturation, then common subexpressions and dead code.
//!
//! Elementwise ops, shape changes and constants become terms of an e-graph; results of all other ops are its leaves. The rules of
//! `rules` are directed towards less work, so saturation ends after a few rounds. The cheapest term of each class, by
//! the cost rule of the op table, is put back where its first node was.

mod cse;
mod dce;
mod rebuild;
mod rules;
mod term;

pub use cse::Cse;
pub use dce::{Dce, remove_dead};

use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use egg::{EGraph, Id, Runner, SimpleScheduler};
use std::time::Duration;
use term::{Context, Term};
use titan_ir::{DiagResult, Func, Module, Stage};

/// Rounds of saturation: each shortens a chain of ops by at least one, and chains are short.
const MAX_ROUNDS: usize = 12;

/// E-nodes per function at which saturation stops: far above what directed rules make.
const MAX_TERMS: usize = 4_000_000;

/// The pass.
#[derive(Debug, Clone, Default)]
pub struct Simplify {
    /// Also use the rules that change rounding.
    pub reassociate: bool,
}

impl Pass for Simplify {
    fn name(&self) -> &'static str {
        "simplify"
    }

    fn summary(&self) -> &'static str {
        "algebraic identities on cheap ops (e-graph), common subexpressions, dead code"
    }

    fn numerics(&self) -> NumericsClass {
        if self.reassociate { NumericsClass::Reassociating } else { NumericsClass::Exact }
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Graph]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        let mut rules = rules::exact();
        if self.reassociate {
            rules.extend(rules::reassociating());
        }
        let mut changed = false;
        for func in &mut module.funcs {
            changed |= dce::remove_dead(func);
            changed |= saturate(func, &rules)?;
            changed |= cse::merge_equal(func);
            changed |= dce::remove_dead(func);
        }
        Ok(changed.into())
    }
}

/// Rewrites the cheap ops of a function.
fn saturate(func: &mut Func, rules: &[egg::Rewrite<Term, Context>]) -> DiagResult<bool> {
    let mut egraph = EGraph::new(Context::new(std::mem::take(&mut func.types)));
    let mut classes: Vec<Option<Id>> = vec![None; egraph.analysis.types.len()];
    for param in &func.params {
        classes[param.value.index()] = Some(egraph.add(Term::leaf(param.value)));
    }
    for node in &func.nodes {
        let operands: Vec<Id> =
            node.ins.iter().map(|v| classes[v.index()].expect("defined before use")).collect();
        match Term::of(&node.op, &operands, &mut egraph) {
            Some(term) => classes[node.outs[0].index()] = Some(egraph.add(term)),
            None => {
                for &out in &node.outs {
                    classes[out.index()] = Some(egraph.add(Term::leaf(out)));
                }
            }
        }
    }
    // No limit in time: it would make the result depend on the machine.
    let runner = Runner::<Term, Context, ()>::new(Context::default())
        .with_egraph(egraph)
        .with_scheduler(SimpleScheduler)
        .with_iter_limit(MAX_ROUNDS)
        .with_node_limit(MAX_TERMS)
        .with_time_limit(Duration::MAX)
        .run(rules);
    let mut egraph = runner.egraph;
    func.types = std::mem::take(&mut egraph.analysis.types);
    rebuild::rebuild(func, &egraph, &classes)
}
