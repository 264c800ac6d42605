//! `full`: a tensor of one repeated value.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::ops::util::{operands, tensor};
use crate::shard::ShardRule;
use crate::{Cost, DType, DiagResult, Dims, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// A tensor of one repeated value.
#[derive(Debug, Clone, PartialEq)]
pub struct Full {
    /// The value, rounded to the element type.
    pub value: f64,
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub dims: Dims,
}

impl Full {
    /// A tensor of one repeated value.
    pub fn new(value: f64, dtype: DType, dims: &[u64]) -> Self {
        Self { value, dtype, dims: dims.into() }
    }

    /// An f32 scalar.
    pub fn scalar(value: f64) -> Self {
        Self::new(value, DType::F32, &[])
    }
}

impl OpRules for Full {
    fn name(&self) -> &'static str {
        "full"
    }
    fn attrs(&self) -> Attrs {
        vec![
            ("value", Attr::Float(self.value)),
            ("dtype", Attr::DType(self.dtype)),
            ("dims", Attr::Dims(self.dims.clone())),
        ]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let op =
            Self { value: attrs.float("value")?, dtype: attrs.dtype("dtype")?, dims: attrs.dims("dims")? };
        attrs.finish().map(|()| op)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [] = operands("full", ins)?;
        Ok(smallvec![TensorType::new(self.dtype, &self.dims)])
    }
    fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::zero(0))
    }
    fn shard(&self, _: &[&TensorType]) -> ShardRule {
        ShardRule::pointwise(self.dims.len(), 0)
    }
    fn localize(&self, outs: &[TensorType]) -> Op {
        Self { dims: outs[0].dims.clone(), ..*self }.into()
    }
    fn lower(&self, _: &[&TensorType], outs: &[&TensorType]) -> Lowering {
        let mut b = FragmentBuilder::elastic(outs[0].num_elements());
        let value = b.constant(self.value as f32);
        b.result(Out::Full, self.dtype, value);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::of(0, ins, outs)
    }
    fn eval(&self, _: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        smallvec![tensor(outs[0], vec![self.value; outs[0].num_elements() as usize])]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Exact
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        vec![(Self::new(0.1, DType::F32, &[3, 5]), vec![]), (Self::new(-2.5, DType::Bf16, &[]), vec![])]
    }
}
