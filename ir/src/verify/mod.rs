//! The verifier: what must hold of every module at its stage. It finds everything that is wrong, not only the first.

mod names;

use crate::shard;
use crate::{Diag, Diags, Func, Layout, Module, Node, Op, ResultKind, Stage, TensorType, ValueId};
use names::{check_mesh, check_names, layout_fault};
use std::collections::BTreeSet;

/// Most elements of a tensor, so that sizes in bytes stay far from overflow.
const MAX_ELEMENTS: u64 = 1 << 48;

/// Checks a module against the specification of its stage.
///
/// # Errors
/// All findings: T0130 definitions, T0131 types, T0132 layouts, T0133 ops of other stages, T0134 results, T0135 mesh and placements,
/// T0136 names, and what the ops' own type rules find.
pub fn verify(module: &Module) -> Result<(), Diags> {
    let mut diags = Diags::default();
    check_mesh(&module.mesh, &mut diags);
    check_names(module, &mut diags);
    for func in &module.funcs {
        let mut checker = Checker { module, func, layouts_exist: true, diags: &mut diags };
        // Types and layouts of undefined values would only repeat what is said about the values.
        if checker.check_definitions() {
            checker.check_types();
            checker.check_params();
            checker.check_nodes();
            checker.check_results();
        }
    }
    if diags.0.is_empty() { Ok(()) } else { Err(diags) }
}

struct Checker<'a> {
    module: &'a Module,
    func: &'a Func,
    /// Whether all layouts name axes and dimensions that exist, so that they can be compared.
    layouts_exist: bool,
    diags: &'a mut Diags,
}

