//! `autodiff`: appends the backward pass, so that one graph holds forward and gradients.
//!
//! A function with the output `loss` gets an output `grad:<fqn>` for every trained weight. Only values on a path from a weight
//! to the loss are differentiated. A value with several uses sums their cotangents as they arrive, last use first, which is the
//! order of torch's engine and keeps one partial sum alive; a sum of mixed element types is taken in f32.
//!
//! Conventions of a traced module: `loss` is a scalar of type f32. The output `num_tokens`, if there is one, is the number of tokens it
//! sums over; `optimizer` divides by its total over all ranks and microbatches.

use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use titan_ir::ops::{Add, Cast, Full};
use titan_ir::{
    DType, Diag, DiagResult, Dims, Func, LocId, Module, Node, Phase, ResultKind, Role, Stage, TensorType,
    ValueId, Vjp, VjpCx,
};

/// The output that is differentiated.
pub const LOSS: &str = "loss";

/// The output that counts the tokens [`LOSS`] sums over.
pub const NUM_TOKENS: &str = "num_tokens";

/// Prefix of the outputs that hold gradients.
pub const GRAD_PREFIX: &str = "grad:";

/// The pass.
#[derive(Debug, Clone, Default)]
pub struct Autodiff;

impl Pass for Autodiff {
    fn name(&self) -> &'static str {
        "autodiff"
    }

    fn summary(&self) -> &'static str {
        "append the backward pass: an output grad:<fqn> for every weight"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Graph]
    }

    fn run(&self, module: &mut Module, cx: &mut PassCx) -> DiagResult<Changed> {
        let is_grad = |kind: &ResultKind| matches!(kind, ResultKind::Output(n) if n.starts_with(GRAD_PREFIX));
        if module.funcs.iter().flat_map(|func| &func.results).any(|result| is_grad(&result.kind)) {
            return Err(Diag::new("T0207", "the program has gradients already"));
        }
        let mut changed = false;
        for func in &mut module.funcs {
            if let Some(loss) = output(func, LOSS) {
                differentiate(func, loss, cx)?;
                changed = true;
            }
        }
        if !changed {
            return Err(Diag::new(
                "T0203",
                "no function has the output `loss`, so there is nothing to differentiate",
            ));
        }
        Ok(Changed::Yes)
    }
}

/// The value shown under `name`.
pub fn output(func: &Func, name: &str) -> Option<ValueId> {
    let shown = |kind: &ResultKind| matches!(kind, ResultKind::Output(n) if n == name);
    func.results.iter().find(|r| shown(&r.kind)).map(|r| r.value)
}

/// Appends the gradients of `loss` for every weight of `func`.
///
/// # Errors
/// T0201 when an op between a weight and the loss has no gradient, T0202 when the loss is not a scalar of type f32.
fn differentiate(func: &mut Func, loss: ValueId, cx: &mut PassCx) -> DiagResult<()> {
    if !func.ty(loss).same_tensor(&TensorType::scalar(DType::F32)) {
        let ty = func.ty(loss);
        return Err(Diag::new("T0202", format!("the loss is a {} of dimensions {:?}", ty.dtype, ty.dims))
            .help("reduce it to one f32 number"));
    }
    let active = active_values(func);
    let num_forward = func.nodes.len();
    let (loc, phase) = (func.loc, func.phase);
    func.phase = Phase::Backward;
    let mut cts: Vec<Option<ValueId>> = vec![None; func.num_values()];
    if let Some(def) = func.defs()[loss.index()] {
        func.loc = func.nodes[def as usize].loc;
    }
    cts[loss.index()] = Some(constant(func, 1.0, &[])?);
    for index in (0..num_forward).rev() {
        let node = &func.nodes[index];
        let has_ct = node.outs.iter().any(|v| active[v.index()] && cts[v.index()].is_some());
        if has_ct && node.ins.iter().any(|v| active[v.index()]) {
            let node = node.clone();
            backward(func, &node, &active, &mut cts)?;
        }
    }
    emit_gradients(func, &cts, cx)?;
    (func.loc, func.phase) = (loc, phase);
    Ok(())
}

