//! The operators of recognised ops.

use super::super::emitter::Emitter;
use super::super::launch::Launch;
use super::super::native::dense;
use super::super::operators;
use super::{Match, rotary, training};
use titan_ir::ascend::{Arg, Call, Element, Family, TensorArg};
use titan_ir::kernel::{Access, Expr, Store, UnaryFn};
use titan_ir::{DType, Op};

/// Emits a recognised op; `false`, and nothing emitted, where the operator's limits do not hold it.
pub(super) fn emit(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match) -> bool {
    match &found.op {
        Op::Silu(_) => silu(e, launch, found),
        Op::SiluGrad(_) => silu_grad(e, launch, found),
        Op::Embedding(_) => embedding(e, launch, found),
        Op::RmsNorm(op) => rms_norm(e, launch, found, op.eps),
        Op::RmsNormGrad(_) => rms_norm_grad(e, launch, found),
        Op::Rope(op) => rotary::rotary(e, launch, found, op.inverse),
        Op::CrossEntropy(_) => training::cross_entropy(e, launch, found),
        Op::CrossEntropyGrad(_) => training::cross_entropy_grad(e, launch, found),
        Op::AdamW(op) if e.soc().family == Family::A5 => training::adamw(e, launch, found, op),
        _ => false,
    }
}

/// The tensor of an operand.
pub(super) fn operand(launch: &Launch<'_>, found: &Match, k: usize) -> Option<TensorArg> {
    let ty = &found.types[k];
    found.input(launch, k).map(|at| dense(ty.dtype, &ty.dims, at))
}

/// Whether two tensors share memory.
pub(super) fn overlap(a: &TensorArg, b: &TensorArg) -> bool {
    a.at < b.at + b.extent_bytes() && b.at < a.at + a.extent_bytes()
}

/// A place for a result that `inputs` do not share: itself, or scratch from which [`settle`] copies.
pub(super) fn apart(e: &mut Emitter<'_>, result: &TensorArg, inputs: &[&TensorArg]) -> TensorArg {
    if inputs.iter().any(|input| overlap(result, input)) {
        e.temp(result.element, &result.dims)
    } else {
        result.clone()
    }
}

/// Brings a result from where [`apart`] put it to its place.
pub(super) fn settle(e: &mut Emitter<'_>, made: &TensorArg, result: &TensorArg) {
    if made.at != result.at {
        e.push(Call::Copy { src: made.at, dst: result.at, size_bytes: made.extent_bytes() });
        e.free(made);
    }
}

fn silu(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match) -> bool {
    let (Some(x), Some(y)) = (operand(launch, found, 0), found.output(launch, 0)) else { return false };
    let y = TensorArg { at: y, ..x.clone() };
    let made = apart(e, &y, &[&x]);
    e.operator("aclnnSilu", vec![Arg::Tensor(x), Arg::Tensor(made.clone())]);
    settle(e, &made, &y);
    true
}

fn silu_grad(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match) -> bool {
    let (Some(x), Some(dy), Some(dx)) =
        (operand(launch, found, 0), operand(launch, found, 1), found.output(launch, 0))
    else {
        return false;
    };
    if x.element != dy.element {
        return false;
    }
    let dx = TensorArg { at: dx, ..x.clone() };
    let made = apart(e, &dx, &[&x, &dy]);
    e.operator("aclnnSiluBackward", vec![Arg::Tensor(dy), Arg::Tensor(x), Arg::Tensor(made.clone())]);
    settle(e, &made, &dx);
    true
}

fn embedding(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match) -> bool {
    let (Some(table), Some(ids), Some(out)) =
        (operand(launch, found, 0), operand(launch, found, 1), found.output(launch, 0))
    else {
        return false;
    };
    let out = TensorArg::contiguous(table.element, &[ids.dims[0], table.dims[1]], out, table.access);
    e.operator("aclnnEmbedding", vec![Arg::Tensor(table), Arg::Tensor(ids), Arg::Tensor(out)]);
    true
}

/// The types a gain may have.
fn gain_fits(x: &TensorArg, gain: &TensorArg) -> bool {
    x.element == gain.element || (x.element == Element::Bf16 && gain.element == Element::F32)
}

