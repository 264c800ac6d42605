//! Elementwise functions of two tensors: `add`, `sub`, `mul`, `div`, `min`, `max`.
//!
//! Both operands have one element type. Either has the result's dimensions or is a scalar, which is repeated.

use crate::attrs::{AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::kernel::{Access, BinaryFn};
use crate::ops::reduce_sum::ReduceSum;
use crate::ops::unary::Neg;
use crate::ops::util::{ct_as, operands, want_float};
use crate::shard::{Linear, ShardRule};
use crate::{
    Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, ValueId, Vjp, VjpCx,
};
use smallvec::{SmallVec, smallvec};

fn infer(name: &str, ins: &[&TensorType]) -> DiagResult<Types> {
    let [a, b] = operands(name, ins)?;
    if a.dtype != b.dtype {
        return Err(Diag::new(
            "T0102",
            format!("`{name}`: element types differ: {} and {}", a.dtype, b.dtype),
        )
        .help("insert a `cast`"));
    }
    want_float(name, "the operands", a)?;
    if a.dims != b.dims && a.rank() != 0 && b.rank() != 0 {
        return Err(Diag::new(
            "T0103",
            format!("`{name}`: dimensions differ: {:?} and {:?}", a.dims, b.dims),
        ));
    }
    let dims = if a.rank() == 0 { &b.dims } else { &a.dims };
    Ok(smallvec![TensorType::new(a.dtype, dims)])
}

fn shard(ins: &[&TensorType], linear: Linear) -> ShardRule {
    let rank = ins[0].rank().max(ins[1].rank());
    let mut rule = ShardRule::pointwise(rank, 2).linear(linear);
    for (factors, ty) in rule.ins.iter_mut().zip(ins) {
        factors.truncate(ty.rank());
    }
    // A repeated scalar added to a partial tensor would be added once per rank.
    if linear == Linear::Joint && ins[0].rank() != ins[1].rank() {
        rule.linear = Linear::No;
    }
    rule
}

fn lower(f: BinaryFn, ins: &[&TensorType], outs: &[&TensorType]) -> Lowering {
    let mut b = FragmentBuilder::elastic(outs[0].num_elements());
    let access = |ty: &TensorType| if ty.rank() == outs[0].rank() { Access::Full } else { Access::Scalar };
    let x = b.input(ins[0].dtype, access(ins[0]));
    let y = b.input(ins[1].dtype, access(ins[1]));
    let z = b.binary(f, x, y);
    b.result(Out::Full, outs[0].dtype, z);
    Lowering::Fragment(b.finish())
}

fn eval(ins: &[&Tensor], f: impl Fn(f64, f64) -> f64) -> SmallVec<[Tensor; 2]> {
    let (a, b) = (ins[0], ins[1]);
    let dims = if a.dims.is_empty() { &b.dims } else { &a.dims };
    let len = a.data.len().max(b.data.len());
    let at = |t: &Tensor, i: usize| t.data[if t.dims.is_empty() { 0 } else { i }];
    smallvec![Tensor { dims: dims.clone(), data: (0..len).map(|i| f(at(a, i), at(b, i))).collect() }]
}

/// The cotangent for operand `i`: summed when that operand was a repeated scalar.
fn fit(cx: &mut VjpCx<'_>, i: usize, ct: ValueId) -> DiagResult<Option<ValueId>> {
    let repeated = cx.func.ty(cx.ins[i]).rank() == 0 && cx.func.ty(ct).rank() != 0;
    Ok(Some(if repeated { cx.func.emit1(ReduceSum::all(), &[ct])? } else { ct }))
}

/// The cotangent in the operands' element type: it may come in another.
fn in_operand_type(cx: &mut VjpCx<'_>, ct: ValueId) -> DiagResult<ValueId> {
    let dtype = cx.func.ty(cx.ins[0]).dtype;
    ct_as(cx, ct, dtype)
}

const EXTREMUM: &str = "the gradient of an extremum is not defined where the operands meet";

macro_rules! binary {
    ($($(#[$doc:meta])* $ty:ident, $name:literal, $linear:ident, $numerics:ident, $eval:expr, $vjp:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $ty;

        impl OpRules for $ty {
            fn name(&self) -> &'static str {
                $name
            }
            fn attrs(&self) -> Attrs {
                Attrs::new()
            }
            fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
                attrs.finish().map(|()| Self)
            }
            fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
                infer($name, ins)
            }
            fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
                let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(2)) };
                let vjp: fn(&mut VjpCx<'_>, ValueId) -> DiagResult<Vjp> = $vjp;
                vjp(cx, ct)
            }
            fn shard(&self, ins: &[&TensorType]) -> ShardRule {
                shard(ins, Linear::$linear)
            }
            fn localize(&self, _: &[TensorType]) -> Op {
                self.clone().into()
            }
            fn lower(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Lowering {
                lower(BinaryFn::$ty, ins, outs)
            }
            fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
                Cost::elementwise(1, ins, outs)
            }
            fn eval(&self, ins: &[&Tensor], _: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
                eval(ins, $eval)
            }
            fn numerics(&self) -> Numerics {
                Numerics::$numerics
            }
            fn samples() -> Vec<(Self, Vec<TensorType>)> {
                let t = TensorType::new(DType::F32, &[3, 5]);
                let scalar = TensorType::scalar(DType::F32);
                vec![(Self, vec![t.clone(), t.clone()]), (Self, vec![t, scalar])]
            }
        }
    )* };
}

binary! {
    /// `a + b`.
    Add, "add", Joint, Rounding, |a, b| a + b, |cx, ct| {
        Ok(Vjp::Grads(smallvec![fit(cx, 0, ct)?, fit(cx, 1, ct)?]))
    };
    /// `a - b`.
    Sub, "sub", Joint, Rounding, |a, b| a - b, |cx, ct| {
        let minus = cx.func.emit1(Neg, &[ct])?;
        Ok(Vjp::Grads(smallvec![fit(cx, 0, ct)?, fit(cx, 1, minus)?]))
    };
    /// `a * b`.
    Mul, "mul", Each, Rounding, |a, b| a * b, |cx, ct| {
        let (a, b) = (cx.ins[0], cx.ins[1]);
        let ct = in_operand_type(cx, ct)?;
        let d_a = cx.func.emit1(Mul, &[ct, b])?;
        let d_b = cx.func.emit1(Mul, &[ct, a])?;
        Ok(Vjp::Grads(smallvec![fit(cx, 0, d_a)?, fit(cx, 1, d_b)?]))
    };
    /// `a / b`.
    Div, "div", No, Rounding, |a, b| a / b, |cx, ct| {
        let (b, y) = (cx.ins[1], cx.outs[0]);
        let ct = in_operand_type(cx, ct)?;
        let d_a = cx.func.emit1(Div, &[ct, b])?;
        let d_b = cx.func.emit1(Mul, &[d_a, y])?;
        let d_b = cx.func.emit1(Neg, &[d_b])?;
        Ok(Vjp::Grads(smallvec![fit(cx, 0, d_a)?, fit(cx, 1, d_b)?]))
    };
    /// The smaller; NaN if either is.
    Min, "min", No, Exact, |a, b| if a.is_nan() || a < b { a } else { b },
        |_, _| Ok(Vjp::NotDifferentiable(EXTREMUM));
    /// The larger; NaN if either is.
    Max, "max", No, Exact, |a, b| if a.is_nan() || a > b { a } else { b },
        |_, _| Ok(Vjp::NotDifferentiable(EXTREMUM));
}
