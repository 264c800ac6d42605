//! From global tensors to what one rank holds: per-rank shapes, and collectives for every `reshard`.
//!
//! A dimension cut in parts that do not divide it follows torch's chunk rule: chunks of `ceil(n / ranks)` rows, and the rows past the
//! end are zeros. A gather drops them (`all_gather`, `take_rows`), a scatter makes them (`pad`, `reduce_scatter`). That they never reach
//! a number is proved op by op in [`crate::padding`].
//!
//! Afterwards no value has a layout. Parameters keep the global dimensions and the layout of their stored state.

use crate::padding::Padding;
use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use crate::reshard_steps::{Step, steps};
use titan_ir::ops::{AllGather, AllReduce, Cast, Pad, RankSlice, ReduceScatter, Reshard, TakeRows};
use titan_ir::{
    DType, Diag, DiagResult, Func, Layout, Mesh, Module, Node, Op, Role, Stage, TensorType, ValueId, ice,
};

/// The pass.
#[derive(Debug, Clone, Default)]
pub struct Localize;

impl Pass for Localize {
    fn name(&self) -> &'static str {
        "localize"
    }

    fn summary(&self) -> &'static str {
        "cut tensors to per-rank shapes and turn reshards into collectives"
    }

    /// Sums over a sharded dimension are taken per rank first.
    fn numerics(&self) -> NumericsClass {
        NumericsClass::Reassociating
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Sharded]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        let Module { mesh, funcs, stage } = module;
        for func in funcs {
            check_inputs(mesh, func)?;
            Padding::prove(mesh, func)?;
            Localizer::new(mesh, func).run()?;
        }
        *stage = Stage::Local;
        Ok(Changed::Yes)
    }
}

/// The host hands every rank the same number of sequences.
fn check_inputs(mesh: &Mesh, func: &Func) -> DiagResult<()> {
    for param in func.params.iter().filter(|p| p.role == Role::Input) {
        let ty = func.ty(param.value);
        for (dim, &n) in ty.dims.iter().enumerate() {
            let parts: u64 = ty.layout.axes_of_dim(dim).map(|a| mesh.size(a)).product();
            if n % parts != 0 {
                let axes: Vec<&str> =
                    ty.layout.axes_of_dim(dim).map(|a| &*mesh.axes[a.index()].name).collect();
                let message = format!(
                    "{n} rows of input `{}` cannot be given to {parts} ranks in equal parts",
                    param.name
                );
                return Err(Diag::new("T0302", message)
                    .note(format!("dimension {dim} is cut along {}", axes.join(", ")))
                    .help(format!(
                        "make the global batch a multiple of {parts}, or use fewer data-parallel ranks"
                    )));
            }
        }
    }
    Ok(())
}

struct Localizer<'a> {
    mesh: &'a Mesh,
    func: &'a mut Func,
    /// Types of all values before the pass.
    global: Vec<TensorType>,
    nodes: Vec<Node>,
    /// What stands for a value: itself, but for reshards that do nothing.
    renamed: Vec<ValueId>,
}

impl<'a> Localizer<'a> {
    fn new(mesh: &'a Mesh, func: &'a mut Func) -> Self {
        let global = func.types.clone();
        for ty in &mut func.types {
            *ty = TensorType::new(ty.dtype, &ty.layout.local_dims(mesh, &ty.dims));
        }
        let renamed = (0..func.num_values()).map(ValueId::new).collect();
        Self { mesh, func, global, nodes: Vec::new(), renamed }
    }

    fn run(mut self) -> DiagResult<()> {
        for param in &mut self.func.params {
            let ty = &self.global[param.value.index()];
            (param.global_dims, param.layout) = (ty.dims.clone(), ty.layout.clone());
        }
        for mut node in std::mem::take(&mut self.func.nodes) {
            let from = node.ins.first().map(|v| self.global[v.index()].layout.clone()).unwrap_or_default();
            for operand in &mut node.ins {
                *operand = self.renamed[operand.index()];
            }
            (self.func.loc, self.func.phase) = (node.loc, node.phase);
            match &node.op {
                Op::Reshard(reshard) => self.lower_reshard(&node, reshard, from)?,
                _ => self.localize_node(node),
            }
        }
        for result in &mut self.func.results {
            result.value = self.renamed[result.value.index()];
        }
        self.func.nodes = self.nodes;
        Ok(())
    }

