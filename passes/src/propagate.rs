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
use titan_ir::{Diag, DiagResult, Func, Layout, Mesh, Module, Op, Placement, TensorType};

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

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        let Module { mesh, funcs, .. } = module;
        for func in funcs {
            annotate_params(mesh, func)?;
            annotate_nodes(mesh, func)?;
        }
        Ok(Changed::Yes)
    }
}

fn annotate_params(mesh: &Mesh, func: &mut Func) -> DiagResult<()> {
    for param in &mut func.params {
        let ty = &mut func.types[param.value.index()];
        ty.layout = checked(mesh, &ty.layout, ty, &param.name)?;
        if ty.layout.has_partial() {
            return Err(Diag::new("T0301", "a parameter cannot be stored as partial sums").at(&param.name));
        }
        param.layout = ty.layout.clone();
    }
    Ok(())
}

fn annotate_nodes(mesh: &Mesh, func: &mut Func) -> DiagResult<()> {
    let Func { nodes, types, locs, .. } = func;
    for node in nodes {
        if let Op::Reshard(reshard) = &mut node.op {
            let ty = &types[node.ins[0].index()];
            reshard.to = checked(mesh, &reshard.to, ty, &locs[node.loc.index()])?;
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
    Ok(())
}

/// The layout without axes of one rank.
///
/// # Errors
/// T0301 when it is not one of a tensor of this type on this mesh.
fn checked(mesh: &Mesh, layout: &Layout, ty: &TensorType, path: &str) -> DiagResult<Layout> {
    let mut kept = Layout::replicate();
    for (axis, placement) in layout.iter() {
        let Some(mesh_axis) = mesh.axes.get(axis.index()) else {
            return Err(Diag::new(
                "T0301",
                format!("the mesh has {} axes, the layout names axis {}", mesh.axes.len(), axis.0),
            )
            .at(path));
        };
        if let Placement::Shard(dim) = placement
            && usize::from(dim) >= ty.rank()
        {
            let message = format!(
                "`{}` shards dimension {dim} of a tensor of {} dimensions",
                mesh_axis.name,
                ty.rank()
            );
            return Err(Diag::new("T0301", message).at(path));
        }
        if mesh_axis.size > 1 {
            kept.set(axis, Some(placement));
        }
    }
    Ok(kept)
}
