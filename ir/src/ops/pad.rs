//! `pad` and `take_rows`: zero rows appended, and taken away again.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::ops::util::{operands, tensor, want_not_scalar};
use crate::shard::{Linear, ShardRule};
use crate::{Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// The operand followed by zero rows along dimension 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pad {
    /// Rows of the result.
    pub rows: u64,
}

/// The leading rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeRows {
    /// Rows of the result.
    pub rows: u64,
}

/// All dimensions but the first may be sharded.
fn rule(ins: &[&TensorType]) -> ShardRule {
    ShardRule::pointwise(ins[0].rank(), 1).replicate("a").linear(Linear::Each)
}

macro_rules! rows_op {
    ($ty:ident, $name:literal, $inverse:ident, $lower:expr, $fits:expr, $wants:literal, $sample:expr) => {
        impl OpRules for $ty {
            fn name(&self) -> &'static str {
                $name
            }
            fn attrs(&self) -> Attrs {
                vec![("rows", Attr::Int(self.rows as i64))]
            }
            fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
                let rows = attrs.uint("rows")?;
                attrs.finish().map(|()| Self { rows })
            }
            fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
                let [x] = operands($name, ins)?;
                want_not_scalar($name, "the operand", x)?;
                let mut ty = TensorType::new(x.dtype, &x.dims);
                let fits: fn(u64, u64) -> bool = $fits;
                if self.rows == 0 || !fits(x.dims[0], self.rows) {
                    let message =
                        format!("`{}` from {} to {} rows, expected {}", $name, x.dims[0], self.rows, $wants);
                    return Err(Diag::new("T0103", message));
                }
                ty.dims[0] = self.rows;
                Ok(smallvec![ty])
            }
            fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
                let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(1)) };
                let rows = cx.func.ty(cx.ins[0]).dims[0];
                Ok(Vjp::one(cx.func.emit1($inverse { rows }, &[ct])?))
            }
            fn shard(&self, ins: &[&TensorType]) -> ShardRule {
                rule(ins)
            }
            fn localize(&self, _: &[TensorType]) -> Op {
                self.clone().into()
            }
            fn lower(&self, _: &[&TensorType], _: &[&TensorType]) -> Lowering {
                $lower
            }
            fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
                if matches!($lower, Lowering::View) { Cost::default() } else { Cost::of(0, ins, outs) }
            }
            fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
                let mut data = ins[0].data.clone();
                data.resize(outs[0].num_elements() as usize, 0.0);
                smallvec![tensor(outs[0], data)]
            }
            fn numerics(&self) -> Numerics {
                Numerics::Exact
            }
            fn samples() -> Vec<(Self, Vec<TensorType>)> {
                vec![(Self { rows: $sample }, vec![TensorType::new(DType::F32, &[3, 5])])]
            }
        }
    };
}

rows_op!(Pad, "pad", TakeRows, Lowering::Pad, |from, to| to >= from, "at least as many", 4);
rows_op!(TakeRows, "take_rows", Pad, Lowering::View, |from, to| to <= from, "at most as many", 2);
