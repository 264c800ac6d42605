//! Rotary position embedding.

use super::super::emitter::Emitter;
use super::super::launch::Launch;
use super::super::native::{cast, dense};
use super::Match;
use super::emit::{operand, overlap};
use titan_ir::ascend::{Arg, Call, Element, TensorArg};

/// Pairs of neighbours are rotated.
const INTERLEAVED: i64 = 1;

/// Sequences times heads stay below this in one call, and so do the elements of a head below [`MAX_WIDTH`].
///
/// **Source**: the operator's documentation, for the interleaved mode.
const MAX_HEADS: u64 = 1000;

/// See [`MAX_HEADS`].
const MAX_WIDTH: u64 = 896;

/// Tokens of one sequence, or whole sequences, that one call rotates.
struct Block {
    batch: u64,
    tokens: u64,
    /// First element of x.
    first: u64,
    /// First token.
    token: u64,
}

/// Blocks of at most `rows` tokens.
fn blocks(batch: u64, tokens: u64, row_len: u64, rows: u64, max_batch: u64) -> Vec<Block> {
    let mut blocks = Vec::new();
    if rows >= tokens {
        let step = (rows / tokens).min(max_batch).max(1);
        let mut b = 0;
        while b < batch {
            let count = step.min(batch - b);
            blocks.push(Block { batch: count, tokens, first: b * tokens * row_len, token: 0 });
            b += count;
        }
        return blocks;
    }
    let step = (rows / 16 * 16).max(16);
    for b in 0..batch {
        let mut token = 0;
        while token < tokens {
            let count = step.min(tokens - token);
            blocks.push(Block { batch: 1, tokens: count, first: (b * tokens + token) * row_len, token });
            token += count;
        }
    }
    blocks
}

/// Emits the rotation in f32, in blocks; `false` where the operator's limits do not hold it.
pub(super) fn rotary(e: &mut Emitter<'_>, launch: &Launch<'_>, found: &Match, inverse: bool) -> bool {
    let (Some(x), Some(cos), Some(sin), Some(y)) = (
        operand(launch, found, 0),
        operand(launch, found, 1),
        operand(launch, found, 2),
        found.output(launch, 0),
    ) else {
        return false;
    };
    let [batch, tokens, heads, width] = x.dims[..] else { return false };
    if heads >= MAX_HEADS || width >= MAX_WIDTH {
        return false;
    }
    let y = TensorArg { at: y, ..x.clone() };
    let sin = turned_sin(e, &sin, inverse);
    let wide = x.element == Element::F32;
    let is_shared = overlap(&x, &y);
    // In f32 the rotated values of a block, and x if that is not f32.
    let rows = e.budget_bytes() / (heads * width * 4) / if wide { 1 } else { 2 };
    let size = x.element.size_bytes();
    for block in blocks(batch, tokens, heads * width, rows, (MAX_HEADS - 1) / heads) {
        let dims = [block.batch, block.tokens, heads, width];
        let part = |t: &TensorArg| dense(t.element, &dims, t.at + block.first * size);
        let (from, to) = (part(&x), part(&y));
        let input = if wide { from.clone() } else { e.temp(Element::F32, &dims) };
        if !wide {
            cast(e, from, &input);
        }
        let output = if wide && !is_shared { to.clone() } else { e.temp(Element::F32, &dims) };
        let table = |t: &TensorArg| {
            Arg::Tensor(dense(Element::F32, &[1, block.tokens, 1, width], t.at + block.token * width * 4))
        };
        let args = vec![
            Arg::Tensor(input.clone()),
            table(&cos),
            table(&sin),
            Arg::I64(INTERLEAVED),
            Arg::Tensor(output.clone()),
        ];
        e.operator("aclnnRotaryPositionEmbedding", args);
        if !wide {
            cast(e, output.clone(), &to);
        } else if is_shared {
            e.push(Call::Copy { src: output.at, dst: to.at, size_bytes: to.extent_bytes() });
        }
        e.free(&input);
        e.free(&output);
    }
    true
}

/// The sines as the operator takes them. It computes `x0 cos0 - x1 sin0, x1 cos1 + x0 sin1`; our tables hold the signs of the first form, and
/// the inverse subtracts. So every other sine changes its sign.
fn turned_sin(e: &mut Emitter<'_>, sin: &TensorArg, inverse: bool) -> TensorArg {
    let what = if inverse { "inverse sine" } else { "sine" };
    let every_other = |t: &TensorArg| TensorArg {
        dims: vec![t.num_elements() / 2],
        strides: vec![2],
        at: t.at + u64::from(inverse) * 4,
        ..t.clone()
    };
    let dims = sin.dims.clone();
    e.slot(what, sin.at, &dims, |e, to| {
        e.push(Call::Copy { src: sin.at, dst: to.at, size_bytes: sin.extent_bytes() });
        e.operator("aclnnNeg", vec![Arg::Tensor(every_other(sin)), Arg::Tensor(every_other(to))]);
    })
}
