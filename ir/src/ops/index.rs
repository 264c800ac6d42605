//! `index`: one element of a table.

use crate::attrs::{AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::kernel::{Access, BinaryFn};
use crate::ops::util::{operands, tensor, want_dims, want_dtype, want_rank};
use crate::shard::ShardRule;
use crate::{Cost, DType, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// `table[i]`; past an end the element at that end. The learning rate of a step.
///
/// # Shapes
/// table f32 `[t]`, i i32 scalar; result f32 scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index;

impl OpRules for Index {
    fn name(&self) -> &'static str {
        "index"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        attrs.finish().map(|()| Self)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [table, i] = operands("index", ins)?;
        want_dtype("index", "the table", table, DType::F32)?;
        want_rank("index", "the table", table, 1)?;
        want_dtype("index", "the index", i, DType::I32)?;
        want_dims("index", "the index", i, &[])?;
        Ok(smallvec![TensorType::scalar(DType::F32)])
    }
    fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::NotDifferentiable("it reads tables of constants"))
    }
    fn shard(&self, _: &[&TensorType]) -> ShardRule {
        ShardRule::einsum("t,->").replicate("t")
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    /// One row: the sum of the elements whose column is the index, which is one element.
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let len = ins[0].dims[0];
        let mut b = FragmentBuilder::rows(1, len);
        let table = b.input(DType::F32, Access::Full);
        let i = b.input(DType::I32, Access::Scalar);
        let first = b.constant(0.0);
        let last = b.constant((len - 1) as f32);
        let i = b.binary(BinaryFn::Max, i, first);
        let i = b.binary(BinaryFn::Min, i, last);
        let j = b.col_index();
        let picked = b.select_eq(j, i, table, first);
        let element = b.row_sum(picked);
        b.result(Out::Row, DType::F32, element);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::of(0, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let table = &ins[0].data;
        let i = ins[1].data[0].clamp(0.0, (table.len() - 1) as f64) as usize;
        smallvec![tensor(outs[0], vec![table[i]])]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Exact
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        vec![(Self, vec![TensorType::new(DType::F32, &[7]), TensorType::scalar(DType::I32)])]
    }
}
