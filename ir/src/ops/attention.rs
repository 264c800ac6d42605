//! `attention` and its gradient.
//!
//! Shapes: `q_bshe`, `o_bshe`; `k_btge`, `v_btge` with `h` a multiple of `g`; `lse_bhs` f32. Query head `h` uses key head `h / (heads / kv_heads)`.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::{self, Native};
use crate::ops::util::{SECOND_ORDER, ct_as, operands, tensor, want_dims, want_dtype, want_float, want_rank};
use crate::shard::ShardRule;
use crate::{Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// `o = softmax(scale q k^T) v`, and the natural log of the sums of exponentials of scaled scores. Source: Vaswani et al., arXiv 1706.03762.
///
/// # Shapes
/// q `[b, s, h, e]`, k and v `[b, t, g, e]`; o as q, lse f32 `[b, h, s]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Attention {
    /// Query `i` sees keys `0..=i`.
    pub causal: bool,
    /// Factor on the scores.
    pub scale: f64,
}

/// Gradient of [`Attention`]. Source: Dao et al., arXiv 2205.14135, appendix B.
///
/// # Shapes
/// q, k, v, o, lse as there, d_o as o; d_q as q, d_k and d_v as k.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionGrad {
    /// See [`Attention`].
    pub causal: bool,
    /// See [`Attention`].
    pub scale: f64,
}

/// Checks q, k and v.
fn check(name: &str, scale: f64, q: &TensorType, k: &TensorType, v: &TensorType) -> DiagResult<()> {
    want_float(name, "q", q)?;
    want_rank(name, "q", q, 4)?;
    want_dtype(name, "k", k, q.dtype)?;
    want_rank(name, "k", k, 4)?;
    want_dims(name, "k", k, &[q.dims[0], k.dims[1], k.dims[2], q.dims[3]])?;
    want_dtype(name, "v", v, q.dtype)?;
    want_dims(name, "v", v, &k.dims)?;
    if !q.dims[2].is_multiple_of(k.dims[2]) {
        let message =
            format!("`{name}`: {} query heads are no multiple of {} key heads", q.dims[2], k.dims[2]);
        return Err(Diag::new("T0106", message));
    }
    if !scale.is_finite() {
        return Err(Diag::new("T0105", format!("`{name}`: scale is {scale}, expected a finite number")));
    }
    Ok(())
}

/// The type of lse.
fn lse_type(q: &TensorType) -> TensorType {
    TensorType::new(DType::F32, &[q.dims[0], q.dims[2], q.dims[1]])
}

fn spec(causal: bool, scale: f64, q: &TensorType, k: &TensorType) -> kernel::Attention {
    kernel::Attention {
        dtype: q.dtype,
        batch: q.dims[0],
        q_tokens: q.dims[1],
        kv_tokens: k.dims[1],
        heads: q.dims[2],
        kv_heads: k.dims[2],
        head_dim: q.dims[3],
        causal,
        scale_bits: (scale as f32).to_bits(),
    }
}

/// Pairs of query and key that see each other, times 2 head_dim: the operations of one matrix product.
fn product_flops(causal: bool, q: &TensorType, k: &TensorType) -> u64 {
    let (tokens, keys) = (q.dims[1], k.dims[1]);
    let pairs = if causal { (0..tokens).map(|i| (i + 1).min(keys)).sum() } else { tokens * keys };
    2 * q.dims[0] * q.dims[2] * pairs * q.dims[3]
}

fn read_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<(bool, f64)> {
    let read = (attrs.bool("causal")?, attrs.float("scale")?);
    attrs.finish().map(|()| read)
}

fn samples() -> [(bool, f64, TensorType, TensorType); 3] {
    let t = |dims: &[u64]| TensorType::new(DType::F32, dims);
    [
        (true, 0.5, t(&[2, 5, 4, 6]), t(&[2, 5, 2, 6])),
        (false, 0.408_248_290_463_863, t(&[1, 3, 2, 4]), t(&[1, 5, 2, 4])),
        (true, 0.25, t(&[2, 3, 4, 2]), t(&[2, 3, 4, 2])),
    ]
}

