//! Attention, forward and backward.

use crate::support::{Buffer, Guarded, PageEnd, levels, relative_l2};
use titan_ir::DType;
use titan_ir::kernel::{Attention, workspace};
use titan_run::kernels::{Isa, attention_grad_on, attention_on};
use titan_run::pool::Pool;

fn spec(
    dtype: DType,
    batch: u64,
    [q_tokens, kv_tokens]: [u64; 2],
    [heads, kv_heads]: [u64; 2],
    dim: u64,
) -> Attention {
    let scale_bits = (1.0 / (dim as f32).sqrt()).to_bits();
    let causal = q_tokens == kv_tokens;
    Attention { dtype, batch, q_tokens, kv_tokens, heads, kv_heads, head_dim: dim, causal, scale_bits }
}

/// Operands of both directions.
struct Operands {
    q: Buffer,
    k: Buffer,
    v: Buffer,
    d_o: Buffer,
}

impl Operands {
    fn new(s: &Attention) -> Self {
        let q_len = (s.batch * s.q_tokens * s.heads * s.head_dim) as usize;
        let kv_len = (s.batch * s.kv_tokens * s.kv_heads * s.head_dim) as usize;
        Self {
            q: Buffer::random(s.dtype, q_len, 1),
            k: Buffer::random(s.dtype, kv_len, 2),
            v: Buffer::random(s.dtype, kv_len, 3),
            d_o: Buffer::random(s.dtype, q_len, 4),
        }
    }
}

/// o, lse, d_q, d_k, d_v.
type Results<T> = [T; 5];

fn run(isa: Isa, pool: &Pool, s: &Attention, x: &Operands) -> Results<Buffer> {
    let like = |b: &Buffer| Buffer { dtype: b.dtype, bytes: vec![0xff; b.bytes.len()] };
    let (mut o, mut d_q, mut d_k, mut d_v) = (like(&x.q), like(&x.q), like(&x.k), like(&x.v));
    let mut lse = Buffer::unwritten(DType::F32, (s.batch * s.heads * s.q_tokens) as usize);
    let mut forward = Guarded::new(workspace::attention(s), pool.num_threads());
    let mut backward = Guarded::new(workspace::attention_grad(s), pool.num_threads());
    let [q, k, v, d_o] = [&x.q, &x.k, &x.v, &x.d_o].map(|b| b.ptr().cast_mut());
    let (o_at, lse_at) = (o.ptr_mut(), lse.ptr_mut());
    let grad = [q, k, v, o_at, lse_at, d_o, d_q.ptr_mut(), d_k.ptr_mut(), d_v.ptr_mut()];
    // SAFETY: operands, results and scratch have the sizes of the spec; operands are only read.
    unsafe {
        attention_on(isa, pool, s, &[q, k, v, o_at, lse_at], &forward.scratch());
        attention_grad_on(isa, pool, s, &grad, &backward.scratch());
    }
    forward.check();
    backward.check();
    [o, lse, d_q, d_k, d_v]
}

/// One query row in f64: adds to the results.
fn reference_row(s: &Attention, x: [&[f64]; 4], [b, h, t]: [usize; 3], out: &mut Results<Vec<f64>>) {
    let [q, k, v, d_o] = x;
    let dim = s.head_dim as usize;
    let q_at = ((b * s.q_tokens as usize + t) * s.heads as usize + h) * dim;
    let kv_head = h / (s.heads / s.kv_heads) as usize;
    let kv_at = |key: usize| ((b * s.kv_tokens as usize + key) * s.kv_heads as usize + kv_head) * dim;
    let dot = |a: &[f64], i: usize, b: &[f64], j: usize| (0..dim).map(|d| a[i + d] * b[j + d]).sum::<f64>();
    let scale = f64::from(f32::from_bits(s.scale_bits));
    let num_keys = if s.causal { (t + 1).min(s.kv_tokens as usize) } else { s.kv_tokens as usize };
    let scores: Vec<f64> = (0..num_keys).map(|key| scale * dot(q, q_at, k, kv_at(key))).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lse = largest + scores.iter().map(|x| (x - largest).exp()).sum::<f64>().ln();
    let probs: Vec<f64> = scores.iter().map(|x| (x - lse).exp()).collect();
    out[1][(b * s.heads as usize + h) * s.q_tokens as usize + t] = lse;
    for d in 0..dim {
        out[0][q_at + d] = (0..num_keys).map(|key| probs[key] * v[kv_at(key) + d]).sum();
    }
    let delta = (0..dim).map(|d| out[0][q_at + d] * d_o[q_at + d]).sum::<f64>();
    for key in 0..num_keys {
        let d_score = probs[key] * (dot(d_o, q_at, v, kv_at(key)) - delta) * scale;
        for d in 0..dim {
            out[2][q_at + d] += d_score * k[kv_at(key) + d];
            out[3][kv_at(key) + d] += d_score * q[q_at + d];
            out[4][kv_at(key) + d] += probs[key] * d_o[q_at + d];
        }
    }
}

fn reference(s: &Attention, x: &Operands) -> Results<Vec<f64>> {
    let values = [&x.q, &x.k, &x.v, &x.d_o].map(Buffer::values);
    let lens = [x.q.values().len(), (s.batch * s.heads * s.q_tokens) as usize, x.q.values().len()];
    let mut out = [lens[0], lens[1], lens[2], x.k.values().len(), x.v.values().len()].map(|n| vec![0.0; n]);
    for b in 0..s.batch as usize {
        for h in 0..s.heads as usize {
            for t in 0..s.q_tokens as usize {
                reference_row(s, values.each_ref().map(Vec::as_slice), [b, h, t], &mut out);
            }
        }
    }
    out
}

