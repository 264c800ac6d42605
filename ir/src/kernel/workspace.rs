//! Scratch memory of native CPU kernels, known at build so that the plan counts it.
//!
//! The block sizes live here because the scratch follows from them; the runtime blocks its loops with the same functions. Sizes hold for
//! every instruction set: the machine that runs a plan need not be the one that made it.

use super::{Attention, Contract};
use crate::DType;
use serde::{Deserialize, Serialize};

/// Row stride, in elements, of the f32 accumulator tile an epilogue reads ([`Access::Tile`](super::Access)).
pub const TILE_LD: u64 = 512;

/// Most rows of C that one task of a contraction computes: a multiple of every microkernel's height (14, 6, 4).
pub const MAX_BLOCK_ROWS: u64 = 168;

/// Columns of C whose slice of B is packed at once, when no tile has to stay in scratch from one K block to the next.
const MAX_STRIP_COLS: u64 = 2048;

/// A strip of columns is a multiple of this: the widest microkernel.
pub const STRIP_GRAIN: u64 = 32;

/// Most 32-bit units of one K block: one f32, or two bf16.
const MAX_BLOCK_UNITS: u64 = 512;

/// Room after packed panels: packing writes whole vectors.
pub const PACK_SLACK_BYTES: u64 = 64;

/// Scratch of one kernel call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Bytes shared by all threads of the rank.
    pub shared_bytes: u64,
    /// Bytes of each thread.
    pub per_thread_bytes: u64,
}

impl Workspace {
    /// Enough for either.
    pub fn max(self, other: Self) -> Self {
        Self {
            shared_bytes: self.shared_bytes.max(other.shared_bytes),
            per_thread_bytes: self.per_thread_bytes.max(other.per_thread_bytes),
        }
    }
}

/// Where a contraction adds up the K blocks of an element of C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accumulators {
    /// In C.
    Output,
    /// In a tile of the thread; B is packed for all K blocks before.
    Tile,
    /// In shared memory, `m` rows of [`TILE_LD`].
    Shared,
}

/// The loops of a contraction. The order in which an element of C is summed depends on `block_units` alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocking {
    /// 32-bit units of K in one block.
    pub block_units: u64,
    /// K blocks.
    pub num_blocks: u64,
    /// K blocks for which B is packed at once.
    pub group: u64,
    /// Columns of C in one strip.
    pub strip_cols: u64,
    /// Where blocks are added up.
    pub accumulators: Accumulators,
}

impl Blocking {
    /// The loops of `spec` when its K is `num_units` units long.
    pub fn new(spec: &Contract, num_units: u64) -> Self {
        let num_blocks = num_units.div_ceil(MAX_BLOCK_UNITS).max(1);
        let block_units = num_units.div_ceil(num_blocks).next_multiple_of(16).max(16);
        let num_blocks = num_units.div_ceil(block_units).max(1);
        let accumulators = if spec.out == DType::F32 && spec.epilogue.is_none() {
            Accumulators::Output
        } else if num_units <= spec.m || num_blocks == 1 {
            Accumulators::Tile
        } else {
            Accumulators::Shared
        };
        let is_one_tile = accumulators != Accumulators::Output && num_blocks > 1;
        let max_cols = if is_one_tile { TILE_LD } else { MAX_STRIP_COLS };
        Self {
            block_units,
            num_blocks,
            group: if accumulators == Accumulators::Tile { num_blocks } else { 1 },
            strip_cols: spec.n.div_ceil(spec.n.div_ceil(max_cols).max(1)).next_multiple_of(STRIP_GRAIN),
            accumulators,
        }
    }

    /// Bytes of the packed slice of B.
    pub fn packed_b_bytes(&self) -> u64 {
        self.group * self.block_units * self.strip_cols * 4 + PACK_SLACK_BYTES
    }

    /// Bytes of a packed block of A.
    pub fn packed_a_bytes(&self) -> u64 {
        MAX_BLOCK_ROWS * self.block_units * 4 + PACK_SLACK_BYTES
    }

