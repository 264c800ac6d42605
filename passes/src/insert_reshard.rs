//! Makes every change of layout explicit: where an operand is not where its op needs it, a `reshard` stands between.
//!
//! A value that every rank could compute in part is not computed whole and then cut: when a reshard would only slice a
//! value that comes from nothing (`full`, `broadcast` and what is made of them), its producers are repeated with the sharded layout.
//! Otherwise each rank would hold cotangents of the global batch.

use crate::layout_choice::{choose, shard_factor};
use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use crate::propagate::is_annotated;
use crate::simplify::remove_dead;
use std::collections::BTreeMap;
use titan_ir::id::LocId;
use titan_ir::ops::Reshard;
use titan_ir::{
    AxisId, Diag, DiagResult, Func, Layout, Mesh, Module, Node, Op, Phase, Placement, ResultKind, Stage,
    TensorType, ValueId,
};

/// The pass.
#[derive(Debug, Clone, Default)]
pub struct InsertReshard;

impl Pass for InsertReshard {
    fn name(&self) -> &'static str {
        "insert-reshard"
    }

    fn summary(&self) -> &'static str {
        "insert a reshard wherever an operand's layout is not the one its op needs"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Graph]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        let Module { mesh, funcs, stage } = module;
        for func in funcs {
            if !is_annotated(mesh, func) {
                return Err(Diag::new(
                    "T0216",
                    "the values do not have the layouts that propagate gives them",
                )
                .help("run propagate first"));
            }
            Inserter::new(mesh, func).run()?;
            // What was repeated in part may be read nowhere else.
            remove_dead(func);
        }
        *stage = Stage::Sharded;
        Ok(Changed::Yes)
    }
}

struct Inserter<'a> {
    mesh: &'a Mesh,
    func: &'a mut Func,
    /// Nodes emitted so far.
    nodes: Vec<Node>,
    /// For every value the emitted node that defines it.
    defs: Vec<Option<usize>>,
    /// What was made for (value, layout).
    made: BTreeMap<(ValueId, Layout), ValueId>,
}

impl<'a> Inserter<'a> {
    fn new(mesh: &'a Mesh, func: &'a mut Func) -> Self {
        let defs = vec![None; func.num_values()];
        Self { mesh, func, nodes: Vec::new(), defs, made: BTreeMap::new() }
    }

    fn run(mut self) -> DiagResult<()> {
        for mut node in std::mem::take(&mut self.func.nodes) {
            if !matches!(node.op, Op::Reshard(_)) {
                let needed = self.needed(&node);
                for (i, layout) in needed.into_iter().enumerate() {
                    node.ins[i] = self.bring(node.ins[i], layout, node.loc, node.phase)?;
                }
            }
            self.push(node);
        }
        for i in 0..self.func.results.len() {
            let result = &self.func.results[i];
            let (value, layout) = match result.kind {
                ResultKind::Update(param) => (result.value, self.func.params[param].layout.clone()),
                ResultKind::Output(_) => (result.value, Layout::replicate()),
            };
            let (loc, phase) = self.place_of(value);
            self.func.results[i].value = self.bring(value, layout, loc, phase)?;
        }
        self.func.nodes = self.nodes;
        Ok(())
    }

    fn push(&mut self, node: Node) {
        self.defs.resize(self.func.num_values(), None);
        for out in &node.outs {
            self.defs[out.index()] = Some(self.nodes.len());
        }
        self.nodes.push(node);
    }

    /// Module path and phase of a value's definition.
    fn place_of(&self, value: ValueId) -> (LocId, Phase) {
        let def = self.defs[value.index()].map(|at| &self.nodes[at]);
        def.map_or((LocId(0), Phase::Update), |node| (node.loc, node.phase))
    }

    fn needed(&self, node: &Node) -> Vec<Layout> {
        let ins: Vec<&TensorType> = node.ins.iter().map(|&v| self.func.ty(v)).collect();
        let outs: Vec<&TensorType> = node.outs.iter().map(|&v| self.func.ty(v)).collect();
        choose(self.mesh, &node.op.rules().shard(&ins), &ins, &outs).ins
    }

