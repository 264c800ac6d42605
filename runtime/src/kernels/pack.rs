//! Packing: rearranges a slice of an operand into panels a microkernel streams through.
//!
//! A panel holds `width` lanes (rows of A, columns of B, queries, head elements): `[unit][lane]`, where a unit is 32 bits of the contracted
//! dimension k. Missing lanes and the missing half of the last pair are zero. Stores are whole vectors in rising order: what one
//! store writes beyond its row, a later store overwrites, and the end needs `PACK_SLACK_BYTES`.

use super::isa::per_engine;
use super::simd::Simd;
use titan_ir::DType;

/// A matrix of lanes by k, one of them contiguous.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    /// Element (0, 0).
    pub(crate) ptr: *const u8,
    /// f32 or bf16.
    pub(crate) dtype: DType,
    /// Whether neighbours in memory are neighbours in k; else they are lanes.
    pub(crate) k_contiguous: bool,
    /// Elements from one row of memory to the next.
    pub(crate) stride: usize,
}

impl Source {
    /// The matrix that starts at (`lane`, `k`).
    ///
    /// # Safety
    /// The element exists.
    pub(crate) unsafe fn at(self, lane: usize, k: usize) -> Self {
        let offset = if self.k_contiguous { lane * self.stride + k } else { k * self.stride + lane };
        // SAFETY: the caller's.
        let ptr = unsafe { self.ptr.add(offset * self.dtype.size_bytes()) };
        Self { ptr, ..self }
    }
}

per_engine! {
    /// Packs lanes `0..num_lanes` and elements `0..num_k` of `from` into panels at `to`.
    ///
    /// # Safety
    /// `from` holds the elements; `to` has room for all panels and the slack. When k is contiguous, `width` is at most a vector or a multiple of one.
    pub(crate) unsafe fn panels(from: &Source, width: usize, num_lanes: usize, num_k: usize, to: *mut u32) = panels_on
}

#[inline(always)]
pub(crate) unsafe fn panels_on<S: Simd>(
    from: &Source,
    width: usize,
    num_lanes: usize,
    num_k: usize,
    to: *mut u32,
) {
    // SAFETY: the caller's.
    unsafe {
        match (from.dtype == DType::Bf16, from.k_contiguous) {
            (false, true) => transposed::<S, false>(from, width, num_lanes, num_k, to),
            (false, false) => copied::<S, false>(from, width, num_lanes, num_k, to),
            (true, true) => transposed::<S, true>(from, width, num_lanes, num_k, to),
            (true, false) => copied::<S, true>(from, width, num_lanes, num_k, to),
        }
    }
}

/// Units of `num_k` elements.
#[inline(always)]
pub(crate) fn num_units<S: Simd>(num_k: usize) -> usize {
    if S::PAIRS { num_k.div_ceil(2) } else { num_k }
}

/// k is contiguous: vectors of consecutive units are loaded from one vector's worth of lanes and transposed.
#[inline(always)]
unsafe fn transposed<S: Simd, const BF16: bool>(
    from: &Source,
    width: usize,
    num_lanes: usize,
    num_k: usize,
    to: *mut u32,
) {
    debug_assert!(width <= S::LANES || width.is_multiple_of(S::LANES));
    let units = num_units::<S>(num_k);
    let whole = (if S::PAIRS { num_k / 2 } else { num_k }) / S::LANES * S::LANES;
    let elem_bytes = if BF16 { 2 } else { 4 };
    let unit_bytes = if S::PAIRS { 4 } else { elem_bytes };
    // SAFETY: whole vectors of units lie within the rows of valid lanes; the rest is read element by element.
    unsafe {
        for (panel, first_lane) in (0..num_lanes).step_by(width).enumerate() {
            let to = to.add(panel * units * width);
            let valid = (num_lanes - first_lane).min(width);
            for lane in (0..width).step_by(S::LANES) {
                let rows = valid.saturating_sub(lane);
                let row = from.ptr.add((first_lane + lane) * from.stride * elem_bytes);
                for unit in (0..whole).step_by(S::LANES) {
                    let load = |i: usize| {
                        if i >= rows {
                            return S::zero();
                        }
                        let p = row.wrapping_add(i * from.stride * elem_bytes + unit * unit_bytes);
                        if BF16 && !S::PAIRS { S::load_bf16(p.cast()) } else { S::load_units(p.cast()) }
                    };
                    S::transpose(load, to.add(unit * width + lane), width);
                }
            }
            for unit in whole..units {
                for lane in 0..width {
                    let value = if lane < valid {
                        scalar::<S, BF16>(from, first_lane + lane, unit, num_k)
                    } else {
                        0
                    };
                    to.add(unit * width + lane).write(value);
                }
            }
        }
    }
}

