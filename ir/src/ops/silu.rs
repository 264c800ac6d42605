//! `silu` and its gradient: f32 inside, rounded once.

use crate::attrs::{AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::kernel::{Access, UnaryFn};
use crate::ops::util::{SECOND_ORDER, ct_as, map, operands, want_dims, want_dtype, want_float};
use crate::shard::ShardRule;
use crate::{Cost, DType, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// `x sigmoid(x)`. Source: Elfwing et al., arXiv 1702.03118.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silu;

/// `dy s (1 + x (1 - s))` with `s = sigmoid(x)`; operands x, dy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiluGrad;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl OpRules for Silu {
    fn name(&self) -> &'static str {
        "silu"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        attrs.finish().map(|()| Self)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x] = operands("silu", ins)?;
        want_float("silu", "the operand", x)?;
        Ok(smallvec![TensorType::new(x.dtype, &x.dims)])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(1)) };
        let x = cx.ins[0];
        let ct = ct_as(cx, ct, cx.func.ty(x).dtype)?;
        Ok(Vjp::one(cx.func.emit1(SiluGrad, &[x, ct])?))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        ShardRule::pointwise(ins[0].rank(), 1)
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let mut b = FragmentBuilder::elastic(ins[0].num_elements());
        let x = b.input(ins[0].dtype, Access::Full);
        let s = b.unary(UnaryFn::Sigmoid, x);
        let y = b.mul(x, s);
        b.result(Out::Full, ins[0].dtype, y);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::elementwise(4, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], _: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        smallvec![map(ins[0], |x| x * sigmoid(x))]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        vec![(Self, vec![TensorType::new(DType::F32, &[3, 5])])]
    }
}

impl OpRules for SiluGrad {
    fn name(&self) -> &'static str {
        "silu_grad"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        attrs.finish().map(|()| Self)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x, dy] = operands("silu_grad", ins)?;
        want_float("silu_grad", "x", x)?;
        want_dtype("silu_grad", "dy", dy, x.dtype)?;
        want_dims("silu_grad", "dy", dy, &x.dims)?;
        Ok(smallvec![TensorType::new(x.dtype, &x.dims)])
    }
    fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::NotDifferentiable(SECOND_ORDER))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        ShardRule::pointwise(ins[0].rank(), 2)
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let mut b = FragmentBuilder::elastic(ins[0].num_elements());
        let x = b.input(ins[0].dtype, Access::Full);
        let dy = b.input(ins[1].dtype, Access::Full);
        let one = b.constant(1.0);
        let s = b.unary(UnaryFn::Sigmoid, x);
        let not_s = b.sub(one, s);
        let slope = b.fma(x, not_s, one);
        let ds = b.mul(dy, s);
        let dx = b.mul(ds, slope);
        b.result(Out::Full, ins[0].dtype, dx);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::elementwise(8, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], _: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let slope = map(ins[0], |x| sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))));
        let data = slope.data.iter().zip(&ins[1].data).map(|(s, dy)| s * dy).collect();
        smallvec![Tensor { data, ..slope }]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let t = TensorType::new(DType::F32, &[3, 5]);
        vec![(Self, vec![t.clone(), t])]
    }
}
