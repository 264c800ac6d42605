//! Attention backward: one task is one key head with all query heads that share it.
//!
//! For each tile of queries and block of keys, in order: `P = exp(S - lse)`, `dV += P^T dO`, `dP = dO V^T`,
//! `dS = P * (dP - delta) * scale` with `delta = sum(dO * O)`, `dK += dS^T Q`, `dQ += dS K`. Gradients are added up in f32.

use super::forward::pack_lanes;
use super::tile::{self, Left, NUM_VECTORS, Right, Start, Transposed};
use super::{HeadView, carve};
use crate::kernels::bf16;
use crate::kernels::isa::per_engine;
use crate::kernels::pack::{num_units, panels_on};
use crate::kernels::simd::{MAX_LANES, Simd};
use std::f32::consts::LOG2_E;
use titan_ir::DType;
use titan_ir::kernel::Attention;
use titan_ir::kernel::workspace::{AttentionSizes, BACKWARD_KEYS};

/// The whole problem.
pub(super) struct Backward<'a> {
    pub(super) spec: &'a Attention,
    pub(super) q: *const u8,
    pub(super) k: *const u8,
    pub(super) v: *const u8,
    pub(super) o: *const u8,
    pub(super) d_o: *const u8,
    pub(super) lse: *const f32,
    pub(super) d_q: *mut u8,
    pub(super) d_k: *mut u8,
    pub(super) d_v: *mut u8,
}

// SAFETY: tasks write disjoint parts of the results, and read the rest.
unsafe impl Sync for Backward<'_> {}

per_engine! {
    /// Runs a task.
    ///
    /// # Safety
    /// The problem is as `attention_grad` was promised; `scratch` is the thread's.
    pub(super) unsafe fn task(whole: &Backward<'_>, task: usize, scratch: *mut u8) = task_on
}

#[inline(always)]
unsafe fn task_on<S: Simd>(whole: &Backward<'_>, task: usize, scratch: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        if S::PAIRS || whole.spec.dtype == DType::Bf16 {
            Head::<S, false>::new(whole, task, scratch).run();
        } else {
            Head::<S, true>::new(whole, task, scratch).run();
        }
    }
}

/// Vectors of queries in a tile.
const QUERY_VECTORS: usize = 2 * NUM_VECTORS;

/// Per-query values of a tile.
struct Lanes<V> {
    /// `-lse * log2(e)`.
    minus_lse: [V; QUERY_VECTORS],
    delta: [V; QUERY_VECTORS],
}

/// A key head, packed, and the buffers of a query tile.
struct Head<'a, S: Simd, const EXACT: bool> {
    whole: &'a Backward<'a>,
    batch: usize,
    kv_head: usize,
    /// Padded elements of a head, and units of them.
    dim: usize,
    dim_units: usize,
    padded_keys: usize,
    scale: S::V,
    /// `scale * log2(e)`.
    factor: S::V,
    /// `[panel of ROWS keys][unit of dim][key]`.
    keys: *mut u32,
    values: *mut u32,
    /// `[unit of keys][dim]`.
    keys_by_dim: *mut u32,
    /// `[key][dim]`.
    d_keys: *mut f32,
    d_values: *mut f32,
    /// `[unit of dim][query]`.
    queries: *mut u32,
    d_outs: *mut u32,
    /// `[unit of queries][dim]`.
    queries_by_dim: *mut u32,
    d_outs_by_dim: *mut u32,
    /// `[key][query]`.
    scores: *mut f32,
    d_probs: *mut f32,
    /// `[key][unit of queries]`.
    probs: *mut u32,
    d_scores: *mut u32,
    /// `[unit of keys][query]`; with single units the same as `d_scores`.
    d_scores_by_key: *mut u32,
    /// `[dim][query]`.
    d_queries: *mut f32,
}

impl<'a, S: Simd, const EXACT: bool> Head<'a, S, EXACT> {
    const TILE: usize = QUERY_VECTORS * S::LANES;
    /// Units of a tile's queries.
    const TILE_UNITS: usize = if S::PAIRS { Self::TILE / 2 } else { Self::TILE };

