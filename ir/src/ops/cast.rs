//! `cast`: change of element type.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::Access;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::ops::util::{ct_as, operands};
use crate::shard::{Linear, ShardRule};
use crate::{Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// Change of element type, to the nearest value, ties to even. Integers up to 2^24 are exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cast {
    /// The new element type: f32 or bf16.
    pub to: DType,
}

impl OpRules for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }
    fn attrs(&self) -> Attrs {
        vec![("to", Attr::DType(self.to))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let to = attrs.dtype("to")?;
        attrs.finish().map(|()| Self { to })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x] = operands("cast", ins)?;
        if !self.to.is_float() {
            return Err(Diag::new(
                "T0102",
                format!("`cast` goes to f32 or bf16, not from {} to {}", x.dtype, self.to),
            ));
        }
        Ok(smallvec![TensorType::new(self.to, &x.dims)])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        let dtype = cx.func.ty(cx.ins[0]).dtype;
        let Some(ct) = cx.cts[0].filter(|_| dtype.is_float()) else { return Ok(Vjp::zero(1)) };
        Ok(Vjp::one(ct_as(cx, ct, dtype)?))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        ShardRule::pointwise(ins[0].rank(), 1).linear(Linear::Each)
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let mut b = FragmentBuilder::elastic(ins[0].num_elements());
        let x = b.input(ins[0].dtype, Access::Full);
        b.result(Out::Full, self.to, x);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::of(0, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], _: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        smallvec![ins[0].clone()]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Exact
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let t = |dtype| vec![TensorType::new(dtype, &[3, 5])];
        vec![
            (Self { to: DType::Bf16 }, t(DType::F32)),
            (Self { to: DType::F32 }, t(DType::Bf16)),
            (Self { to: DType::F32 }, t(DType::I32)),
        ]
    }
}
