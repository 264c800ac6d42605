//! Llama 3. Source: Grattafiori et al. 2024, "The Llama 3 Herd of Models"; sizes and initialisation as torchtitan's.

use super::Model;
use crate::nn::{Embedding, Linear, RmsNorm, Rope, Scope, Tensor, attention};
use serde::{Deserialize, Serialize};
use titan_ir::artifact::HfName;
use titan_ir::{Diag, DiagResult, Init, RopeScaling};

/// Sizes of one flavor. Every field can be set under `[titan.model_args]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Width of the residual stream.
    pub dim: u64,
    /// Transformer blocks.
    pub n_layers: u64,
    /// Query heads.
    pub n_heads: u64,
    /// Key and value heads; as many as query heads when not given.
    pub n_kv_heads: Option<u64>,
    /// Elements of a head; `dim / n_heads` when not given.
    pub head_dim: Option<u64>,
    /// Width of the feed-forward layer; from the next two when not given.
    pub hidden_dim: Option<u64>,
    /// Factor on `8 / 3 dim`.
    pub ffn_dim_multiplier: Option<f64>,
    /// The feed-forward width is rounded up to a multiple of it.
    pub multiple_of: u64,
    /// Rows of the embedding table.
    pub vocab_size: u64,
    /// Added to the mean square.
    pub norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Divisor of the lowest rotary frequencies.
    pub rope_scaling_factor: f64,
    /// Wavelengths above `rope_original_max_seq_len / rope_low_freq_factor` are divided.
    pub rope_low_freq_factor: f64,
    /// Wavelengths below `rope_original_max_seq_len / rope_high_freq_factor` stay.
    pub rope_high_freq_factor: f64,
    /// Context length before the rescale.
    pub rope_original_max_seq_len: f64,
    /// Whether output projections are initialised by their own depth or by the model's.
    pub depth_init: bool,
}

impl Args {
    fn base(dim: u64, n_layers: u64, n_heads: u64, n_kv_heads: Option<u64>, vocab_size: u64) -> Self {
        Self {
            dim,
            n_layers,
            n_heads,
            n_kv_heads,
            head_dim: None,
            hidden_dim: None,
            ffn_dim_multiplier: None,
            multiple_of: 256,
            vocab_size,
            norm_eps: 1e-5,
            rope_theta: 500_000.0,
            rope_scaling_factor: 8.0,
            rope_low_freq_factor: 1.0,
            rope_high_freq_factor: 4.0,
            rope_original_max_seq_len: 8192.0,
            depth_init: true,
        }
    }

    fn kv_heads(&self) -> u64 {
        self.n_kv_heads.unwrap_or(self.n_heads)
    }

    fn head_dim(&self) -> u64 {
        self.head_dim.unwrap_or(self.dim / self.n_heads)
    }

    /// Width of the feed-forward layer: two thirds of `4 dim`, scaled, rounded up.
    fn hidden_dim(&self) -> u64 {
        self.hidden_dim.unwrap_or_else(|| {
            let hidden = 2 * (4 * self.dim) / 3;
            let hidden = self.ffn_dim_multiplier.map_or(hidden, |factor| (factor * hidden as f64) as u64);
            hidden.next_multiple_of(self.multiple_of)
        })
    }

    fn rope_scaling(&self) -> RopeScaling {
        RopeScaling {
            factor: self.rope_scaling_factor,
            low_freq: self.rope_low_freq_factor,
            high_freq: self.rope_high_freq_factor,
            original: self.rope_original_max_seq_len,
        }
    }
}

/// Weights drawn from a normal distribution cut at two, as torchtitan draws them.
fn trunc_normal(std: f64) -> Init {
    Init::TruncNormal { std, low: -2.0, high: 2.0 }
}

/// Grouped-query self-attention with rotary positions.
#[derive(Debug)]
struct Attention {
    wq: Linear,
    wk: Linear,
    wv: Linear,
    wo: Linear,
    heads: u64,
    kv_heads: u64,
}

impl Attention {
    fn new(at: &Scope, args: &Args, out_init: Init) -> Self {
        let (heads, kv_heads, head_dim) = (args.n_heads, args.kv_heads(), args.head_dim());
        let project = |name, out_dim| Linear::new(at.child(name), args.dim, out_dim, trunc_normal(0.02));
        Self {
            wq: project("wq", heads * head_dim),
            wk: project("wk", kv_heads * head_dim),
            wv: project("wv", kv_heads * head_dim),
            wo: Linear::new(at.child("wo"), heads * head_dim, args.dim, out_init),
            heads,
            kv_heads,
        }
    }

