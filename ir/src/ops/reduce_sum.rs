//! `reduce_sum`: sum over leading or over all dimensions.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::Access;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::ops::broadcast::Broadcast;
use crate::ops::util::{ct_as, operands, tensor, want_float};
use crate::shard::{Linear, ShardRule};
use crate::{Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// Sum over leading or over all dimensions, accumulated in f32.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReduceSum {
    /// Number of leading dimensions summed; `None` for all.
    pub num_dims: Option<u64>,
    /// Element type of the result.
    pub out: DType,
}

impl ReduceSum {
    /// Over all dimensions, to an f32 scalar.
    pub fn all() -> Self {
        Self { num_dims: None, out: DType::F32 }
    }

    /// Over the leading `num_dims` dimensions, to f32.
    pub fn leading(num_dims: u64) -> Self {
        Self { num_dims: Some(num_dims), out: DType::F32 }
    }

    /// Number of dimensions summed of an operand of this rank.
    fn summed(&self, rank: usize) -> usize {
        self.num_dims.map_or(rank, |n| n as usize)
    }
}

impl OpRules for ReduceSum {
    fn name(&self) -> &'static str {
        "reduce_sum"
    }
    fn attrs(&self) -> Attrs {
        let num_dims = self.num_dims.map(|n| ("num_dims", Attr::Int(n as i64)));
        num_dims.into_iter().chain([("out", Attr::DType(self.out))]).collect()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let num_dims = if attrs.has("num_dims") { Some(attrs.uint("num_dims")?) } else { None };
        let op = Self { num_dims, out: attrs.dtype("out")? };
        attrs.finish().map(|()| op)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x] = operands("reduce_sum", ins)?;
        want_float("reduce_sum", "the operand", x)?;
        if self.out != DType::F32 && self.out != x.dtype {
            let message = format!("`reduce_sum` of {} gives {0} or f32, not {}", x.dtype, self.out);
            return Err(Diag::new("T0102", message));
        }
        if self.num_dims.is_some_and(|n| n == 0 || n > x.rank() as u64) {
            let message = format!("`reduce_sum` over {} leading dimensions of {:?}", self.summed(0), x.dims);
            return Err(Diag::new("T0104", message).help("sum over at least 1 and at most all dimensions"));
        }
        Ok(smallvec![TensorType::new(self.out, &x.dims[self.summed(x.rank())..])])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(1)) };
        let x = cx.func.ty(cx.ins[0]).clone();
        let ct = if cx.func.ty(ct).dtype == DType::F32 { ct } else { ct_as(cx, ct, x.dtype)? };
        Ok(Vjp::one(cx.func.emit1(Broadcast { dims: x.dims }, &[ct])?))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let mut rule = ShardRule::pointwise(ins[0].rank(), 1).linear(Linear::Each);
        rule.outs[0].drain(..self.summed(ins[0].rank()));
        rule
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Lowering {
        let (all, cols) = (ins[0].num_elements(), outs[0].num_elements());
        let to_scalar = outs[0].rank() == 0;
        let mut b =
            if to_scalar { FragmentBuilder::elastic(all) } else { FragmentBuilder::rows(all / cols, cols) };
        let x = b.input(ins[0].dtype, Access::Full);
        b.result(if to_scalar { Out::AllSum } else { Out::ColSum }, self.out, x);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::elementwise(1, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let mut sums = vec![0.0; outs[0].num_elements() as usize];
        for row in ins[0].data.chunks(sums.len()) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        smallvec![tensor(outs[0], sums)]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let t = |dtype| vec![TensorType::new(dtype, &[2, 3, 5])];
        vec![
            (Self::all(), t(DType::F32)),
            (Self::leading(1), t(DType::Bf16)),
            (Self { num_dims: Some(2), out: DType::Bf16 }, t(DType::Bf16)),
            (Self::leading(3), t(DType::F32)),
        ]
    }
}
