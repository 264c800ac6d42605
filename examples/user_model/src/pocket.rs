//! Pocket: a small language model that is no Llama. Attention and feed-forward layer read the same norm and are added at once
//! (Wang and Komatsuzaki 2021, GPT-J), and all query heads share one key and value head (Shazeer 2019).

use serde::{Deserialize, Serialize};
use titanc::model::{Diag, DiagResult, HfName, Model};
use titanc::nn::{Embedding, Init, Linear, RmsNorm, Rope, Scope, Tensor, attention};

/// Sizes; each can be set under `[titan.model_args]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    dim: u64,
    n_layers: u64,
    n_heads: u64,
    hidden_dim: u64,
    vocab_size: u64,
    rope_theta: f64,
}

/// The model.
#[derive(Debug)]
pub(crate) struct Pocket;

impl Model for Pocket {
    const NAME: &'static str = "pocket";
    type Args = Args;

    fn flavors() -> Vec<(&'static str, Args)> {
        let args = |dim, n_layers, n_heads| Args {
            dim,
            n_layers,
            n_heads,
            hidden_dim: 4 * dim,
            vocab_size: 2048,
            rope_theta: 10_000.0,
        };
        vec![("tiny", args(64, 2, 4)), ("small", args(256, 4, 8))]
    }

    fn check(args: &Args) -> DiagResult<()> {
        if args.n_heads == 0 || !args.dim.is_multiple_of(2 * args.n_heads) {
            let message = format!("dim {} is not an even multiple of n_heads {}", args.dim, args.n_heads);
            return Err(Diag::new("T0440", message));
        }
        Ok(())
    }

    fn forward(at: &Scope, args: &Args, tokens: &Tensor) -> Tensor {
        let embedding =
            Embedding::new(at.child("embedding"), args.vocab_size, args.dim, Init::Normal { std: 1.0 });
        let rope = Rope::new(at, args.dim / args.n_heads, args.rope_theta, None);
        let mut x_bsd = embedding.call(tokens);
        for layer in 0..args.n_layers {
            let block = at.child("layers").child(layer);
            x_bsd = block.enter(|| &x_bsd + layer_output(&block, args, &x_bsd, &rope));
        }
        let norm = RmsNorm::new(at.child("norm"), args.dim, 1e-5);
        let init = Init::Normal { std: (args.dim as f64).powf(-0.5) };
        Linear::new(at.child("head"), args.dim, args.vocab_size, init).call(&norm.call(&x_bsd))
    }

    fn vocab_size(args: &Args) -> u64 {
        args.vocab_size
    }

    fn flops_per_token(args: &Args, num_params: u64, seq_len: u64) -> u64 {
        6 * (num_params - args.vocab_size * args.dim) + 12 * args.n_layers * args.dim * seq_len
    }

    fn hf_names(_: &Args) -> Vec<HfName> {
        Vec::new()
    }
}

/// `attention(norm x) + feed_forward(norm x)`.
fn layer_output(at: &Scope, args: &Args, x_bsd: &Tensor, rope: &Rope) -> Tensor {
    let (dim, head_dim) = (args.dim, args.dim / args.n_heads);
    let linear = |name: &str, from, to| {
        Linear::new(at.child(name), from, to, Init::TruncNormal { std: 0.02, low: -2.0, high: 2.0 })
    };
    let n_bsd = RmsNorm::new(at.child("norm"), dim, 1e-5).call(x_bsd);
    let q_bshe = rope.call(&linear("query", dim, dim).call(&n_bsd).split_heads(args.n_heads));
    let k_bsge = rope.call(&linear("key", dim, head_dim).call(&n_bsd).split_heads(1));
    let v_bsge = linear("value", dim, head_dim).call(&n_bsd).split_heads(1);
    let attended = linear("out", dim, dim).call(&attention(&q_bshe, &k_bsge, &v_bsge).merge_heads());
    let hidden = linear("up", dim, args.hidden_dim).call(&n_bsd).silu();
    attended + linear("down", args.hidden_dim, dim).call(&hidden)
}