    fn call(&self, x: &Tensor, rope: &Rope) -> Tensor {
        let q = rope.call(&self.wq.call(x).split_heads(self.heads));
        let k = rope.call(&self.wk.call(x).split_heads(self.kv_heads));
        let v = self.wv.call(x).split_heads(self.kv_heads);
        self.wo.call(&attention(&q, &k, &v).merge_heads())
    }
}

/// `w2(silu(w1 x) * (w3 x))`. Source: Shazeer 2020.
#[derive(Debug)]
struct FeedForward {
    w1: Linear,
    w2: Linear,
    w3: Linear,
}

impl FeedForward {
    fn new(at: &Scope, args: &Args, out_init: Init) -> Self {
        let (dim, hidden) = (args.dim, args.hidden_dim());
        Self {
            w1: Linear::new(at.child("w1"), dim, hidden, trunc_normal(0.02)),
            w2: Linear::new(at.child("w2"), hidden, dim, out_init.clone()),
            w3: Linear::new(at.child("w3"), dim, hidden, out_init),
        }
    }

    fn call(&self, x: &Tensor) -> Tensor {
        self.w2.call(&(self.w1.call(x).silu() * self.w3.call(x)))
    }
}

/// One transformer block.
#[derive(Debug)]
struct Block {
    at: Scope,
    attention: Attention,
    feed_forward: FeedForward,
    attention_norm: RmsNorm,
    ffn_norm: RmsNorm,
}

impl Block {
    fn new(at: Scope, args: &Args, layer: u64) -> Self {
        let depth = if args.depth_init { layer + 1 } else { args.n_layers };
        let out_init = trunc_normal(0.02 / ((2 * depth) as f64).sqrt());
        Self {
            attention: Attention::new(&at.child("attention"), args, out_init.clone()),
            feed_forward: FeedForward::new(&at.child("feed_forward"), args, out_init),
            attention_norm: RmsNorm::new(at.child("attention_norm"), args.dim, args.norm_eps),
            ffn_norm: RmsNorm::new(at.child("ffn_norm"), args.dim, args.norm_eps),
            at,
        }
    }

    fn call(&self, x: &Tensor, rope: &Rope) -> Tensor {
        let attended =
            self.at.child("attention").enter(|| self.attention.call(&self.attention_norm.call(x), rope));
        let h = self.at.enter(|| x + attended);
        let fed = self.at.child("feed_forward").enter(|| self.feed_forward.call(&self.ffn_norm.call(&h)));
        self.at.enter(|| h + fed)
    }
}

/// Llama 3.
#[derive(Debug)]
pub struct Llama3;

impl Model for Llama3 {
    const NAME: &'static str = "llama3";
    type Args = Args;

    fn flavors() -> Vec<(&'static str, Args)> {
        let large = |dim, layers, heads, ffn_dim_multiplier, multiple_of| Args {
            ffn_dim_multiplier: Some(ffn_dim_multiplier),
            multiple_of,
            ..Args::base(dim, layers, heads, Some(8), 128_256)
        };
        vec![
            ("debugmodel", Args::base(256, 6, 16, None, 2048)),
            ("8B", large(4096, 32, 32, 1.3, 1024)),
            ("70B", large(8192, 80, 64, 1.3, 4096)),
            ("405B", large(16_384, 126, 128, 1.2, 4096)),
        ]
    }

