//! `embedding` and its gradient.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::kernel::{Access, Native, ScatterAdd};
use crate::ops::util::{
    SECOND_ORDER, letters, letters_then, operands, tensor, want_dims, want_dtype, want_float,
    want_not_scalar, want_rank,
};
use crate::shard::{Linear, ShardRule};
use crate::{Cost, DType, DiagResult, Dims, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// Rows of a table. An id outside of the table reads row 0; the runtime refuses such ids where they enter.
///
/// # Shapes
/// table `[v, d]`, ids i32 `[..]`; result `[.., d]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding;

/// Gradient of the table: f32 sums of the rows of dy with equal id, in order.
///
/// # Shapes
/// ids i32 `[..]`, dy `[.., d]`; result f32 `[num, d]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingGrad {
    /// Rows of the table.
    pub num: u64,
}

/// `dims` with `last` appended.
fn then(dims: &[u64], last: u64) -> Dims {
    dims.iter().copied().chain([last]).collect()
}

impl OpRules for Embedding {
    fn name(&self) -> &'static str {
        "embedding"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        attrs.finish().map(|()| Self)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [table, ids] = operands("embedding", ins)?;
        want_float("embedding", "the table", table)?;
        want_rank("embedding", "the table", table, 2)?;
        want_dtype("embedding", "the ids", ids, DType::I32)?;
        want_not_scalar("embedding", "the ids", ids)?;
        Ok(smallvec![TensorType::new(table.dtype, &then(&ids.dims, table.dims[1]))])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(2)) };
        let num = cx.func.ty(cx.ins[0]).dims[0];
        let d_table = cx.func.emit1(EmbeddingGrad { num }, &[cx.ins[1], ct])?;
        Ok(Vjp::Grads(smallvec![Some(d_table), None]))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let lead = ins[1].rank();
        let mut rule = ShardRule::einsum("vw,->").replicate("v").linear(Linear::Each);
        rule.ins[1] = letters(lead);
        rule.outs[0] = letters_then(lead, 'w');
        rule
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let mut b = FragmentBuilder::rows(ins[1].num_elements(), ins[0].dims[1]);
        let row = b.input(ins[0].dtype, Access::Gather { ids: 1, num: ins[0].dims[0] });
        b.input(DType::I32, Access::Row);
        b.result(Out::Full, ins[0].dtype, row);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        // Reads the rows it gives, not the table.
        Cost::of(0, &[ins[1], outs[0]], outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let (num, width) = (ins[0].dims[0], ins[0].dims[1] as usize);
        let row = |id: f64| if (0.0..num as f64).contains(&id) { id as usize } else { 0 };
        let rows = ins[1].data.iter().flat_map(|&id| &ins[0].data[row(id) * width..][..width]);
        smallvec![tensor(outs[0], rows.copied().collect())]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Exact
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        vec![(Self, vec![TensorType::new(DType::F32, &[5, 7]), TensorType::new(DType::I32, &[2, 3])])]
    }
}

impl OpRules for EmbeddingGrad {
    fn name(&self) -> &'static str {
        "embedding_grad"
    }
    fn attrs(&self) -> Attrs {
        vec![("num", Attr::Int(self.num as i64))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let num = attrs.uint("num")?;
        attrs.finish().map(|()| Self { num })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [ids, dy] = operands("embedding_grad", ins)?;
        want_dtype("embedding_grad", "the ids", ids, DType::I32)?;
        want_not_scalar("embedding_grad", "the ids", ids)?;
        want_float("embedding_grad", "dy", dy)?;
        want_dims("embedding_grad", "dy", dy, &then(&ids.dims, dy.cols()))?;
        Ok(smallvec![TensorType::new(DType::F32, &[self.num, dy.cols()])])
    }
    fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::NotDifferentiable(SECOND_ORDER))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let lead = ins[0].rank();
        let mut rule = ShardRule::einsum(",->vw").replicate("v").linear(Linear::Each);
        rule.ins = vec![letters(lead), letters_then(lead, 'w')];
        rule
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        Lowering::Native(Native::ScatterAdd(ScatterAdd {
            dtype: ins[1].dtype,
            out: DType::F32,
            num: self.num,
            tokens: ins[0].num_elements(),
            cols: ins[1].cols(),
        }))
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::of(ins[1].num_elements(), ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        smallvec![tensor(outs[0], scatter_add(self.num, outs[0].cols(), &ins[0].data, &ins[1].data))]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        vec![(
            Self { num: 5 },
            vec![TensorType::new(DType::I32, &[2, 3]), TensorType::new(DType::F32, &[2, 3, 7])],
        )]
    }
}

/// The sums of the rows with equal id, `[num, cols]`; other ids are in no row.
pub(crate) fn scatter_add(num: u64, cols: u64, ids: &[f64], rows: &[f64]) -> Vec<f64> {
    let cols = cols as usize;
    let mut out = vec![0.0; num as usize * cols];
    for (&id, row) in ids.iter().zip(rows.chunks(cols)) {
        if (0.0..num as f64).contains(&id) {
            out[id as usize * cols..].iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }
    out
}