    /// The value in another layout.
    fn bring(&mut self, value: ValueId, layout: Layout, loc: LocId, phase: Phase) -> DiagResult<ValueId> {
        if self.func.ty(value).layout == layout {
            return Ok(value);
        }
        let key = (value, layout);
        if let Some(&made) = self.made.get(&key) {
            return Ok(made);
        }
        if let Some(part) = self.compute_part(value, &key.1) {
            return Ok(part);
        }
        (self.func.loc, self.func.phase) = (loc, phase);
        let node = self.func.make(Reshard::new(key.1.clone()), &[value])?;
        let made = node.outs[0];
        self.func.types[made.index()].layout = key.1.clone();
        self.push(node);
        self.made.insert(key, made);
        Ok(made)
    }

    /// The value computed with a layout that only shards more, if it is made from nothing but parts every rank has.
    fn compute_part(&mut self, value: ValueId, layout: &Layout) -> Option<ValueId> {
        let key = (value, layout.clone());
        if let Some(&made) = self.made.get(&key) {
            return Some(made);
        }
        let node = self.nodes[self.defs[value.index()]?].clone();
        if matches!(node.op, Op::Reshard(_)) {
            return None;
        }
        let (in_layouts, out_layouts) = self.layouts_of_part(&node, value, layout)?;
        let mut ins = node.ins.clone();
        for (operand, layout) in ins.iter_mut().zip(in_layouts) {
            if self.func.ty(*operand).layout != layout {
                *operand = self.compute_part(*operand, &layout)?;
            }
        }
        let mut outs = node.outs.clone();
        for (out, layout) in outs.iter_mut().zip(out_layouts) {
            let ty = self.func.ty(*out).with_layout(layout.clone());
            let whole = std::mem::replace(out, self.func.new_value(ty));
            self.made.insert((whole, layout), *out);
        }
        self.push(Node { ins, outs, ..node });
        self.made.get(&key).copied()
    }

    /// Layouts of operands and results of `node` when its result `value` gets `layout`, which must only add shards.
    fn layouts_of_part(
        &self,
        node: &Node,
        value: ValueId,
        layout: &Layout,
    ) -> Option<(Vec<Layout>, Vec<Layout>)> {
        let ins: Vec<&TensorType> = node.ins.iter().map(|&v| self.func.ty(v)).collect();
        let outs: Vec<&TensorType> = node.outs.iter().map(|&v| self.func.ty(v)).collect();
        let rule = node.op.rules().shard(&ins);
        let at = node.outs.iter().position(|&out| out == value)?;
        let mut in_layouts: Vec<Layout> = ins.iter().map(|t| t.layout.clone()).collect();
        let mut out_layouts: Vec<Layout> = outs.iter().map(|t| t.layout.clone()).collect();
        for axis in (0..self.mesh.axes.len()).map(AxisId::new) {
            let dim = match (outs[at].layout.get(axis), layout.get(axis)) {
                (now, wanted) if now == wanted => continue,
                (None, Some(Placement::Shard(dim))) => usize::from(dim),
                _ => return None,
            };
            let factor = *rule.outs[at][dim].first()?;
            let num_other_parts =
                layout.axes_of_dim(dim).filter(|&a| a != axis).map(|a| self.mesh.size(a)).product();
            let (on_ins, on_outs) =
                shard_factor(&rule, factor, self.mesh.size(axis), num_other_parts, &ins, &outs)?;
            for (layout, placement) in in_layouts.iter_mut().zip(on_ins) {
                if layout.get(axis).is_some() && placement.is_none() {
                    return None;
                }
                layout.set(axis, placement);
            }
            for (layout, placement) in out_layouts.iter_mut().zip(on_outs) {
                layout.set(axis, placement);
            }
        }
        Some((in_layouts, out_layouts))
    }
}
