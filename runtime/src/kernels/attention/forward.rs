//! Attention forward: one task is some queries of the heads that share one key head.

use super::tile::{self, LOWEST, Left, NUM_VECTORS, Right, Start, Transposed};
use super::{HeadView, carve};
use crate::kernels::isa::per_engine;
use crate::kernels::pack::{num_units, panels_on};
use crate::kernels::simd::{MAX_LANES, Simd};
use std::f32::consts::{LN_2, LOG2_E};
use titan_ir::DType;
use titan_ir::kernel::Attention;
use titan_ir::kernel::workspace::{AttentionSizes, FORWARD_KEYS};

/// Query tiles a part should have at least: a part packs the keys of its head anew.
const MIN_TILES: usize = 8;

/// The whole problem.
pub(super) struct Forward<'a> {
    pub(super) spec: &'a Attention,
    pub(super) q: *const u8,
    pub(super) k: *const u8,
    pub(super) v: *const u8,
    pub(super) o: *mut u8,
    pub(super) lse: *mut f32,
    /// Tasks per key head.
    pub(super) num_parts: usize,
}

// SAFETY: tasks write disjoint parts of the results, and read the rest.
unsafe impl Sync for Forward<'_> {}

/// Parts of a key head's queries, so that every thread gets several tasks.
pub(super) fn num_parts(spec: &Attention, num_heads: usize, num_threads: usize) -> usize {
    let num_tiles = (spec.heads / spec.kv_heads) as usize * (spec.q_tokens as usize).div_ceil(2 * MAX_LANES);
    let wanted = if num_threads == 1 { 1 } else { (4 * num_threads).div_ceil(num_heads.max(1)) };
    wanted.clamp(1, (num_tiles / MIN_TILES).max(1))
}

per_engine! {
    /// Runs a task.
    ///
    /// # Safety
    /// The problem is as `attention` was promised; `scratch` is the thread's.
    pub(super) unsafe fn task(whole: &Forward<'_>, task: usize, scratch: *mut u8) = task_on
}

#[inline(always)]
unsafe fn task_on<S: Simd>(whole: &Forward<'_>, task: usize, scratch: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        if S::PAIRS || whole.spec.dtype == DType::Bf16 {
            Head::<S, false>::new(whole, task / whole.num_parts, scratch).run(task % whole.num_parts);
        } else {
            Head::<S, true>::new(whole, task / whole.num_parts, scratch).run(task % whole.num_parts);
        }
    }
}

/// A key head, packed, and the buffers of a query tile.
struct Head<'a, S: Simd, const EXACT: bool> {
    whole: &'a Forward<'a>,
    batch: usize,
    kv_head: usize,
    /// Padded elements of a head, and units of them.
    dim: usize,
    dim_units: usize,
    /// `scale * log2(e)`.
    factor: S::V,
    /// `[panel of ROWS keys][unit of dim][key]`.
    keys: *mut u32,
    /// `[unit of keys][dim]`.
    values: *mut u32,
    /// `[unit of dim][query]`.
    queries: *mut u32,
    /// `[key][query]`.
    scores: *mut f32,
    /// `[unit of keys][query]`.
    probs: *mut u32,
    /// `[dim][query]`.
    sums: *mut f32,
}

impl<'a, S: Simd, const EXACT: bool> Head<'a, S, EXACT> {
    const TILE: usize = NUM_VECTORS * S::LANES;

    #[inline(always)]
    unsafe fn new(whole: &'a Forward<'a>, head: usize, scratch: *mut u8) -> Self {
        let spec = whole.spec;
        let sizes = AttentionSizes::new(spec);
        let (batch, kv_head) = (head / spec.kv_heads as usize, head % spec.kv_heads as usize);
        // SAFETY: the scratch is the workspace's.
        let [keys, values, queries, scores, probs, sums] = unsafe { carve(scratch, sizes.forward_words()) };
        let dim = sizes.head_dim as usize;
        Self {
            whole,
            batch,
            kv_head,
            dim,
            dim_units: num_units::<S>(dim),
            // SAFETY: the caller's.
            factor: unsafe { S::splat(f32::from_bits(spec.scale_bits) * LOG2_E) },
            keys,
            values,
            queries,
            scores: scores.cast(),
            probs,
            sums: sums.cast(),
        }
    }