    fn localize_node(&mut self, mut node: Node) {
        let outs: Vec<TensorType> = node.outs.iter().map(|&v| self.func.ty(v).clone()).collect();
        node.op = node.op.rules().localize(&outs);
        let ins: Vec<&TensorType> = node.ins.iter().map(|&v| self.func.ty(v)).collect();
        match node.op.rules().infer(&ins) {
            Ok(inferred) if inferred[..] == outs[..] => self.nodes.push(node),
            Ok(inferred) => ice!("localize: `{}` gives {inferred:?}, not {outs:?}", node.op.rules().name()),
            Err(diag) => ice!("localize: `{}` on per-rank operands: {diag}", node.op.rules().name()),
        }
    }

    fn lower_reshard(&mut self, node: &Node, reshard: &Reshard, mut layout: Layout) -> DiagResult<()> {
        let to = self.global[node.outs[0].index()].clone();
        let steps =
            steps(self.mesh, &layout, &to.layout).map_err(|diag| diag.at(self.func.path(node.loc)))?;
        let num_rows = to.dims.first().copied().unwrap_or(1);
        let mut value = node.ins[0];
        for step in steps {
            // From the first reduction on values are kept in the element type of reductions.
            if let (Step::ReduceScatter(..) | Step::AllReduce(..), Some(dtype)) = (step, reshard.reduce) {
                value = self.cast(value, dtype)?;
            }
            value = self.lower_step(step, value, &mut layout, num_rows)?;
        }
        let value = self.cast(value, to.dtype)?;
        self.renamed[node.outs[0].index()] = value;
        Ok(())
    }

    fn cast(&mut self, value: ValueId, to: DType) -> DiagResult<ValueId> {
        if self.func.ty(value).dtype == to { Ok(value) } else { self.emit(Cast { to }, value) }
    }

    /// Emits one step. `layout` is that of `value`; `num_rows` is the global dimension 0.
    fn lower_step(
        &mut self,
        step: Step,
        value: ValueId,
        layout: &mut Layout,
        num_rows: u64,
    ) -> DiagResult<ValueId> {
        use titan_ir::Placement::Shard;
        let parts = |layout: &Layout| layout.axes_of_dim(0).map(|a| self.mesh.size(a)).product::<u64>();
        match step {
            Step::Slice(axis) => {
                self.check_even(layout, num_rows)?;
                layout.set(axis, Some(Shard(0)));
                self.emit(RankSlice { axis, ranks: self.mesh.size(axis) }, value)
            }
            Step::ReduceScatter(axis, reduce) => {
                self.check_even(layout, num_rows)?;
                let ranks = self.mesh.size(axis);
                let rows = num_rows / parts(layout);
                layout.set(axis, Some(Shard(0)));
                let padded_rows = rows.next_multiple_of(ranks);
                let value =
                    if padded_rows == rows { value } else { self.emit(Pad { rows: padded_rows }, value)? };
                self.emit(ReduceScatter { axis, ranks, reduce }, value)
            }
            Step::AllReduce(axis, reduce) => {
                layout.set(axis, None);
                self.emit(AllReduce { axis, ranks: self.mesh.size(axis), reduce }, value)
            }
            Step::Gather(axis) => {
                layout.set(axis, None);
                self.check_even(layout, num_rows)?;
                let rows = num_rows / parts(layout);
                let value = self.emit(AllGather { axis, ranks: self.mesh.size(axis) }, value)?;
                if self.func.ty(value).dims[0] == rows {
                    Ok(value)
                } else {
                    self.emit(TakeRows { rows }, value)
                }
            }
        }
    }

    /// Only the innermost cut of a dimension may leave short chunks.
    fn check_even(&self, outer: &Layout, num_rows: u64) -> DiagResult<()> {
        let parts: u64 = outer.axes_of_dim(0).map(|a| self.mesh.size(a)).product();
        if num_rows.is_multiple_of(parts) {
            return Ok(());
        }
        Err(Diag::new("T0305", format!("{num_rows} rows are cut in {parts} unequal parts, and those again"))
            .at(self.func.path(self.func.loc))
            .help("cut this tensor along one mesh axis only, or make its first dimension a multiple of the ranks"))
    }

    fn emit(&mut self, op: impl Into<Op>, value: ValueId) -> DiagResult<ValueId> {
        let node = self.func.make(op, &[value])?;
        let out = node.outs[0];
        self.renamed.push(out);
        self.nodes.push(node);
        Ok(out)
    }
}