impl Checker<'_> {
    fn push(&mut self, node: &Node, code: &'static str, message: String) {
        let path = self.func.locs.get(node.loc.index()).map_or("", String::as_str);
        self.diags.push(Diag::new(code, message).at(format!("{path} ({})", node.op.rules().name())));
    }

    fn in_func(&mut self, code: &'static str, message: String) {
        self.diags.push(Diag::new(code, message).at(format!("@{}", self.func.name)));
    }

    /// Whether every value is defined once, before its uses.
    fn check_definitions(&mut self) -> bool {
        let func = self.func;
        let before = self.diags.0.len();
        let mut defined = vec![false; func.num_values()];
        let mut define = |value: ValueId| match defined.get_mut(value.index()) {
            Some(slot) if !*slot => {
                *slot = true;
                None
            }
            Some(_) => Some(format!("value {value:?} is defined twice")),
            None => Some(format!("value {value:?} has no type")),
        };
        let mut faults: Vec<(Option<&Node>, String)> = Vec::new();
        faults.extend(func.params.iter().filter_map(|p| define(p.value)).map(|fault| (None, fault)));
        let mut position = vec![usize::MAX; func.num_values()];
        for param in &func.params {
            position.get_mut(param.value.index()).into_iter().for_each(|p| *p = 0);
        }
        for (i, node) in func.nodes.iter().enumerate() {
            for &value in &node.ins {
                // A definition at or below the node is no definition for it.
                if position.get(value.index()).is_none_or(|&p| p > i) {
                    faults.push((Some(node), format!("operand {value:?} is not defined above its use")));
                }
            }
            for &value in &node.outs {
                faults.extend(define(value).map(|fault| (Some(node), fault)));
                position.get_mut(value.index()).into_iter().for_each(|p| *p = i + 1);
            }
        }
        for result in &func.results {
            if position.get(result.value.index()).is_none_or(|&p| p == usize::MAX) {
                faults.push((None, format!("result {:?} is not defined", result.value)));
            }
        }
        for (node, fault) in faults {
            match node {
                Some(node) => self.push(node, "T0130", fault),
                None => self.in_func("T0130", fault),
            }
        }
        self.diags.0.len() == before
    }

    fn check_types(&mut self) {
        for (i, ty) in self.func.types.iter().enumerate() {
            let num_elements = ty.dims.iter().try_fold(1_u64, |n, &dim| n.checked_mul(dim));
            if num_elements.is_none_or(|n| n == 0 || n > MAX_ELEMENTS) {
                self.in_func(
                    "T0103",
                    format!("dimensions {:?} of %{i} hold no elements or too many", ty.dims),
                );
            }
            if let Some(fault) = layout_fault(&ty.layout, ty.rank(), &self.module.mesh) {
                self.layouts_exist = false;
                self.in_func("T0135", format!("layout of %{i}: {fault}"));
            }
            if self.module.stage >= Stage::Local && !ty.layout.is_replicate() {
                self.in_func("T0132", format!("%{i} has a layout, which per-rank values do not have"));
            }
        }
    }

    fn check_params(&mut self) {
        for param in &self.func.params {
            let ty = self.func.ty(param.value);
            if let Some(fault) = layout_fault(&param.layout, param.global_dims.len(), &self.module.mesh) {
                self.in_func("T0135", format!("layout of parameter `{}`: {fault}", param.name));
                continue;
            }
            let expected = match self.module.stage {
                Stage::Graph | Stage::Sharded => param.global_dims.clone(),
                Stage::Local | Stage::Kernels => {
                    param.layout.local_dims(&self.module.mesh, &param.global_dims)
                }
            };
            if ty.dims != expected {
                let message = format!(
                    "parameter `{}` has dimensions {:?}, but its global dimensions {:?} and layout give {expected:?}",
                    param.name, ty.dims, param.global_dims
                );
                self.in_func("T0131", message);
            }
            if self.module.stage < Stage::Local && ty.layout != param.layout {
                let message =
                    format!("parameter `{}` is stored in another layout than its value has", param.name);
                self.in_func("T0132", message);
            }
        }
    }

    fn check_nodes(&mut self) {
        for node in &self.func.nodes {
            self.check_stage(node);
            let ins: Vec<&TensorType> = node.ins.iter().map(|&v| self.func.ty(v)).collect();
            let outs: Vec<&TensorType> = node.outs.iter().map(|&v| self.func.ty(v)).collect();
            let inferred = match node.op.rules().infer(&ins) {
                Ok(inferred) => inferred,
                Err(diag) => {
                    self.push(node, diag.code, diag.message);
                    continue;
                }
            };
            if inferred.len() != outs.len() {
                let message = format!("has {} results, the op gives {}", outs.len(), inferred.len());
                self.push(node, "T0131", message);
                continue;
            }
            for (i, (out, inferred)) in outs.iter().zip(&inferred).enumerate() {
                if !out.same_tensor(inferred) {
                    let message = format!(
                        "result {i} is {}{:?}, the op gives {}{:?}",
                        out.dtype, out.dims, inferred.dtype, inferred.dims
                    );
                    self.push(node, "T0131", message);
                }
            }
            if self.module.stage == Stage::Sharded && self.layouts_exist {
                self.check_layouts(node, &ins, &outs);
            }
        }
    }

    fn check_layouts(&mut self, node: &Node, ins: &[&TensorType], outs: &[&TensorType]) {
        if let Op::Reshard(reshard) = &node.op {
            if outs[0].layout != reshard.to {
                self.push(node, "T0132", "the result's layout is not the one it is resharded to".to_owned());
            }
            return;
        }
        let rule = node.op.rules().shard(ins);
        let [given, results] =
            [ins, outs].map(|types| types.iter().map(|ty| &ty.layout).collect::<Vec<&Layout>>());
        let checked = shard::accepts(&rule, &given, &results);
        if let Err(why) = checked.and_then(|()| shard::check_even(&rule, ins, outs, &self.module.mesh)) {
            self.push(node, "T0132", why);
        }
    }

    fn check_stage(&mut self, node: &Node) {
        let stage = self.module.stage;
        let name = node.op.rules().name();
        let fault = match &node.op {
            Op::Reshard(_) if stage >= Stage::Local => Some("per-rank programs have collectives instead"),
            Op::AllGather(_) | Op::ReduceScatter(_) | Op::AllReduce(_) | Op::RankSlice(_)
                if stage < Stage::Local =>
            {
                Some("programs of global tensors have `reshard` instead")
            }
            Op::Launch(_) if stage < Stage::Local => Some("kernels exist only per rank"),
            op if stage == Stage::Kernels && !is_kernel_stage(op) => {
                Some("only kernels, collectives, views and copies are left at this stage")
            }
            _ => None,
        };
        if let Some(fault) = fault {
            self.push(node, "T0133", format!("`{name}` at stage {stage:?}: {fault}"));
        }
        let axis = match &node.op {
            Op::AllGather(op) => Some((op.axis, op.ranks)),
            Op::ReduceScatter(op) => Some((op.axis, op.ranks)),
            Op::AllReduce(op) => Some((op.axis, op.ranks)),
            Op::RankSlice(op) => Some((op.axis, op.ranks)),
            _ => None,
        };
        if let Some((axis, ranks)) = axis {
            let size = self.module.mesh.axes.get(axis.index()).map(|a| a.size);
            if size != Some(ranks) {
                let has =
                    size.map_or_else(|| "does not exist".to_owned(), |size| format!("has {size} ranks"));
                self.push(
                    node,
                    "T0135",
                    format!("`{name}` over {ranks} ranks of mesh axis {}, which {has}", axis.0),
                );
            }
        }
        if let Op::Reshard(op) = &node.op
            && let Some(fault) = layout_fault(&op.to, usize::from(u8::MAX) + 1, &self.module.mesh)
        {
            self.push(node, "T0135", fault);
        }
    }

    fn check_results(&mut self) {
        let mut updated = BTreeSet::new();
        for result in &self.func.results {
            let ResultKind::Update(index) = result.kind else { continue };
            let Some(param) = self.func.params.get(index) else {
                self.in_func("T0134", format!("a result updates parameter {index}, which does not exist"));
                continue;
            };
            if !updated.insert(index) {
                self.in_func("T0134", format!("parameter `{}` is updated twice", param.name));
            }
            let (old, new) = (self.func.ty(param.value), self.func.ty(result.value));
            if !old.same_tensor(new) {
                let message = format!(
                    "parameter `{}` is {}{:?}, its update is {}{:?}",
                    param.name, old.dtype, old.dims, new.dtype, new.dims
                );
                self.in_func("T0134", message);
            } else if self.module.stage == Stage::Sharded && old.layout != new.layout {
                self.in_func(
                    "T0134",
                    format!("the update of `{}` has another layout than the parameter", param.name),
                );
            }
        }
    }
}

/// Whether the op is left at stage [`Stage::Kernels`].
fn is_kernel_stage(op: &Op) -> bool {
    matches!(
        op,
        Op::Launch(_)
            | Op::AllGather(_)
            | Op::ReduceScatter(_)
            | Op::AllReduce(_)
            | Op::RankSlice(_)
            | Op::Pad(_)
            | Op::TakeRows(_)
            | Op::Reshape(_)
            | Op::Guard(_)
    )
}