    #[inline(always)]
    unsafe fn new(whole: &'a Backward<'a>, head: usize, scratch: *mut u8) -> Self {
        let spec = whole.spec;
        let sizes = AttentionSizes::new(spec);
        // SAFETY: the scratch is the workspace's.
        let [k, v, k2, d_k, d_v, q, g, q2, g2, s, d_p, p, d_s, d_s2, d_q] =
            unsafe { carve(scratch, sizes.backward_words()) };
        let scale = f32::from_bits(spec.scale_bits);
        Self {
            whole,
            batch: head / spec.kv_heads as usize,
            kv_head: head % spec.kv_heads as usize,
            dim: sizes.head_dim as usize,
            dim_units: num_units::<S>(sizes.head_dim as usize),
            padded_keys: sizes.keys as usize,
            // SAFETY: the caller's.
            scale: unsafe { S::splat(scale) },
            // SAFETY: the caller's.
            factor: unsafe { S::splat(scale * LOG2_E) },
            keys: k,
            values: v,
            keys_by_dim: k2,
            d_keys: d_k.cast(),
            d_values: d_v.cast(),
            queries: q,
            d_outs: g,
            queries_by_dim: q2,
            d_outs_by_dim: g2,
            scores: s.cast(),
            d_probs: d_p.cast(),
            probs: p,
            d_scores: d_s,
            d_scores_by_key: if S::PAIRS { d_s2 } else { d_s },
            d_queries: d_q.cast(),
        }
    }

    #[inline(always)]
    unsafe fn run(&self) {
        let spec = self.whole.spec;
        let group = (spec.heads / spec.kv_heads) as usize;
        // SAFETY: the caller's.
        unsafe {
            self.pack_keys();
            tile::clear(self.d_keys.cast(), self.padded_keys * self.dim);
            tile::clear(self.d_values.cast(), self.padded_keys * self.dim);
            for head in self.kv_head * group..(self.kv_head + 1) * group {
                for first in (0..spec.q_tokens as usize).step_by(Self::TILE) {
                    self.tile(head, first);
                }
            }
            let view = HeadView::keys(spec, self.batch, self.kv_head);
            for key in 0..spec.kv_tokens as usize {
                let (at, from) = (view.token_bytes(spec, key), key * self.dim);
                let head_dim = spec.head_dim as usize;
                tile::store_row::<S>(self.d_keys.add(from), head_dim, self.whole.d_k.add(at), spec.dtype);
                tile::store_row::<S>(self.d_values.add(from), head_dim, self.whole.d_v.add(at), spec.dtype);
            }
        }
    }

    #[inline(always)]
    unsafe fn pack_keys(&self) {
        let spec = self.whole.spec;
        let (num_keys, head_dim) = (spec.kv_tokens as usize, spec.head_dim as usize);
        let view = HeadView::keys(spec, self.batch, self.kv_head);
        // SAFETY: the caller's.
        unsafe {
            for (from, to) in [(self.whole.k, self.keys), (self.whole.v, self.values)] {
                let from = view.source(spec, from, 0, true);
                pack_lanes::<S>(&from, S::ROWS, num_keys, self.padded_keys, head_dim, self.dim_units, to);
            }
            self.pack_by_dim(view, self.whole.k, 0, num_keys, self.padded_keys, self.keys_by_dim);
        }
    }

    /// Packs `num` tokens from `first` on as `[unit of tokens][dim]`, zeros up to `padded`.
    #[inline(always)]
    unsafe fn pack_by_dim(
        &self,
        view: HeadView,
        from: *const u8,
        first: usize,
        num: usize,
        padded: usize,
        to: *mut u32,
    ) {
        let spec = self.whole.spec;
        let used = num_units::<S>(num) * self.dim;
        // SAFETY: the caller's.
        unsafe {
            let from = view.source(spec, from, first, false);
            panels_on::<S>(&from, self.dim, spec.head_dim as usize, num, to);
            tile::clear(to.add(used), num_units::<S>(padded) * self.dim - used);
        }
    }

