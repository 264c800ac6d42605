//! `remat`: decides which forward values live until the backward pass, and recomputes the others there.
//!
//! One mechanism serves activation checkpointing and FSDP's reshard-after-forward. `policy` names the forward values the backward pass
//! may read. Where it reads another, the nodes that lead from values it may read to that one are cloned right before
//! the first use, once per value: a gathered weight is gathered again, an activation is computed again.
//!
//! Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.

mod policy;

use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use std::str::FromStr;
use titan_ir::{DiagResult, Func, Module, Node, Phase, Stage, ValueId, Values, ice};

/// Activation checkpointing, as torchtitan names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpointing {
    /// Everything the backward pass needs is kept.
    None,
    /// Every block is recomputed from its input.
    Full,
    /// Blocks whose 1-based number is a multiple are recomputed from their input.
    EveryNth(u64),
    /// In every block, every second matrix product, attention and reductions over ranks are kept.
    PerOp,
}

impl FromStr for Checkpointing {
    type Err = ();

    /// `none`, `full`, `op` or a number.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "none" => Ok(Self::None),
            "full" => Ok(Self::Full),
            "op" => Ok(Self::PerOp),
            number => number.parse().map(Self::EveryNth).map_err(|_| ()),
        }
    }
}

/// Whether gathered weights are dropped after forward and gathered again for backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReshardAfterForward {
    /// All but those used after the last block: backward starts with them.
    Default,
    /// All.
    Always,
    /// None.
    Never,
}

impl FromStr for ReshardAfterForward {
    type Err = ();

    /// `default`, `always` or `never`.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "default" => Ok(Self::Default),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err(()),
        }
    }
}

/// The pass.
#[derive(Debug, Clone)]
pub struct Remat {
    /// Activation checkpointing.
    pub checkpointing: Checkpointing,
    /// With [`Checkpointing::PerOp`], parts of module paths: products with a weight of the same dimensions as a weight of these modules are
    /// always recomputed, and not counted.
    pub recompute_like: Vec<String>,
    /// What happens to gathered weights.
    pub reshard_after_forward: ReshardAfterForward,
    /// Also recompute what costs no more memory traffic than reading it back would, from values the backward pass reads anyway.
    pub cheap: bool,
}

impl Default for Remat {
    fn default() -> Self {
        Self {
            checkpointing: Checkpointing::None,
            recompute_like: Vec::new(),
            reshard_after_forward: ReshardAfterForward::Default,
            cheap: true,
        }
    }
}

impl Pass for Remat {
    fn name(&self) -> &'static str {
        "remat"
    }

    fn summary(&self) -> &'static str {
        "recompute activations and gather weights again in the backward pass"
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
            let kept = policy::kept_values(func, self);
            changed |= recompute(func, &kept);
        }
        Ok(changed.into())
    }
}

/// Clones what later phases read and may not keep; whether there was any.
fn recompute(func: &mut Func, kept: &[bool]) -> bool {
    let defs = func.defs();
    let forward = std::mem::take(&mut func.nodes);
    let num_before = forward.len();
    let mut cloner = Cloner { clones: vec![None; kept.len()], nodes: Vec::with_capacity(num_before), kept };
    for node in &forward {
        let ins = if node.phase == Phase::Forward {
            node.ins.clone()
        } else {
            node.ins.iter().map(|&v| cloner.available(v, func, &forward, &defs)).collect()
        };
        cloner.nodes.push(Node { ins, ..node.clone() });
    }
    func.nodes = cloner.nodes;
    func.nodes.len() != num_before
}

/// Clones forward nodes into later phases.
struct Cloner<'a> {
    kept: &'a [bool],
    /// The clone of a value.
    clones: Vec<Option<ValueId>>,
    /// The new program.
    nodes: Vec<Node>,
}

impl Cloner<'_> {
    /// The value itself if it may be read, otherwise its clone.
    fn available(
        &mut self,
        value: ValueId,
        func: &mut Func,
        nodes: &[Node],
        defs: &[Option<u32>],
    ) -> ValueId {
        if self.kept[value.index()] {
            return value;
        }
        if let Some(clone) = self.clones[value.index()] {
            return clone;
        }
        let Some(def) = defs[value.index()] else { ice!("{value:?} is not kept and has no definition") };
        let node = &nodes[def as usize];
        let ins: Values = node.ins.iter().map(|&v| self.available(v, func, nodes, defs)).collect();
        let outs: Values = node.outs.iter().map(|&v| func.new_value(func.ty(v).clone())).collect();
        for (out, &clone) in node.outs.iter().zip(&outs) {
            self.clones[out.index()] = Some(clone);
        }
        self.nodes.push(Node { ins, outs, phase: Phase::Backward, ..node.clone() });
        self.clones[value.index()].expect("just cloned")
    }
}