/// f32: roundings of sums of some hundred products. bf16: P, dS and the results are rounded to 8 bits.
fn check(s: &Attention) {
    let x = Operands::new(s);
    let expected = reference(s, &x);
    let pools = [1, 2, 3].map(|num_threads| Pool::new(num_threads, None));
    let tolerance = if s.dtype == DType::Bf16 { 6e-3 } else { 1e-6 };
    for isa in levels() {
        let [results, others @ ..] = pools.each_ref().map(|pool| run(isa, pool, s, &x));
        for (name, (actual, expected)) in
            ["o", "lse", "d_q", "d_k", "d_v"].into_iter().zip(results.iter().zip(&expected))
        {
            let norm = expected.iter().map(|x| x * x).sum::<f64>().sqrt();
            let error = if norm < 1e-9 {
                // A single key: the gradients of scores vanish but for roundings.
                actual.values().iter().map(|x| x.abs()).fold(0.0, f64::max)
            } else {
                relative_l2(&actual.values(), expected)
            };
            assert!(error <= tolerance, "{isa:?} {s:?}: {name} is off by {error:e}");
        }
        assert!(
            others.iter().all(|other| *other == results),
            "{isa:?}: {s:?} depends on the number of threads"
        );
    }
}

fn check_both_types(batch: u64, tokens: [u64; 2], heads: [u64; 2], dim: u64) {
    for dtype in [DType::F32, DType::Bf16] {
        check(&spec(dtype, batch, tokens, heads, dim));
    }
}

#[test]
fn causal() {
    check_both_types(2, [150, 150], [3, 3], 16);
    check_both_types(1, [300, 300], [1, 1], 64);
    check_both_types(1, [64, 64], [2, 2], 128);
}

#[test]
fn query_heads_share_key_heads() {
    check_both_types(2, [70, 70], [6, 2], 32);
    check_both_types(1, [140, 140], [4, 1], 16);
}

#[test]
fn odd_head_dims() {
    for dim in [1, 2, 3, 7, 15, 17, 31, 33, 80, 100, 255, 256] {
        check_both_types(1, [37, 37], [2, 1], dim);
    }
}

#[test]
fn odd_token_counts() {
    for tokens in [1, 2, 7, 8, 15, 31, 33, 127, 128, 129, 161] {
        check_both_types(1, [tokens, tokens], [1, 1], 16);
    }
}

#[test]
fn all_keys_visible() {
    for tokens in [[5, 9], [33, 1], [1, 133], [64, 65], [130, 257]] {
        check_both_types(1, tokens, [2, 1], 24);
    }
    for dtype in [DType::F32, DType::Bf16] {
        check(&Attention { causal: false, ..spec(dtype, 1, [66, 66], [2, 2], 16) });
    }
}

#[test]
fn causal_with_other_key_counts() {
    for tokens in [[40, 90], [90, 40]] {
        for dtype in [DType::F32, DType::Bf16] {
            check(&Attention { causal: true, ..spec(dtype, 1, tokens, [2, 1], 16) });
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let sharp = |dtype| Attention { scale_bits: 40.0f32.to_bits(), ..spec(dtype, 1, [70, 70], [1, 1], 16) };
    for dtype in [DType::F32, DType::Bf16] {
        let s = sharp(dtype);
        let x = Operands::new(&s);
        let expected = reference(&s, &x);
        for isa in levels() {
            let actual = run(isa, &Pool::new(1, None), &s, &x);
            // Scores reach hundreds, so their roundings move probabilities by some 1e-4; in bf16 the results' rounding dominates.
            let tolerance = if dtype == DType::Bf16 { 1e-2 } else { 1e-4 };
            assert!(relative_l2(&actual[0].values(), &expected[0]) < tolerance, "{isa:?} {dtype}");
            assert!(actual.iter().all(|r| r.values().iter().all(|x| x.is_finite())), "{isa:?} {dtype}");
        }
    }
}

#[test]
fn not_a_number_in_a_query_reaches_its_row_only() {
    let s = spec(DType::F32, 1, [50, 50], [1, 1], 16);
    let mut x = Operands::new(&s);
    x.q.bytes[7 * 16 * 4..][..4].copy_from_slice(&f32::NAN.to_ne_bytes());
    for isa in levels() {
        let [o, ..] = run(isa, &Pool::new(1, None), &s, &x);
        let rows = o.values();
        assert!(
            rows.chunks(16).enumerate().all(|(t, row)| row.iter().all(|v| v.is_nan() == (t == 7))),
            "{isa:?}"
        );
    }
}

#[test]
fn nothing_is_touched_beyond_the_operands() {
    for dtype in [DType::F32, DType::Bf16] {
        for dim in [1, 7, 16, 33] {
            let s = spec(dtype, 1, [35, 35], [2, 1], dim);
            let x = Operands::new(&s);
            let lse = Buffer::random(DType::F32, (s.heads * s.q_tokens) as usize, 6);
            let buffers = [&x.q, &x.k, &x.v, &x.q, &lse, &x.d_o, &x.q, &x.k, &x.v].map(PageEnd::new);
            let args = buffers.each_ref().map(PageEnd::ptr);
            let mut scratch = Guarded::new(workspace::attention(&s).max(workspace::attention_grad(&s)), 1);
            let pool = Pool::new(1, None);
            for isa in levels() {
                // SAFETY: operands, results and scratch have the sizes of the spec.
                unsafe {
                    let [q, k, v, o, lse, ..] = args;
                    attention_on(isa, &pool, &s, &[q, k, v, o, lse], &scratch.scratch());
                    attention_grad_on(isa, &pool, &s, &args, &scratch.scratch());
                }
            }
        }
    }
}
