//! `cross_entropy` and its gradient.

use crate::attrs::{AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::kernel::{Access, UnaryFn};
use crate::ops::util::{
    SECOND_ORDER, ct_as, lead, letters, letters_then, operands, tensor, want_dims, want_dtype, want_float,
    want_not_scalar,
};
use crate::shard::ShardRule;
use crate::{Cost, DType, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// The label of tokens that do not count.
pub const IGNORE_LABEL: i32 = -100;

/// `nll = lse - logits[label]` with `lse = log(sum(exp(logits)))`; 0 where the label is [`IGNORE_LABEL`]. f32 inside.
///
/// # Shapes
/// logits `[.., v]`, labels i32 `[..]`; nll f32 `[..]`, lse f32 `[..]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossEntropy;

/// `(exp(logits - lse) - (j == label)) dnll`; 0 where the label is [`IGNORE_LABEL`].
///
/// # Shapes
/// logits `[.., v]`, labels i32 `[..]`, lse f32 `[..]`, dnll f32 `[..]`; result as logits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrossEntropyGrad;

/// Checks logits and labels.
fn check(name: &str, logits: &TensorType, labels: &TensorType) -> DiagResult<()> {
    want_float(name, "the logits", logits)?;
    want_not_scalar(name, "the logits", logits)?;
    want_dtype(name, "the labels", labels, DType::I32)?;
    want_dims(name, "the labels", labels, lead(logits))
}

impl OpRules for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        attrs.finish().map(|()| Self)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [logits, labels] = operands("cross_entropy", ins)?;
        check("cross_entropy", logits, labels)?;
        let row = TensorType::new(DType::F32, &labels.dims);
        Ok(smallvec![row.clone(), row])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        if cx.cts[1].is_some() {
            return Ok(Vjp::NotDifferentiable("its second result only serves its gradient"));
        }
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(2)) };
        let ct = ct_as(cx, ct, DType::F32)?;
        let d_logits = cx.func.emit1(CrossEntropyGrad, &[cx.ins[0], cx.ins[1], cx.outs[1], ct])?;
        Ok(Vjp::Grads(smallvec![Some(d_logits), None]))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let row = letters(ins[1].rank());
        let mut rule = ShardRule::einsum(",->,").replicate("v");
        rule.ins = vec![letters_then(row.len(), 'v'), row.clone()];
        rule.outs = vec![row.clone(), row];
        rule
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let mut b = FragmentBuilder::rows(ins[0].rows(), ins[0].cols());
        let x = b.input(ins[0].dtype, Access::Full);
        let label = b.input(DType::I32, Access::Row);
        let zero = b.constant(0.0);
        let ignore = b.constant(IGNORE_LABEL as f32);
        let max = b.row_max(x);
        let shifted = b.sub(x, max);
        let e = b.unary(UnaryFn::Exp, shifted);
        let sum = b.row_sum(e);
        let log = b.unary(UnaryFn::Log, sum);
        let lse = b.add(max, log);
        let j = b.col_index();
        let picked = b.select_eq(j, label, x, zero);
        let picked = b.row_sum(picked);
        let nll = b.sub(lse, picked);
        let nll = b.select_eq(label, ignore, zero, nll);
        b.result(Out::Row, DType::F32, nll);
        b.result(Out::Row, DType::F32, lse);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::elementwise(5, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let width = ins[0].dims[ins[0].dims.len() - 1] as usize;
        let (mut nll, mut lses) = (Vec::new(), Vec::new());
        for (row, &label) in ins[0].data.chunks(width).zip(&ins[1].data) {
            let max = row.iter().fold(f64::NEG_INFINITY, |m, &x| if x.is_nan() || x > m { x } else { m });
            let lse = max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
            let picked = if label >= 0.0 { row.get(label as usize).copied().unwrap_or(0.0) } else { 0.0 };
            nll.push(if label == f64::from(IGNORE_LABEL) { 0.0 } else { lse - picked });
            lses.push(lse);
        }
        smallvec![tensor(outs[0], nll), tensor(outs[1], lses)]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let sample = |dtype, dims: &[u64]| {
            (Self, vec![TensorType::new(dtype, dims), TensorType::new(DType::I32, &dims[..dims.len() - 1])])
        };
        vec![sample(DType::F32, &[2, 3, 7]), sample(DType::Bf16, &[4, 5])]
    }
}

impl OpRules for CrossEntropyGrad {
    fn name(&self) -> &'static str {
        "cross_entropy_grad"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        attrs.finish().map(|()| Self)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [logits, labels, lse, dnll] = operands("cross_entropy_grad", ins)?;
        check("cross_entropy_grad", logits, labels)?;
        for (what, ty) in [("lse", lse), ("dnll", dnll)] {
            want_dtype("cross_entropy_grad", what, ty, DType::F32)?;
            want_dims("cross_entropy_grad", what, ty, &labels.dims)?;
        }
        Ok(smallvec![TensorType::new(logits.dtype, &logits.dims)])
    }
    fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::NotDifferentiable(SECOND_ORDER))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let row = letters(ins[1].rank());
        let full = letters_then(row.len(), 'v');
        let mut rule = ShardRule::einsum(",,,->").replicate("v");
        rule.ins = vec![full.clone(), row.clone(), row.clone(), row];
        rule.outs = vec![full];
        rule
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let mut b = FragmentBuilder::rows(ins[0].rows(), ins[0].cols());
        let x = b.input(ins[0].dtype, Access::Full);
        let label = b.input(DType::I32, Access::Row);
        let lse = b.input(DType::F32, Access::Row);
        let dnll = b.input(DType::F32, Access::Row);
        let zero = b.constant(0.0);
        let one = b.constant(1.0);
        let ignore = b.constant(IGNORE_LABEL as f32);
        let factor = b.select_eq(label, ignore, zero, dnll);
        let shifted = b.sub(x, lse);
        let p = b.unary(UnaryFn::Exp, shifted);
        let j = b.col_index();
        let hot = b.select_eq(j, label, one, zero);
        let slope = b.sub(p, hot);
        let dx = b.mul(slope, factor);
        b.result(Out::Full, ins[0].dtype, dx);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::elementwise(5, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let width = outs[0].cols() as usize;
        let mut dx = Vec::with_capacity(ins[0].data.len());
        for (i, row) in ins[0].data.chunks(width).enumerate() {
            let [label, lse, dnll] = [1, 2, 3].map(|operand: usize| ins[operand].data[i]);
            let factor = if label == f64::from(IGNORE_LABEL) { 0.0 } else { dnll };
            let slope = |(j, x): (usize, &f64)| (x - lse).exp() - if j as f64 == label { 1.0 } else { 0.0 };
            dx.extend(row.iter().enumerate().map(|at| slope(at) * factor));
        }
        smallvec![tensor(outs[0], dx)]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let row = TensorType::new(DType::F32, &[2, 3]);
        let logits = TensorType::new(DType::F32, &[2, 3, 7]);
        vec![(Self, vec![logits, TensorType::new(DType::I32, &[2, 3]), row.clone(), row])]
    }
}