    fn check(args: &Args) -> DiagResult<()> {
        let fail = |message: String| Err(Diag::new("T0440", message).at("titan.model_args"));
        let (heads, kv_heads) = (args.n_heads, args.kv_heads());
        let sizes = [
            ("dim", args.dim, 1 << 24),
            ("n_layers", args.n_layers, 4096),
            ("n_heads", heads, 1 << 16),
            ("n_kv_heads", kv_heads, 1 << 16),
            ("head_dim", args.head_dim.unwrap_or(1), 1 << 16),
            ("multiple_of", args.multiple_of, 1 << 24),
            ("vocab_size", args.vocab_size, 1 << 24),
            ("hidden_dim", args.hidden_dim.unwrap_or(1), 1 << 24),
        ];
        if let Some((name, size, most)) = sizes.into_iter().find(|&(_, size, most)| size == 0 || size > most)
        {
            return fail(format!("{name} = {size} is not between 1 and {most}"));
        }
        let positive = [
            ("ffn_dim_multiplier", args.ffn_dim_multiplier.unwrap_or(1.0)),
            ("rope_theta", args.rope_theta),
            ("rope_scaling_factor", args.rope_scaling_factor),
            ("rope_low_freq_factor", args.rope_low_freq_factor),
            ("rope_high_freq_factor", args.rope_high_freq_factor),
            ("rope_original_max_seq_len", args.rope_original_max_seq_len),
            ("norm_eps", args.norm_eps),
        ];
        if let Some((name, value)) = positive.into_iter().find(|(_, value)| !(1e-30..=1e30).contains(value)) {
            return fail(format!("{name} = {value} is not a positive number"));
        }
        let hidden = args.hidden_dim();
        if hidden == 0 || hidden > 1 << 24 {
            return fail(format!(
                "the feed-forward width of these arguments is {hidden}, not between 1 and {}",
                1 << 24
            ));
        }
        if args.head_dim.is_none() && !args.dim.is_multiple_of(heads) {
            return fail(format!("dim {} is not a multiple of n_heads {heads}", args.dim));
        }
        if !heads.is_multiple_of(kv_heads) {
            return fail(format!("n_heads {heads} is not a multiple of n_kv_heads {kv_heads}"));
        }
        if args.head_dim() < 2 || !args.head_dim().is_multiple_of(2) {
            return fail(format!("rotary embedding needs an even head size, got {}", args.head_dim()));
        }
        Ok(())
    }

    fn forward(at: &Scope, args: &Args, tokens: &Tensor) -> Tensor {
        let embedding =
            Embedding::new(at.child("tok_embeddings"), args.vocab_size, args.dim, Init::Normal { std: 1.0 });
        let rope = Rope::new(at, args.head_dim(), args.rope_theta, Some(args.rope_scaling()));
        let mut h = embedding.call(tokens);
        for layer in 0..args.n_layers {
            let block = at.child("layers").child(layer);
            h = block.enter(|| Block::new(block.clone(), args, layer).call(&h, &rope));
        }
        let norm = RmsNorm::new(at.child("norm"), args.dim, args.norm_eps);
        let std = (args.dim as f64).powf(-0.5);
        let init = Init::TruncNormal { std, low: -3.0 * std, high: 3.0 * std };
        let output = Linear::new(at.child("output"), args.dim, args.vocab_size, init);
        output.call(&norm.call(&h))
    }

    fn vocab_size(args: &Args) -> u64 {
        args.vocab_size
    }

    fn flops_per_token(args: &Args, num_params: u64, seq_len: u64) -> u64 {
        let num_embedding = args.vocab_size * args.dim;
        6 * (num_params - num_embedding) + 12 * args.n_layers * args.n_heads * args.head_dim() * seq_len
    }

    fn hf_names(args: &Args) -> Vec<HfName> {
        let names = [
            ("tok_embeddings.weight", "model.embed_tokens.weight", None),
            ("layers.*.attention.wq.weight", "model.layers.*.self_attn.q_proj.weight", Some(args.n_heads)),
            ("layers.*.attention.wk.weight", "model.layers.*.self_attn.k_proj.weight", Some(args.kv_heads())),
            ("layers.*.attention.wv.weight", "model.layers.*.self_attn.v_proj.weight", None),
            ("layers.*.attention.wo.weight", "model.layers.*.self_attn.o_proj.weight", None),
            ("layers.*.feed_forward.w1.weight", "model.layers.*.mlp.gate_proj.weight", None),
            ("layers.*.feed_forward.w3.weight", "model.layers.*.mlp.up_proj.weight", None),
            ("layers.*.feed_forward.w2.weight", "model.layers.*.mlp.down_proj.weight", None),
            ("layers.*.attention_norm.weight", "model.layers.*.input_layernorm.weight", None),
            ("layers.*.ffn_norm.weight", "model.layers.*.post_attention_layernorm.weight", None),
            ("norm.weight", "model.norm.weight", None),
            ("output.weight", "lm_head.weight", None),
        ];
        let name =
            |(fqn, hf, rope_heads): (&str, &str, _)| HfName { fqn: fqn.into(), hf: hf.into(), rope_heads };
        names.into_iter().map(name).collect()
    }
}
