//! Layouts of all values, from those of parameters, inputs and explicit reshards.
//!
//! Forward in program order: each op's sharding rule and the layouts of its operands decide how the op is split
//! ([`crate::layout_choice`]) and so the layouts of its results. Partial results stay partial through linear ops until a `reshard`,
//! a result of the function or a non-linear op asks for more: so a gradient crosses its cast to f32 unreduced and is
//! then reduce-scattered in f32, and the squared norms of all gradients are added up before one scalar is reduced.
//!
//! Placements on mesh axes of one rank are dropped: nothing is communicated along them.

use crate::layout_choice::choose;
use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use titan_ir::{Diag, DiagResult, Func, Layout, Mesh, Module, Op, Stage, TensorType};

/// The pass.
#[derive(Debug, Clone, Default)]
pub struct Propagate;

impl Pass for Propagate {
    fn name(&self) -> &'static str {
        "propagate"
    }

    fn summary(&self) -> &'static str {
        "give every value the layout its op's sharding rule implies"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Graph]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        let Module { mesh, funcs, .. } = module;
        for func in funcs {
            annotate_params(mesh, func)?;
            annotate_nodes(mesh, func);
        }
        Ok(Changed::Yes)
    }
}

/// Whether the nodes have the layouts this pass gives them.
pub(crate) fn is_annotated(mesh: &Mesh, func: &Func) -> bool {
    let mut annotated = func.clone();
    annotate_nodes(mesh, &mut annotated);
    annotated.types == func.types
}

fn annotate_params(mesh: &Mesh, func: &mut Func) -> DiagResult<()> {
    for param in &mut func.params {
        let ty = &mut func.types[param.value.index()];
        ty.layout = without_single_ranks(mesh, &ty.layout);
        if ty.layout.has_partial() {
            return Err(Diag::new("T0301", "state is stored as partial sums")
                .at(&param.name)
                .help("store it sharded or replicated"));
        }
        param.layout = ty.layout.clone();
    }
    Ok(())
}

fn annotate_nodes(mesh: &Mesh, func: &mut Func) {
    let Func { nodes, types, .. } = func;
    for node in nodes {
        if let Op::Reshard(reshard) = &mut node.op {
            reshard.to = without_single_ranks(mesh, &reshard.to);
            types[node.outs[0].index()].layout = reshard.to.clone();
            continue;
        }
        let ins: Vec<&TensorType> = node.ins.iter().map(|v| &types[v.index()]).collect();
        let outs: Vec<&TensorType> = node.outs.iter().map(|v| &types[v.index()]).collect();
        let choice = choose(mesh, &node.op.rules().shard(&ins), &ins, &outs);
        for (out, layout) in node.outs.iter().zip(choice.outs) {
            types[out.index()].layout = layout;
        }
    }
}

/// The layout without axes of one rank.
fn without_single_ranks(mesh: &Mesh, layout: &Layout) -> Layout {
    layout
        .iter()
        .filter(|&(axis, _)| mesh.size(axis) > 1)
        .fold(Layout::replicate(), |kept, (a, p)| kept.with(a, p))
}