    /// Queries `first..` of a head.
    #[inline(always)]
    unsafe fn tile(&self, head: usize, first: usize) {
        let spec = self.whole.spec;
        let num_queries = (spec.q_tokens as usize - first).min(Self::TILE);
        let num_keys = spec.kv_tokens as usize;
        let end = if spec.causal { num_keys.min(first + num_queries) } else { num_keys };
        let view = HeadView::queries(spec, self.batch, head);
        // SAFETY: the caller's.
        unsafe {
            for (from, to, by_dim) in [
                (self.whole.q, self.queries, self.queries_by_dim),
                (self.whole.d_o, self.d_outs, self.d_outs_by_dim),
            ] {
                let lanes = view.source(spec, from, first, true);
                let head_dim = spec.head_dim as usize;
                pack_lanes::<S>(&lanes, Self::TILE, num_queries, Self::TILE, head_dim, self.dim_units, to);
                self.pack_by_dim(view, from, first, num_queries, Self::TILE, by_dim);
            }
            let lanes = self.lanes(view, head, first, num_queries);
            for key in (0..end).step_by(BACKWARD_KEYS as usize) {
                let rows = (end - key).min(BACKWARD_KEYS as usize);
                self.block(&lanes, first, key, rows);
            }
            let factor = [S::splat(1.0); QUERY_VECTORS];
            let result =
                Transposed { from: self.d_queries, padded_dim: self.dim, factor, rows: self.queries };
            let to = self.whole.d_q.add(view.token_bytes(spec, first));
            result.store::<S>(num_queries, spec.head_dim as usize, to, view.stride, spec.dtype);
        }
    }

    /// lse and delta of the tile; zeros for queries that do not exist, whose products then vanish.
    #[inline(always)]
    unsafe fn lanes(&self, view: HeadView, head: usize, first: usize, num_queries: usize) -> Lanes<S::V> {
        let spec = self.whole.spec;
        let mut minus_lse = [0.0f32; QUERY_VECTORS * MAX_LANES];
        let mut delta = minus_lse;
        // SAFETY: the caller's.
        unsafe {
            let of_head = (self.batch * spec.heads as usize + head) * spec.q_tokens as usize;
            for i in 0..num_queries {
                minus_lse[i] = -self.whole.lse.add(of_head + first + i).read() * LOG2_E;
                let at = view.token_bytes(spec, first + i);
                delta[i] =
                    dot(self.whole.o.add(at), self.whole.d_o.add(at), spec.head_dim as usize, spec.dtype);
            }
            let mut lanes =
                Lanes { minus_lse: [S::zero(); QUERY_VECTORS], delta: [S::zero(); QUERY_VECTORS] };
            for z in 0..QUERY_VECTORS {
                lanes.minus_lse[z] = S::load(minus_lse.as_ptr().add(z * S::LANES));
                lanes.delta[z] = S::load(delta.as_ptr().add(z * S::LANES));
            }
            lanes
        }
    }

    /// The keys `key..key + rows` against the tile of queries.
    #[inline(always)]
    unsafe fn block(&self, lanes: &Lanes<S::V>, first: usize, key: usize, rows: usize) {
        let padded = rows.next_multiple_of(8);
        // SAFETY: the caller's.
        unsafe {
            for (left, right, to) in
                [(self.keys, self.queries, self.scores), (self.values, self.d_outs, self.d_probs)]
            {
                for row in (0..padded).step_by(S::ROWS) {
                    let left = left.add((key + row) * self.dim_units);
                    let left = Left { ptr: left, row_stride: 1, unit_stride: S::ROWS };
                    self.for_queries(
                        S::ROWS,
                        self.dim_units,
                        left,
                        right,
                        to.add(row * Self::TILE),
                        Start::Zero,
                    );
                }
            }
            for z in 0..QUERY_VECTORS {
                self.d_scores(lanes, z, first, key, rows, padded);
            }
            for (left, right, to) in [
                (self.probs, self.d_outs_by_dim, self.d_values),
                (self.d_scores, self.queries_by_dim, self.d_keys),
            ] {
                let left = Left { ptr: left, row_stride: Self::TILE_UNITS, unit_stride: 1 };
                let right = Right { ptr: right, ld: self.dim };
                let to = to.add(key * self.dim);
                tile::wide_product::<S>(padded, self.dim, Self::TILE_UNITS, left, right, to, self.dim);
            }
            let keys = self.keys_by_dim.add(num_units::<S>(key) * self.dim);
            let left = Left { ptr: keys, row_stride: 1, unit_stride: self.dim };
            let start = if key == 0 { Start::Zero } else { Start::Add };
            let units = num_units::<S>(padded);
            self.for_queries(self.dim, units, left, self.d_scores_by_key, self.d_queries, start);
        }
    }