    #[inline(always)]
    unsafe fn run(&self, part: usize) {
        let spec = self.whole.spec;
        let group = (spec.heads / spec.kv_heads) as usize;
        let num_tiles = (spec.q_tokens as usize).div_ceil(Self::TILE);
        let per_part = (group * num_tiles).div_ceil(self.whole.num_parts);
        // SAFETY: the caller's.
        unsafe {
            self.pack_keys();
            for tile in part * per_part..((part + 1) * per_part).min(group * num_tiles) {
                self.tile(self.kv_head * group + tile / num_tiles, tile % num_tiles * Self::TILE);
            }
        }
    }

    #[inline(always)]
    unsafe fn pack_keys(&self) {
        let spec = self.whole.spec;
        let (num_keys, head_dim) = (spec.kv_tokens as usize, spec.head_dim as usize);
        let padded_keys = AttentionSizes::new(spec).keys as usize;
        let view = HeadView::keys(spec, self.batch, self.kv_head);
        // SAFETY: the caller's.
        unsafe {
            let keys = view.source(spec, self.whole.k, 0, true);
            pack_lanes::<S>(&keys, S::ROWS, num_keys, padded_keys, head_dim, self.dim_units, self.keys);
            let values = view.source(spec, self.whole.v, 0, false);
            let used = num_units::<S>(num_keys) * self.dim;
            panels_on::<S>(&values, self.dim, head_dim, num_keys, self.values);
            tile::clear(self.values.add(used), num_units::<S>(padded_keys) * self.dim - used);
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
            let queries = view.source(spec, self.whole.q, first, true);
            pack_lanes::<S>(
                &queries,
                Self::TILE,
                num_queries,
                Self::TILE,
                spec.head_dim as usize,
                self.dim_units,
                self.queries,
            );
            let mut maxima = [S::splat(LOWEST); NUM_VECTORS];
            let mut totals = [S::zero(); NUM_VECTORS];
            for key in (0..end).step_by(FORWARD_KEYS as usize) {
                let rows = (end - key).min(FORWARD_KEYS as usize);
                self.block(first, key, rows, &mut maxima, &mut totals);
            }
            self.finish(view, head, first, num_queries, maxima, totals);
        }
    }

    /// Adds the keys `key..key + rows` to the running sums.
    #[inline(always)]
    unsafe fn block(
        &self,
        first: usize,
        key: usize,
        rows: usize,
        maxima: &mut [S::V; NUM_VECTORS],
        totals: &mut [S::V; NUM_VECTORS],
    ) {
        let padded = rows.next_multiple_of(8);
        // SAFETY: the caller's.
        unsafe {
            let right = Right { ptr: self.queries, ld: Self::TILE };
            let left = Left { ptr: self.keys.add(key * self.dim_units), row_stride: 1, unit_stride: S::ROWS };
            for row in (0..padded).step_by(S::ROWS) {
                let left = Left { ptr: left.ptr.add(row * self.dim_units), ..left };
                let to = self.scores.add(row * Self::TILE);
                tile::product::<S, NUM_VECTORS>(
                    S::ROWS,
                    self.dim_units,
                    left,
                    right,
                    to,
                    Self::TILE,
                    Start::Zero,
                );
            }
            self.mask(first, key, rows, padded);
            let mut scales = [S::zero(); NUM_VECTORS];
            for z in 0..NUM_VECTORS {
                scales[z] = self.probabilities(z, padded, &mut maxima[z], &mut totals[z]);
            }
            let right = Right { ptr: self.probs, ld: Self::TILE };
            let values = self.values.add(num_units::<S>(key) * self.dim);
            let left = Left { ptr: values, row_stride: 1, unit_stride: self.dim };
            let start = if key == 0 { Start::Zero } else { Start::Scale(scales) };
            let units = num_units::<S>(padded);
            tile::product::<S, NUM_VECTORS>(self.dim, units, left, right, self.sums, Self::TILE, start);
        }
    }

    /// Sets the scores of keys a query does not see to minus infinity.
    #[inline(always)]
    unsafe fn mask(&self, first: usize, key: usize, rows: usize, padded: usize) {
        // SAFETY: the caller's.
        unsafe {
            let hidden = S::splat(f32::NEG_INFINITY);
            let start = if self.whole.spec.causal { first.saturating_sub(key).min(rows) } else { rows };
            for row in start..padded {
                for z in 0..NUM_VECTORS {
                    let at = self.scores.add(row * Self::TILE + z * S::LANES);
                    let lanes = (key + row).saturating_sub(first + z * S::LANES).min(S::LANES);
                    let lanes = if row < rows { lanes } else { S::LANES };
                    S::store(at, S::from_lane(lanes, S::load(at), hidden));
                }
            }
        }
    }