    fn workspace(&self, spec: &Contract) -> Workspace {
        let tile_row_bytes = TILE_LD * 4;
        let (shared_rows, tile_rows) = match self.accumulators {
            Accumulators::Output => (0, 0),
            Accumulators::Tile => (0, MAX_BLOCK_ROWS),
            Accumulators::Shared => (spec.m, 0),
        };
        Workspace {
            shared_bytes: self.packed_b_bytes() + shared_rows * tile_row_bytes,
            per_thread_bytes: self.packed_a_bytes() + tile_rows * tile_row_bytes,
        }
    }
}

/// Scratch of a contraction.
pub fn contract(spec: &Contract) -> Workspace {
    let as_f32 = Blocking::new(spec, spec.k).workspace(spec);
    match spec.dtype {
        DType::Bf16 => as_f32.max(Blocking::new(spec, spec.k.div_ceil(2)).workspace(spec)),
        DType::F32 | DType::I32 => as_f32,
    }
}

/// Most queries of one attention tile, forward.
const FORWARD_QUERIES: u64 = 32;

/// Keys whose scores one attention tile holds, forward.
pub const FORWARD_KEYS: u64 = 128;

/// Most queries of one attention tile, backward: more, since the gradients of keys and values are read and written once per tile.
const BACKWARD_QUERIES: u64 = 64;

/// Keys whose scores one attention tile holds, backward.
pub const BACKWARD_KEYS: u64 = 64;

/// Packed keys are a multiple of this.
const KEY_GRAIN: u64 = 8;

/// The packed length of a head is a multiple of this: the widest vector.
const HEAD_GRAIN: u64 = 16;

/// Sizes attention packs and pads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionSizes {
    /// Key and value tokens, padded.
    pub keys: u64,
    /// Elements of a head, padded.
    pub head_dim: u64,
}

impl AttentionSizes {
    /// The sizes of `spec`.
    pub fn new(spec: &Attention) -> Self {
        Self {
            keys: spec.kv_tokens.next_multiple_of(KEY_GRAIN),
            head_dim: spec.head_dim.next_multiple_of(HEAD_GRAIN),
        }
    }

    /// 32-bit words of each buffer of a forward task: packed keys, packed values, packed queries, scores, probabilities, result.
    pub fn forward_words(&self) -> [u64; 6] {
        let (of_keys, of_queries) = (self.keys * self.head_dim, FORWARD_QUERIES * self.head_dim);
        let scores = FORWARD_KEYS * FORWARD_QUERIES;
        [of_keys, of_keys, of_queries, scores, scores, of_queries]
    }

    /// 32-bit words of each buffer of a backward task: keys, values and keys packed the other way, gradients of keys and values; queries and gradients of the
    /// result packed both ways; scores, gradients of probabilities, both rounded for products over queries, the latter for products over keys;
    /// gradient of queries.
    pub fn backward_words(&self) -> [u64; 15] {
        let (k, q) = (self.keys * self.head_dim, BACKWARD_QUERIES * self.head_dim);
        let s = BACKWARD_KEYS * BACKWARD_QUERIES;
        [k, k, k, k, k, q, q, q, q, s, s, s, s, s, q]
    }
}

/// Bytes of a buffer of `words` within scratch: whole cache lines, and room to write a vector past the end.
pub fn buffer_bytes(words: u64) -> u64 {
    (words * 4).next_multiple_of(64) + PACK_SLACK_BYTES
}

/// Scratch of attention, forward.
pub fn attention(spec: &Attention) -> Workspace {
    let words = AttentionSizes::new(spec).forward_words();
    Workspace { shared_bytes: 0, per_thread_bytes: words.into_iter().map(buffer_bytes).sum() }
}

/// Scratch of attention, backward.
pub fn attention_grad(spec: &Attention) -> Workspace {
    let words = AttentionSizes::new(spec).backward_words();
    Workspace { shared_bytes: 0, per_thread_bytes: words.into_iter().map(buffer_bytes).sum() }
}