    /// The product of some rows with the tile's queries.
    #[inline(always)]
    unsafe fn for_queries(
        &self,
        rows: usize,
        units: usize,
        left: Left,
        right: *const u32,
        to: *mut f32,
        start: Start<S::V>,
    ) {
        for query in (0..Self::TILE).step_by(NUM_VECTORS * S::LANES) {
            // SAFETY: the caller's.
            unsafe {
                let right = Right { ptr: right.add(query), ld: Self::TILE };
                tile::product::<S, NUM_VECTORS>(rows, units, left, right, to.add(query), Self::TILE, start);
            }
        }
    }

    /// Probabilities and their scores' gradients, for one vector of queries.
    #[inline(always)]
    unsafe fn d_scores(
        &self,
        lanes: &Lanes<S::V>,
        z: usize,
        first: usize,
        key: usize,
        rows: usize,
        padded: usize,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let first_masked =
                if self.whole.spec.causal { first.saturating_sub(key).min(rows) } else { rows };
            for row in (0..padded).step_by(2) {
                let hidden = [row, row + 1].map(|row| match row {
                    row if row < first_masked => 0,
                    row if row < rows => (key + row).saturating_sub(first + z * S::LANES).min(S::LANES),
                    _ => S::LANES,
                });
                let (p0, d0) = self.d_score(lanes, z, row, hidden[0]);
                let (p1, d1) = self.d_score(lanes, z, row + 1, hidden[1]);
                for (row, p, d) in [(row, p0, d0), (row + 1, p1, d1)] {
                    let at = row * Self::TILE_UNITS;
                    if S::PAIRS {
                        S::store_bf16(self.probs.add(at).cast::<u16>().add(z * S::LANES), p);
                        S::store_bf16(self.d_scores.add(at).cast::<u16>().add(z * S::LANES), d);
                    } else {
                        S::store_units(self.probs.add(at + z * S::LANES), p);
                        S::store_units(self.d_scores.add(at + z * S::LANES), d);
                    }
                }
                if S::PAIRS {
                    let to = self.d_scores_by_key.add(num_units::<S>(row) * Self::TILE + z * S::LANES);
                    S::store_units(to, S::round_pairs(d0, d1));
                }
            }
        }
    }

    /// The probability of a key and its score's gradient; zero in the lanes below `hidden`.
    #[inline(always)]
    unsafe fn d_score(&self, lanes: &Lanes<S::V>, z: usize, row: usize, hidden: usize) -> (S::V, S::V) {
        // SAFETY: the caller's.
        unsafe {
            let at = row * Self::TILE + z * S::LANES;
            let score = S::fma(S::load(self.scores.add(at)), self.factor, lanes.minus_lse[z]);
            let prob = S::from_lane(hidden, tile::exp2::<S, EXACT>(score), S::zero());
            let d_prob = S::sub(S::load(self.d_probs.add(at)), lanes.delta[z]);
            (prob, S::mul(S::mul(prob, self.scale), d_prob))
        }
    }
}

/// The dot product of two rows.
unsafe fn dot(a: *const u8, b: *const u8, num: usize, dtype: DType) -> f32 {
    let value = |p: *const u8, i: usize| {
        // SAFETY: the caller's.
        unsafe {
            match dtype {
                DType::Bf16 => bf16::widen(p.cast::<u16>().add(i).read()),
                DType::F32 | DType::I32 => p.cast::<f32>().add(i).read(),
            }
        }
    };
    (0..num).map(|i| value(a, i) * value(b, i)).sum()
}