    /// Turns a vector of scores into probabilities relative to the new maximum; returns the factor for what was summed before.
    #[inline(always)]
    unsafe fn probabilities(&self, z: usize, rows: usize, maximum: &mut S::V, total: &mut S::V) -> S::V {
        // SAFETY: the caller's.
        unsafe {
            let scores = self.scores.add(z * S::LANES);
            let mut largest = [S::load(scores); 4];
            for row in (0..rows).step_by(4) {
                for (i, largest) in largest.iter_mut().enumerate() {
                    *largest = S::max(*largest, S::load(scores.add((row + i) * Self::TILE)));
                }
            }
            let largest = S::max(S::max(largest[0], largest[1]), S::max(largest[2], largest[3]));
            let new = S::max(*maximum, S::mul(largest, self.factor));
            let scale = tile::exp2::<S, EXACT>(S::sub(*maximum, new));
            let minus = S::sub(S::zero(), new);
            let mut sums = [S::mul(*total, scale), S::zero()];
            for row in (0..rows).step_by(2) {
                let even = self.probability(scores.add(row * Self::TILE), minus);
                let odd = self.probability(scores.add((row + 1) * Self::TILE), minus);
                sums = [S::add(sums[0], even), S::add(sums[1], odd)];
                let to = self.probs.add(num_units::<S>(row) * Self::TILE + z * S::LANES);
                if S::PAIRS {
                    S::store_units(to, S::round_pairs(even, odd));
                } else {
                    S::store_units(to, even);
                    S::store_units(to.add(Self::TILE), odd);
                }
            }
            *total = S::add(sums[0], sums[1]);
            *maximum = new;
            scale
        }
    }

    #[inline(always)]
    unsafe fn probability(&self, score: *const f32, minus_maximum: S::V) -> S::V {
        // SAFETY: the caller's.
        unsafe { tile::exp2::<S, EXACT>(S::fma(S::load(score), self.factor, minus_maximum)) }
    }

    /// Divides by the totals and stores the tile.
    #[inline(always)]
    unsafe fn finish(
        &self,
        view: HeadView,
        head: usize,
        first: usize,
        num_queries: usize,
        maxima: [S::V; NUM_VECTORS],
        totals: [S::V; NUM_VECTORS],
    ) {
        let spec = self.whole.spec;
        let mut lanes = [[0.0f32; NUM_VECTORS * MAX_LANES]; 3];
        // SAFETY: the caller's.
        unsafe {
            let [maximum, total, inverse] = &mut lanes;
            for z in 0..NUM_VECTORS {
                S::store(maximum.as_mut_ptr().add(z * S::LANES), maxima[z]);
                S::store(total.as_mut_ptr().add(z * S::LANES), totals[z]);
            }
            let lse = self
                .whole
                .lse
                .add((self.batch * spec.heads as usize + head) * spec.q_tokens as usize + first);
            for i in 0..Self::TILE {
                inverse[i] = 1.0 / total[i];
                if i < num_queries {
                    lse.add(i).write(maximum[i] * LN_2 + total[i].ln());
                }
            }
            let mut factor = [S::zero(); NUM_VECTORS];
            for (z, factor) in factor.iter_mut().enumerate() {
                *factor = S::load(inverse.as_ptr().add(z * S::LANES));
            }
            let result = Transposed { from: self.sums, padded_dim: self.dim, factor, rows: self.queries };
            let to = self.whole.o.add(view.token_bytes(spec, first));
            result.store::<S>(num_queries, spec.head_dim as usize, to, view.stride, spec.dtype);
        }
    }
}

/// Packs tokens as lanes and zeros the padding of the head: panels of `width` tokens, `padded_lanes` in all, each of `dim_units` rows.
#[inline(always)]
pub(super) unsafe fn pack_lanes<S: Simd>(
    from: &crate::kernels::pack::Source,
    width: usize,
    num_lanes: usize,
    padded_lanes: usize,
    head_dim: usize,
    dim_units: usize,
    to: *mut u32,
) {
    let units = num_units::<S>(head_dim);
    // SAFETY: the caller's.
    unsafe {
        for first in (0..padded_lanes).step_by(width) {
            let to = to.add(first * dim_units);
            if first < num_lanes {
                panels_on::<S>(&from.at(first, 0), width, (num_lanes - first).min(width), head_dim, to);
            } else {
                tile::clear(to, units * width);
            }
            tile::clear(to.add(units * width), (dim_units - units) * width);
        }
    }
}
