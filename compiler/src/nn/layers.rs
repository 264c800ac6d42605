//! Layers and functions models are made of.

use super::{Scope, Tensor};
use titan_ir::ops;
use titan_ir::{DType, Init, RopeScaling};

/// `y = x w^T`, no bias. Source: torch.nn.Linear.
#[derive(Debug)]
pub struct Linear {
    scope: Scope,
    w_nk: Tensor,
}

impl Linear {
    /// Shapes: `weight [out, in]`.
    pub fn new(scope: Scope, in_dim: u64, out_dim: u64, init: Init) -> Self {
        let w_nk = scope.weight("weight", &[out_dim, in_dim], init);
        Self { scope, w_nk }
    }

    /// Shapes: `[b, s, in] -> [b, s, out]`.
    pub fn call(&self, x_bsk: &Tensor) -> Tensor {
        let out = self.w_nk.ty().map_or(DType::F32, |ty| ty.dtype);
        self.scope.enter(|| x_bsk.apply(ops::einsum::Einsum::new("bsk,nk->bsn", out), &[&self.w_nk]))
    }
}

/// A row per token id. Source: torch.nn.Embedding.
#[derive(Debug)]
pub struct Embedding {
    scope: Scope,
    w_vd: Tensor,
}

impl Embedding {
    /// Shapes: `weight [num, dim]`.
    pub fn new(scope: Scope, num: u64, dim: u64, init: Init) -> Self {
        let w_vd = scope.weight("weight", &[num, dim], init);
        Self { scope, w_vd }
    }

    /// Shapes: `[b, s] -> [b, s, dim]`.
    pub fn call(&self, ids_bs: &Tensor) -> Tensor {
        self.scope.enter(|| self.w_vd.apply(ops::embedding::Embedding, &[ids_bs]))
    }
}

/// `x / sqrt(mean(x^2) + eps) * g` over the last dimension. Source: Zhang and Sennrich 2019.
#[derive(Debug)]
pub struct RmsNorm {
    scope: Scope,
    g_d: Tensor,
    eps: f64,
}

impl RmsNorm {
    /// Shapes: `weight [dim]`.
    pub fn new(scope: Scope, dim: u64, eps: f64) -> Self {
        let g_d = scope.weight("weight", &[dim], Init::Ones);
        Self { scope, g_d, eps }
    }

    /// Shapes: `[b, s, dim] -> [b, s, dim]`.
    pub fn call(&self, x_bsd: &Tensor) -> Tensor {
        self.scope.enter(|| x_bsd.apply(ops::rms_norm::RmsNorm { eps: self.eps }, &[&self.g_d]))
    }
}

/// Rotary position embedding of interleaved pairs. Source: Su et al. 2021, with the Llama 3.1 frequency rescale.
#[derive(Debug)]
pub struct Rope {
    cos_se: Tensor,
    sin_se: Tensor,
}

impl Rope {
    /// Tables for heads of `head_dim`.
    pub fn new(scope: &Scope, head_dim: u64, theta: f64, scaling: Option<RopeScaling>) -> Self {
        let dims = [scope.seq_len(), head_dim];
        let table = |name, sin| scope.buffer(name, &dims, Init::Rope { theta, scaling, sin });
        Self { cos_se: table("freqs_cis.cos", false), sin_se: table("freqs_cis.sin", true) }
    }

    /// Shapes: `[b, s, h, e] -> [b, s, h, e]`.
    pub fn call(&self, x_bshe: &Tensor) -> Tensor {
        x_bshe.apply(ops::rope::Rope { inverse: false }, &[&self.cos_se, &self.sin_se])
    }
}

/// Causal scaled dot-product attention; query head `h` uses key head `h / (heads / kv_heads)`.
///
/// Shapes: `q [b, s, h, e]`, `k` and `v [b, s, g, e]` `-> [b, s, h, e]`. Source: Vaswani et al. 2017; Ainslie et al. 2023.
pub fn attention(q_bshe: &Tensor, k_bsge: &Tensor, v_bsge: &Tensor) -> Tensor {
    let scale = 1.0 / (q_bshe.dim(3) as f64).sqrt();
    q_bshe.apply(ops::attention::Attention { causal: true, scale }, &[k_bsge, v_bsge])
}

/// Negative log likelihood of every label, f32; 0 where the label is -100.
///
/// Shapes: `logits [b, s, v]`, `labels [b, s]` `-> [b, s]`.
pub fn cross_entropy(logits_bsv: &Tensor, labels_bs: &Tensor) -> Tensor {
    logits_bsv.apply(ops::cross_entropy::CrossEntropy, &[labels_bs])
}
