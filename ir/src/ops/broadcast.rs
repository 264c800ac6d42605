//! `broadcast`: repetition along new leading dimensions.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::Access;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::ops::reduce_sum::ReduceSum;
use crate::ops::util::{letters, operands, tensor, want_float};
use crate::shard::{Linear, ShardRule};
use crate::{
    Cost, DType, Diag, DiagResult, Dims, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx,
};
use smallvec::{SmallVec, smallvec};

/// The operand, whose dimensions end the new ones, repeated along the leading ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broadcast {
    /// The new dimensions.
    pub dims: Dims,
}

impl Broadcast {
    /// To these dimensions.
    pub fn new(dims: &[u64]) -> Self {
        Self { dims: dims.into() }
    }
}

impl OpRules for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }
    fn attrs(&self) -> Attrs {
        vec![("dims", Attr::Dims(self.dims.clone()))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let dims = attrs.dims("dims")?;
        attrs.finish().map(|()| Self { dims })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x] = operands("broadcast", ins)?;
        want_float("broadcast", "the operand", x)?;
        if !self.dims.ends_with(&x.dims) {
            let message = format!(
                "`broadcast`: {:?} does not end with the operand's dimensions {:?}",
                self.dims, x.dims
            );
            return Err(Diag::new("T0103", message));
        }
        Ok(smallvec![TensorType::new(x.dtype, &self.dims)])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(1)) };
        let new = self.dims.len() - cx.func.ty(cx.ins[0]).rank();
        Ok(Vjp::one(if new == 0 { ct } else { cx.func.emit1(ReduceSum::leading(new as u64), &[ct])? }))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let mut rule = ShardRule::pointwise(self.dims.len(), 1).linear(Linear::Each);
        rule.ins[0] = letters(self.dims.len()).split_off(self.dims.len() - ins[0].rank());
        rule
    }
    fn localize(&self, outs: &[TensorType]) -> Op {
        Self { dims: outs[0].dims.clone() }.into()
    }
    fn lower(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Lowering {
        let (all, cols) = (outs[0].num_elements(), ins[0].num_elements());
        let mut b =
            if cols == 1 { FragmentBuilder::elastic(all) } else { FragmentBuilder::rows(all / cols, cols) };
        let x = b.input(ins[0].dtype, if cols == 1 { Access::Scalar } else { Access::Col });
        b.result(Out::Full, ins[0].dtype, x);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::of(0, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let times = outs[0].num_elements() as usize / ins[0].data.len();
        smallvec![tensor(outs[0], ins[0].data.repeat(times))]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Exact
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        vec![
            (Self::new(&[3, 5]), vec![TensorType::scalar(DType::F32)]),
            (Self::new(&[2, 3, 5]), vec![TensorType::new(DType::F32, &[5])]),
            (Self::new(&[2, 3, 5]), vec![TensorType::new(DType::Bf16, &[3, 5])]),
        ]
    }
}
