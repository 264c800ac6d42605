//! Scaled dot-product attention, forward and backward, without the matrix of scores.
//!
//! Queries lie in the lanes: a tile of scores is keys by queries, `S^T = K Q^T`, so the maximum and the sum over keys are vertical and the
//! probabilities come out as the right operand of `O^T += V^T P^T`. Keys and values of a head are packed once for all query heads
//! that share them. All sums have a fixed order.
//!
//! Shapes: q, o `[batch, q_tokens, heads, head_dim]`, k, v `[batch, kv_tokens, kv_heads, head_dim]`, lse `[batch, heads, q_tokens]`.
//! Source: Dao et al., FlashAttention, 2022, algorithms 1 and 2; Dao, FlashAttention-2, 2023.

mod backward;
mod forward;
mod tile;

use super::ThreadScratch;
use super::isa::Isa;
use super::pack::Source;
use crate::pool::Pool;
use backward::Backward;
use forward::Forward;
use titan_ir::ice;
use titan_ir::kernel::Attention;
use titan_ir::kernel::workspace::buffer_bytes;

/// Attention with the machine's best instructions. `args`: q, k, v, then the results o, lse. The scale must be positive.
///
/// # Safety
/// The operands are as large as `spec` says and do not overlap the results; `scratch` has the bytes of `workspace::attention(spec)` for every
/// thread of `pool`.
pub unsafe fn attention(pool: &Pool, spec: &Attention, args: &[*mut u8; 5], scratch: &ThreadScratch) {
    // SAFETY: the caller's.
    unsafe { attention_on(Isa::native(), pool, spec, args, scratch) }
}

/// [`attention`] with given instructions, which the machine must have.
///
/// # Safety
/// As for [`attention`]; `isa` is available.
pub unsafe fn attention_on(
    isa: Isa,
    pool: &Pool,
    spec: &Attention,
    &[q, k, v, o, lse]: &[*mut u8; 5],
    scratch: &ThreadScratch,
) {
    if f32::from_bits(spec.scale_bits) <= 0.0 {
        // The maximum of scaled scores is taken before scaling.
        ice!("attention with a scale that is not positive: {spec:?}");
    }
    let engine = isa.engine(spec.dtype);
    let num_heads = (spec.batch * spec.kv_heads) as usize;
    let parts = forward::num_parts(spec, num_heads, pool.num_threads());
    let (whole, scratch) = (Forward { spec, q, k, v, o, lse: lse.cast(), num_parts: parts }, *scratch);
    // SAFETY: the caller's; tasks write disjoint parts of the results.
    pool.run(num_heads * parts, &|task, worker| unsafe {
        forward::task(engine, &whole, task, scratch.of(worker))
    });
}

/// Gradients of attention with the machine's best instructions. `args`: q, k, v, o, lse, d_o, then the results d_q, d_k, d_v.
///
/// # Safety
/// As for [`attention`], with the bytes of `workspace::attention_grad(spec)`.
pub unsafe fn attention_grad(pool: &Pool, spec: &Attention, args: &[*mut u8; 9], scratch: &ThreadScratch) {
    // SAFETY: the caller's.
    unsafe { attention_grad_on(Isa::native(), pool, spec, args, scratch) }
}

/// [`attention_grad`] with given instructions, which the machine must have.
///
/// # Safety
/// As for [`attention_grad`]; `isa` is available.
pub unsafe fn attention_grad_on(
    isa: Isa,
    pool: &Pool,
    spec: &Attention,
    &[q, k, v, o, lse, d_o, d_q, d_k, d_v]: &[*mut u8; 9],
    scratch: &ThreadScratch,
) {
    let engine = isa.engine(spec.dtype);
    let whole = Backward { spec, q, k, v, o, d_o, lse: lse.cast(), d_q, d_k, d_v };
    let (num_tasks, scratch) = ((spec.batch * spec.kv_heads) as usize, *scratch);
    // SAFETY: the caller's; tasks write disjoint parts of the results.
    pool.run(num_tasks, &|task, worker| unsafe { backward::task(engine, &whole, task, scratch.of(worker)) });
}

/// One head of a `[batch, tokens, heads, head_dim]` tensor.
#[derive(Clone, Copy)]
struct HeadView {
    /// Element (0, 0) of the head's tokens by head_dim matrix, as an element offset.
    offset: usize,
    /// Elements from token to token.
    stride: usize,
}

impl HeadView {
    fn queries(spec: &Attention, batch: usize, head: usize) -> Self {
        Self::new(batch, spec.q_tokens, head, spec.heads, spec.head_dim)
    }

    fn keys(spec: &Attention, batch: usize, head: usize) -> Self {
        Self::new(batch, spec.kv_tokens, head, spec.kv_heads, spec.head_dim)
    }

    fn new(batch: usize, tokens: u64, head: usize, heads: u64, head_dim: u64) -> Self {
        let stride = (heads * head_dim) as usize;
        Self { offset: batch * tokens as usize * stride + head * head_dim as usize, stride }
    }

    /// Byte offset of a token's first element.
    fn token_bytes(self, spec: &Attention, token: usize) -> usize {
        (self.offset + token * self.stride) * spec.dtype.size_bytes()
    }

    /// Tokens from `first` on as lanes by head elements, or the other way.
    unsafe fn source(self, spec: &Attention, ptr: *const u8, first: usize, tokens_are_lanes: bool) -> Source {
        // SAFETY: the caller's.
        let ptr = unsafe { ptr.add(self.token_bytes(spec, first)) };
        Source { ptr, dtype: spec.dtype, k_contiguous: tokens_are_lanes, stride: self.stride }
    }
}

/// Divides a thread's scratch into buffers.
unsafe fn carve<const N: usize>(mut memory: *mut u8, words: [u64; N]) -> [*mut u32; N] {
    words.map(|words| {
        let buffer = memory.cast();
        // SAFETY: the workspace is the sum of the buffers.
        memory = unsafe { memory.add(buffer_bytes(words) as usize) };
        buffer
    })
}