fn rms_norm(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match, eps: f64) -> bool {
    let (Some(x), Some(gain), Some(y)) =
        (operand(launch, found, 0), operand(launch, found, 1), found.output(launch, 0))
    else {
        return false;
    };
    if !gain_fits(&x, &gain) {
        return false;
    }
    let y = TensorArg { at: y, ..x.clone() };
    let made = apart(e, &y, &[&x]);
    let rstd_dims = [x.dims[0], 1];
    let rstd = match found.output(launch, 1) {
        Some(at) => dense(Element::F32, &rstd_dims, at),
        None => e.temp(Element::F32, &rstd_dims),
    };
    let args = vec![
        Arg::Tensor(x),
        Arg::Tensor(gain),
        Arg::F64(eps),
        Arg::Tensor(made.clone()),
        Arg::Tensor(rstd.clone()),
    ];
    e.operator("aclnnRmsNorm", args);
    e.free(&rstd);
    settle(e, &made, &y);
    true
}

fn rms_norm_grad(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match) -> bool {
    let ins: Option<Vec<TensorArg>> = (0..4).map(|k| operand(launch, found, k)).collect();
    let (Some(ins), Some(dx), Some(d_gain)) = (ins, found.output(launch, 0), found.output(launch, 1)) else {
        return false;
    };
    let [x, gain, rstd, dy] = [0, 1, 2, 3].map(|k| ins[k].clone());
    if !gain_fits(&x, &gain) || x.element != dy.element {
        return false;
    }
    let dx = TensorArg { at: dx, ..x.clone() };
    let made = apart(e, &dx, &[&x, &dy]);
    let cols = x.dims[1];
    let args = [dy, x, rstd, gain, made.clone(), dense(Element::F32, &[cols], d_gain)];
    let rows = args[0].dims[0];
    e.operator("aclnnRmsNormGrad", args.map(Arg::Tensor).into());
    settle(e, &made, &dx);
    // The kernel gives sums of blocks of rows, which another adds up: here the first is the whole sum.
    let block_rows = launch.kernel.block_rows().unwrap_or(rows);
    let others = rows.div_ceil(block_rows) - 1;
    if others > 0 {
        e.push(Call::Zero { dst: d_gain + cols * 4, size_bytes: others * cols * 4 });
    }
    true
}

/// A kernel of one function of whole operands, all in bf16: the operator computes in f32 and rounds once, as the kernel does.
pub(super) fn single(e: &mut Emitter<'_>, launch: &Launch<'_>) -> bool {
    let kernel = launch.kernel;
    let plain = kernel.inputs.iter().all(|i| i.dtype == DType::Bf16 && i.access == Access::Full);
    let [output] = &kernel.outputs[..] else { return false };
    let stores = output.dtype == DType::Bf16 && output.store == Store::Full;
    let last = kernel.exprs.len().wrapping_sub(1);
    let loads = kernel.exprs.len() == kernel.inputs.len() + 1
        && kernel.exprs[..last].iter().all(|expr| matches!(expr, Expr::Load(_)));
    if !plain || !stores || !loads || output.value.index() != last {
        return false;
    }
    let of = |k: titan_ir::kernel::ExprId| match kernel.exprs[k.index()] {
        Expr::Load(input) => input as usize,
        _ => last,
    };
    let (name, operands) = match kernel.exprs[last] {
        Expr::Unary(UnaryFn::Neg, a) => ("aclnnNeg", vec![of(a)]),
        Expr::Binary(f, a, b) => (operators::binary(f), vec![of(a), of(b)]),
        _ => return false,
    };
    let signature = kernel.signature(launch.rows, launch.len);
    let view = |k: usize| dense(DType::Bf16, &[signature.ins[0].1], launch.args[k]);
    let result = view(kernel.inputs.len());
    if operands.iter().any(|&k| overlap(&view(k), &result)) {
        return false;
    }
    let mut args: Vec<Arg> = operands.iter().map(|&k| Arg::Tensor(view(k))).collect();
    args.extend(matches!(name, "aclnnAdd" | "aclnnSub").then_some(Arg::Scalar(Element::F32, 1.0)));
    args.push(Arg::Tensor(result));
    e.operator(name, args);
    true
}
