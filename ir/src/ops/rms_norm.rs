//! `rms_norm` and its gradient: f32 inside, the gain multiplied before the rounding.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::kernel::{Access, UnaryFn};
use crate::ops::util::{
    SECOND_ORDER, ct_as, lead, letters, letters_then, operands, tensor, want_dims, want_dtype, want_float,
    want_not_scalar,
};
use crate::shard::ShardRule;
use crate::{Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// `y = x rstd g` with `rstd = 1 / sqrt(mean(x^2) + eps)` over the last dimension. Source: Zhang and Sennrich, arXiv 1910.07467.
///
/// # Shapes
/// x `[.., d]`, g `[d]`; y as x, rstd f32 `[..]`.
#[derive(Debug, Clone, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f64,
}

/// `dx = rstd (dy g - x rstd^2 mean(dy g x))`, `dg = sum over rows of dy x rstd`.
///
/// # Shapes
/// x `[.., d]`, g `[d]`, rstd f32 `[..]`, dy as x; dx as x, dg f32 `[d]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RmsNormGrad;

impl OpRules for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }
    fn attrs(&self) -> Attrs {
        vec![("eps", Attr::Float(self.eps))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let eps = attrs.float("eps")?;
        attrs.finish().map(|()| Self { eps })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x, g] = operands("rms_norm", ins)?;
        want_float("rms_norm", "x", x)?;
        want_not_scalar("rms_norm", "x", x)?;
        want_float("rms_norm", "the gain", g)?;
        want_dims("rms_norm", "the gain", g, &[x.cols()])?;
        if !self.eps.is_finite() || self.eps < 0.0 {
            return Err(Diag::new(
                "T0105",
                format!("`rms_norm`: eps is {}, expected a number from 0", self.eps),
            ));
        }
        Ok(smallvec![TensorType::new(x.dtype, &x.dims), TensorType::new(DType::F32, lead(x))])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        if cx.cts[1].is_some() {
            return Ok(Vjp::NotDifferentiable("its second result only serves its gradient"));
        }
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(2)) };
        let ct = ct_as(cx, ct, cx.func.ty(cx.ins[0]).dtype)?;
        let grads = cx.func.emit(RmsNormGrad, &[cx.ins[0], cx.ins[1], cx.outs[1], ct])?;
        Ok(Vjp::Grads(grads.into_iter().map(Some).collect()))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let rank = ins[0].rank() - 1;
        let mut rule = ShardRule::einsum(",w->,").replicate("w");
        rule.ins[0] = letters_then(rank, 'w');
        rule.outs = vec![letters_then(rank, 'w'), letters(rank)];
        rule
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let cols = ins[0].cols();
        let mut b = FragmentBuilder::rows(ins[0].rows(), cols);
        let x = b.input(ins[0].dtype, Access::Full);
        let g = b.input(ins[1].dtype, Access::Col);
        let n = b.constant(cols as f32);
        let eps = b.constant(self.eps as f32);
        let square = b.mul(x, x);
        let sum = b.row_sum(square);
        let mean = b.div(sum, n);
        let shifted = b.add(mean, eps);
        let rstd = b.unary(UnaryFn::Rsqrt, shifted);
        let normal = b.mul(x, rstd);
        let y = b.mul(normal, g);
        b.result(Out::Full, ins[0].dtype, y);
        b.result(Out::Row, DType::F32, rstd);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::elementwise(4, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let g = &ins[1].data;
        let (mut y, mut rstds) = (Vec::new(), Vec::new());
        for row in ins[0].data.chunks(g.len()) {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / g.len() as f64;
            let rstd = 1.0 / (mean + self.eps).sqrt();
            y.extend(row.iter().zip(g).map(|(x, g)| x * rstd * g));
            rstds.push(rstd);
        }
        smallvec![tensor(outs[0], y), tensor(outs[1], rstds)]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let sample = |dtype, dims: &[u64]| {
            (Self { eps: 1e-5 }, vec![TensorType::new(dtype, dims), TensorType::new(dtype, &[5])])
        };
        vec![sample(DType::F32, &[2, 3, 5]), sample(DType::Bf16, &[4, 5])]
    }
}

impl OpRules for RmsNormGrad {
    fn name(&self) -> &'static str {
        "rms_norm_grad"
    }
    fn attrs(&self) -> Attrs {
        Attrs::new()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        attrs.finish().map(|()| Self)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x, g, rstd, dy] = operands("rms_norm_grad", ins)?;
        want_float("rms_norm_grad", "x", x)?;
        want_not_scalar("rms_norm_grad", "x", x)?;
        want_float("rms_norm_grad", "the gain", g)?;
        want_dims("rms_norm_grad", "the gain", g, &[x.cols()])?;
        want_dtype("rms_norm_grad", "rstd", rstd, DType::F32)?;
        want_dims("rms_norm_grad", "rstd", rstd, lead(x))?;
        want_dtype("rms_norm_grad", "dy", dy, x.dtype)?;
        want_dims("rms_norm_grad", "dy", dy, &x.dims)?;
        Ok(smallvec![TensorType::new(x.dtype, &x.dims), TensorType::new(DType::F32, &[x.cols()])])
    }
    fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::NotDifferentiable(SECOND_ORDER))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let rank = ins[0].rank() - 1;
        let full = letters_then(rank, 'w');
        let mut rule = ShardRule::einsum(",w,,->,w").replicate("w");
        rule.ins[0] = full.clone();
        rule.ins[2] = letters(rank);
        rule.ins[3] = full.clone();
        rule.outs[0] = full;
        rule
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let cols = ins[0].cols();
        let mut b = FragmentBuilder::rows(ins[0].rows(), cols);
        let x = b.input(ins[0].dtype, Access::Full);
        let g = b.input(ins[1].dtype, Access::Col);
        let rstd = b.input(DType::F32, Access::Row);
        let dy = b.input(ins[3].dtype, Access::Full);
        let n = b.constant(cols as f32);
        let normal = b.mul(x, rstd);
        let dy_g = b.mul(dy, g);
        let product = b.mul(dy_g, normal);
        let sum = b.row_sum(product);
        let mean = b.div(sum, n);
        let along = b.mul(normal, mean);
        let across = b.sub(dy_g, along);
        let dx = b.mul(across, rstd);
        let dg = b.mul(dy, normal);
        b.result(Out::Full, ins[0].dtype, dx);
        b.result(Out::ColSum, DType::F32, dg);
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::elementwise(9, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let (g, rstds) = (&ins[1].data, &ins[2].data);
        let width = g.len();
        let mut dg = vec![0.0; width];
        let mut dx = Vec::with_capacity(ins[0].data.len());
        for ((x, dy), rstd) in ins[0].data.chunks(width).zip(ins[3].data.chunks(width)).zip(rstds) {
            let mean = (0..width).map(|j| dy[j] * g[j] * x[j]).sum::<f64>() / width as f64;
            dx.extend((0..width).map(|j| rstd * (dy[j] * g[j] - x[j] * rstd * rstd * mean)));
            (0..width).for_each(|j| dg[j] += dy[j] * x[j] * rstd);
        }
        smallvec![tensor(outs[0], dx), tensor(outs[1], dg)]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let x = TensorType::new(DType::F32, &[2, 3, 5]);
        let (g, rstd) = (TensorType::new(DType::F32, &[5]), TensorType::new(DType::F32, &[2, 3]));
        vec![(Self, vec![x.clone(), g, rstd, x])]
    }
}