impl OpRules for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }
    fn attrs(&self) -> Attrs {
        vec![("causal", Attr::Bool(self.causal)), ("scale", Attr::Float(self.scale))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let (causal, scale) = read_attrs(attrs)?;
        Ok(Self { causal, scale })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [q, k, v] = operands("attention", ins)?;
        check("attention", self.scale, q, k, v)?;
        Ok(smallvec![TensorType::new(q.dtype, &q.dims), lse_type(q)])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        if cx.cts[1].is_some() {
            return Ok(Vjp::NotDifferentiable("its second result only serves its gradient"));
        }
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(3)) };
        let ct = ct_as(cx, ct, cx.func.ty(cx.ins[0]).dtype)?;
        let grad = AttentionGrad { causal: self.causal, scale: self.scale };
        let ins = [cx.ins[0], cx.ins[1], cx.ins[2], cx.outs[0], cx.outs[1], ct];
        Ok(Vjp::Grads(cx.func.emit(grad, &ins)?.into_iter().map(Some).collect()))
    }
    fn shard(&self, _: &[&TensorType]) -> ShardRule {
        ShardRule::einsum("bshe,bthe,bthe->bshe,bhs").replicate("ste")
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        Lowering::Native(Native::Attention(spec(self.causal, self.scale, ins[0], ins[1])))
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::of(2 * product_flops(self.causal, ins[0], ins[1]), ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let heads = Heads::new(self.causal, self.scale, &outs[0].dims, &ins[1].dims);
        let [o, lse] = heads.forward(&ins[0].data, &ins[1].data, &ins[2].data);
        smallvec![tensor(outs[0], o), tensor(outs[1], lse)]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let sample = |(causal, scale, q, k): (bool, f64, TensorType, TensorType)| {
            (Self { causal, scale }, vec![q, k.clone(), k])
        };
        samples().into_iter().map(sample).collect()
    }
}

impl OpRules for AttentionGrad {
    fn name(&self) -> &'static str {
        "attention_grad"
    }
    fn attrs(&self) -> Attrs {
        vec![("causal", Attr::Bool(self.causal)), ("scale", Attr::Float(self.scale))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let (causal, scale) = read_attrs(attrs)?;
        Ok(Self { causal, scale })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [q, k, v, o, lse, d_o] = operands("attention_grad", ins)?;
        check("attention_grad", self.scale, q, k, v)?;
        for (what, ty) in [("o", o), ("d_o", d_o)] {
            want_dtype("attention_grad", what, ty, q.dtype)?;
            want_dims("attention_grad", what, ty, &q.dims)?;
        }
        want_dtype("attention_grad", "lse", lse, DType::F32)?;
        want_dims("attention_grad", "lse", lse, &lse_type(q).dims)?;
        Ok([q, k, v].into_iter().map(|t| TensorType::new(t.dtype, &t.dims)).collect())
    }
    fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::NotDifferentiable(SECOND_ORDER))
    }
    fn shard(&self, _: &[&TensorType]) -> ShardRule {
        ShardRule::einsum("bshe,bthe,bthe,bshe,bhs,bshe->bshe,bthe,bthe").replicate("ste")
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        Lowering::Native(Native::AttentionGrad(spec(self.causal, self.scale, ins[0], ins[1])))
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::of(5 * product_flops(self.causal, ins[0], ins[1]), ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let heads = Heads::new(self.causal, self.scale, &outs[0].dims, &outs[1].dims);
        let operands: Vec<&[f64]> = ins.iter().map(|t| t.data.as_slice()).collect();
        heads.backward(&operands).into_iter().zip(outs).map(|(data, ty)| tensor(ty, data)).collect()
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let sample = |(causal, scale, q, k): (bool, f64, TensorType, TensorType)| {
            let lse = lse_type(&q);
            (Self { causal, scale }, vec![q.clone(), k.clone(), k, q.clone(), lse, q])
        };
        samples().into_iter().map(sample).collect()
    }
}