/// Values that depend differentiably on a weight.
fn active_values(func: &Func) -> Vec<bool> {
    let mut active = vec![false; func.num_values()];
    for param in func.params.iter().filter(|p| p.role == Role::Param) {
        active[param.value.index()] = func.ty(param.value).dtype.is_float();
    }
    for node in &func.nodes {
        if node.ins.iter().any(|v| active[v.index()]) {
            for out in &node.outs {
                active[out.index()] = func.ty(*out).dtype.is_float();
            }
        }
    }
    active
}

/// Emits what one forward node contributes to the cotangents of its operands.
fn backward(func: &mut Func, node: &Node, active: &[bool], cts: &mut [Option<ValueId>]) -> DiagResult<()> {
    func.loc = node.loc;
    let out_cts: Vec<Option<ValueId>> = node.outs.iter().map(|v| cts[v.index()]).collect();
    let vjp = node.op.rules().vjp(&mut VjpCx { func, ins: &node.ins, outs: &node.outs, cts: &out_cts })?;
    let grads = match vjp {
        Vjp::Grads(grads) => grads,
        Vjp::NotDifferentiable(why) => return Err(not_differentiable(func, node, why)),
    };
    for (&operand, grad) in node.ins.iter().zip(grads) {
        let Some(grad) = grad else { continue };
        if !active[operand.index()] {
            continue;
        }
        cts[operand.index()] = Some(match cts[operand.index()] {
            None => grad,
            Some(sum) => accumulate(func, sum, grad)?,
        });
    }
    Ok(())
}

fn not_differentiable(func: &Func, node: &Node, why: &str) -> Diag {
    Diag::new(
        "T0201",
        format!("`{}` is between a weight and the loss and has no gradient", node.op.rules().name()),
    )
    .at(func.path(node.loc))
    .note(why)
}

/// `sum + ct`, in f32 if either is.
pub(crate) fn accumulate(func: &mut Func, sum: ValueId, ct: ValueId) -> DiagResult<ValueId> {
    if func.ty(sum).dtype == func.ty(ct).dtype {
        return func.emit1(Add, &[sum, ct]);
    }
    let (sum, ct) = (cast(func, sum, DType::F32)?, cast(func, ct, DType::F32)?);
    func.emit1(Add, &[sum, ct])
}

/// The value in another element type; itself if it has it.
pub(crate) fn cast(func: &mut Func, value: ValueId, to: DType) -> DiagResult<ValueId> {
    if func.ty(value).dtype == to { Ok(value) } else { func.emit1(Cast { to }, &[value]) }
}

/// An f32 tensor of one repeated value.
pub(crate) fn constant(func: &mut Func, value: f64, dims: &[u64]) -> DiagResult<ValueId> {
    func.emit1(Full { value, dtype: DType::F32, dims: Dims::from(dims) }, &[])
}

/// Makes the cotangents of the weights outputs; a weight nothing depends on gets zeros and a warning.
fn emit_gradients(func: &mut Func, cts: &[Option<ValueId>], cx: &mut PassCx) -> DiagResult<()> {
    let weights: Vec<(ValueId, String)> =
        func.params.iter().filter(|p| p.role == Role::Param).map(|p| (p.value, p.name.clone())).collect();
    for (value, name) in weights {
        let grad = match cts[value.index()] {
            Some(ct) => ct,
            None => {
                cx.warnings.push(Diag::warning(
                    "T0204",
                    format!("the loss does not depend on `{name}`: its gradient is zero"),
                ));
                func.loc = LocId(0);
                let dims = func.ty(value).dims.clone();
                constant(func, 0.0, &dims)?
            }
        };
        func.add_result(grad, ResultKind::Output(format!("{GRAD_PREFIX}{name}")));
    }
    Ok(())
}
