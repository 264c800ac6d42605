//! Elementwise functions of one tensor: `neg`, `sqrt`.

use crate::attrs::{AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::UnaryFn;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::ops::binary::{Add, Div};
use crate::ops::util::{ct_as, map, operands, want_float};
use crate::shard::{Linear, ShardRule};
use crate::{
    Cost, DType, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, ValueId, Vjp, VjpCx,
};
use smallvec::{SmallVec, smallvec};

fn lower(f: UnaryFn, ins: &[&TensorType]) -> Lowering {
    let mut b = FragmentBuilder::elastic(ins[0].num_elements());
    let x = b.input(ins[0].dtype, crate::kernel::Access::Full);
    let y = b.unary(f, x);
    b.result(Out::Full, ins[0].dtype, y);
    Lowering::Fragment(b.finish())
}

macro_rules! unary {
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
                let [x] = operands($name, ins)?;
                want_float($name, "the operand", x)?;
                Ok(smallvec![TensorType::new(x.dtype, &x.dims)])
            }
            fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
                let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(1)) };
                let vjp: fn(&mut VjpCx<'_>, ValueId) -> DiagResult<ValueId> = $vjp;
                Ok(Vjp::one(vjp(cx, ct)?))
            }
            fn shard(&self, ins: &[&TensorType]) -> ShardRule {
                ShardRule::pointwise(ins[0].rank(), 1).linear(Linear::$linear)
            }
            fn localize(&self, _: &[TensorType]) -> Op {
                self.clone().into()
            }
            fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
                lower(UnaryFn::$ty, ins)
            }
            fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
                Cost::elementwise(1, ins, outs)
            }
            fn eval(&self, ins: &[&Tensor], _: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
                smallvec![map(ins[0], $eval)]
            }
            fn numerics(&self) -> Numerics {
                Numerics::$numerics
            }
            fn samples() -> Vec<(Self, Vec<TensorType>)> {
                vec![(Self, vec![TensorType::new(DType::F32, &[3, 5])]), (Self, vec![TensorType::scalar(DType::Bf16)])]
            }
        }
    )* };
}

unary! {
    /// `-x`.
    Neg, "neg", Each, Exact, |x| -x, |cx, ct| cx.func.emit1(Neg, &[ct]);
    /// Square root.
    Sqrt, "sqrt", No, Rounding, f64::sqrt, |cx, ct| {
        let y = cx.outs[0];
        let ct = ct_as(cx, ct, cx.func.ty(y).dtype)?;
        let twice = cx.func.emit1(Add, &[y, y])?;
        cx.func.emit1(Div, &[ct, twice])
    };
}
