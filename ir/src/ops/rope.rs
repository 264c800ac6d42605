//! `rope`: rotary position embedding of interleaved pairs, f32 inside.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::Access;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::ops::util::{ct_as, operands, tensor, want_dims, want_dtype, want_float, want_rank};
use crate::shard::ShardRule;
use crate::{Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// `y = x cos + swap(x) sin`, where `swap` exchanges columns `2i` and `2i + 1`; the sine table is negated at even columns, so that
/// this is a rotation. `inverse` subtracts: the rotation back, which is also the gradient. Source: Su et al., arXiv 2104.09864.
///
/// # Shapes
/// x `[b, s, h, e]`, cos and sin f32 `[s, e]`; y as x.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rope {
    /// Rotate back.
    pub inverse: bool,
}

impl OpRules for Rope {
    fn name(&self) -> &'static str {
        "rope"
    }
    fn attrs(&self) -> Attrs {
        vec![("inverse", Attr::Bool(self.inverse))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let inverse = attrs.bool("inverse")?;
        attrs.finish().map(|()| Self { inverse })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x, cos, sin] = operands("rope", ins)?;
        want_float("rope", "x", x)?;
        want_rank("rope", "x", x, 4)?;
        if x.cols() % 2 != 0 {
            let message =
                format!("`rope` rotates pairs: the head dimension {} of {:?} is odd", x.cols(), x.dims);
            return Err(Diag::new("T0106", message));
        }
        for (what, table) in [("the cosine table", cos), ("the sine table", sin)] {
            want_dtype("rope", what, table, DType::F32)?;
            want_dims("rope", what, table, &[x.dims[1], x.dims[3]])?;
        }
        Ok(smallvec![TensorType::new(x.dtype, &x.dims)])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(3)) };
        let ct = ct_as(cx, ct, cx.func.ty(cx.ins[0]).dtype)?;
        let d_x = cx.func.emit1(Self { inverse: !self.inverse }, &[ct, cx.ins[1], cx.ins[2]])?;
        Ok(Vjp::Grads(smallvec![Some(d_x), None, None]))
    }
    fn shard(&self, _: &[&TensorType]) -> ShardRule {
        ShardRule::einsum("bshe,se,se->bshe").replicate("e")
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let [batch, tokens, heads, width] = ins[0].dims[..] else {
            unreachable!("`infer` accepted 4 dimensions")
        };
        let mut b = FragmentBuilder::rows(batch * tokens, heads * width);
        let table = Access::Table { row_div: 1, row_mod: tokens, width };
        let x = b.input(ins[0].dtype, Access::Full);
        let cos = b.input(DType::F32, table);
        let sin = b.input(DType::F32, table);
        let swapped = b.swap_pairs(x);
        let along = b.mul(x, cos);
        let across = b.mul(swapped, sin);
        let y = if self.inverse { b.sub(along, across) } else { b.add(along, across) };
        b.result(Out::Full, ins[0].dtype, y);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::elementwise(3, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let (x, cos, sin) = (&ins[0].data, &ins[1].data, &ins[2].data);
        let [_, tokens, heads, width] = ins[0].dims[..] else {
            unreachable!("`infer` accepted 4 dimensions")
        };
        let sign = if self.inverse { -1.0 } else { 1.0 };
        let at = |i: usize| {
            let token = i as u64 / (heads * width) % tokens;
            let j = (token * width + i as u64 % width) as usize;
            // A head starts at an even column, so the pair of an element differs in the last bit of its position.
            x[i] * cos[j] + sign * x[i ^ 1] * sin[j]
        };
        smallvec![tensor(outs[0], (0..x.len()).map(at).collect())]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let table = TensorType::new(DType::F32, &[3, 6]);
        let sample = |inverse, dtype| {
            (Self { inverse }, vec![TensorType::new(dtype, &[2, 3, 4, 6]), table.clone(), table.clone()])
        };
        vec![sample(false, DType::F32), sample(true, DType::Bf16)]
    }
}