/// Lanes are contiguous: rows are copied, in memory order across panels.
#[inline(always)]
unsafe fn copied<S: Simd, const BF16: bool>(
    from: &Source,
    width: usize,
    num_lanes: usize,
    num_k: usize,
    to: *mut u32,
) {
    let units = num_units::<S>(num_k);
    // SAFETY: vectors are read only where all their lanes exist.
    unsafe {
        for unit in 0..units {
            let has_pair = !S::PAIRS || 2 * unit + 1 < num_k;
            let may_spill = unit + 1 < units || width.is_multiple_of(S::LANES);
            for (panel, first_lane) in (0..num_lanes).step_by(width).enumerate() {
                let to = to.add((panel * units + unit) * width);
                for lane in (0..width).step_by(S::LANES) {
                    let valid = num_lanes.saturating_sub(first_lane + lane).min(width - lane);
                    if has_pair && may_spill && valid > 0 {
                        let fits = num_lanes - (first_lane + lane) >= S::LANES;
                        let count = if fits { S::LANES } else { valid };
                        let row = lane_units::<S, BF16>(from, first_lane + lane, unit, count);
                        S::store_units(to.add(lane), row);
                        continue;
                    }
                    for i in 0..S::LANES.min(width - lane) {
                        let value = if i < valid {
                            scalar::<S, BF16>(from, first_lane + lane + i, unit, num_k)
                        } else {
                            0
                        };
                        to.add(lane + i).write(value);
                    }
                }
            }
        }
    }
}

/// One unit of `count` consecutive lanes, zeros beyond.
#[inline(always)]
unsafe fn lane_units<S: Simd, const BF16: bool>(
    from: &Source,
    lane: usize,
    unit: usize,
    count: usize,
) -> S::V {
    // SAFETY: the caller's.
    unsafe {
        if !BF16 {
            let row = from.ptr.cast::<f32>().add(unit * from.stride + lane);
            return if count == S::LANES { S::load(row) } else { S::load_first(row, count) };
        }
        let rows = from.ptr.cast::<u16>();
        if !S::PAIRS {
            let row = rows.add(unit * from.stride + lane);
            return if count == S::LANES { S::load_bf16(row) } else { S::load_bf16_first(row, count) };
        }
        let low = rows.add(2 * unit * from.stride + lane);
        let high = low.add(from.stride);
        if count == S::LANES { S::interleave(low, high) } else { S::interleave_first(low, high, count) }
    }
}

/// One unit of one lane.
#[inline(always)]
unsafe fn scalar<S: Simd, const BF16: bool>(from: &Source, lane: usize, unit: usize, num_k: usize) -> u32 {
    let offset = |k: usize| if from.k_contiguous { lane * from.stride + k } else { k * from.stride + lane };
    // SAFETY: the caller's; the second half of a pair is read only where it exists.
    unsafe {
        if !BF16 {
            return from.ptr.cast::<u32>().add(offset(unit)).read_unaligned();
        }
        let read = |k: usize| u32::from(from.ptr.cast::<u16>().add(offset(k)).read_unaligned());
        if !S::PAIRS {
            return read(unit) << 16;
        }
        let high = if 2 * unit + 1 < num_k { read(2 * unit + 1) } else { 0 };
        read(2 * unit) | high << 16
    }
}