/// Attention in f64, a query at a time.
pub(crate) struct Heads {
    causal: bool,
    scale: f64,
    batch: usize,
    tokens: usize,
    keys: usize,
    heads: usize,
    kv_heads: usize,
    width: usize,
}

impl Heads {
    /// Of these dimensions of q and k.
    pub(crate) fn new(causal: bool, scale: f64, q: &[u64], k: &[u64]) -> Self {
        let [batch, tokens, heads, width] = [0, 1, 2, 3].map(|i| q[i] as usize);
        Self { causal, scale, batch, tokens, keys: k[1] as usize, heads, kv_heads: k[2] as usize, width }
    }

    /// Calls `f` with every query: its row in q, its element in lse, and the rows in k of the keys it sees.
    fn for_each_query(&self, mut f: impl FnMut(usize, usize, &mut dyn Iterator<Item = usize>)) {
        let group = self.heads / self.kv_heads;
        for b in 0..self.batch {
            for h in 0..self.heads {
                for s in 0..self.tokens {
                    let seen = if self.causal { self.keys.min(s + 1) } else { self.keys };
                    let mut keys = (0..seen).map(|t| (b * self.keys + t) * self.kv_heads + h / group);
                    f(
                        (b * self.tokens + s) * self.heads + h,
                        (b * self.heads + h) * self.tokens + s,
                        &mut keys,
                    );
                }
            }
        }
    }

    fn row<'a>(&self, x: &'a [f64], row: usize) -> &'a [f64] {
        &x[row * self.width..][..self.width]
    }

    fn add(&self, x: &mut [f64], row: usize, factor: f64, y: &[f64]) {
        x[row * self.width..][..self.width].iter_mut().zip(y).for_each(|(x, y)| *x += factor * y);
    }

    /// o and lse.
    pub(crate) fn forward(&self, q: &[f64], k: &[f64], v: &[f64]) -> [Vec<f64>; 2] {
        let mut o = vec![0.0; q.len()];
        let mut lse = vec![0.0; q.len() / self.width];
        self.for_each_query(|query, at, keys| {
            let scores: Vec<(usize, f64)> =
                keys.map(|key| (key, self.scale * dot(self.row(q, query), self.row(k, key)))).collect();
            let max = scores.iter().fold(f64::NEG_INFINITY, |m, (_, x)| m.max(*x));
            lse[at] = max + scores.iter().map(|(_, x)| (x - max).exp()).sum::<f64>().ln();
            for (key, score) in scores {
                self.add(&mut o, query, (score - lse[at]).exp(), self.row(v, key));
            }
        });
        [o, lse]
    }

    /// d_q, d_k, d_v of q, k, v, o, lse, d_o.
    pub(crate) fn backward(&self, ins: &[&[f64]]) -> [Vec<f64>; 3] {
        let [q, k, v, o, lse, d_o] = ins else { unreachable!("`infer` accepted 6 operands") };
        let [mut d_q, mut d_k, mut d_v] = [q, k, v].map(|x| vec![0.0; x.len()]);
        self.for_each_query(|query, at, keys| {
            let (q_row, d_row) = (self.row(q, query), self.row(d_o, query));
            let mean = dot(d_row, self.row(o, query));
            for key in keys {
                let p = (self.scale * dot(q_row, self.row(k, key)) - lse[at]).exp();
                let d_score = self.scale * p * (dot(d_row, self.row(v, key)) - mean);
                self.add(&mut d_v, key, p, d_row);
                self.add(&mut d_q, query, d_score, self.row(k, key));
                self.add(&mut d_k, key, d_score, q_row);
            }
        });
        [d_q, d_k, d_v]
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
