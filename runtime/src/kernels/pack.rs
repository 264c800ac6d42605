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

/// Rows of memory that are brought near ahead of the current one.
const PREFETCH_ROWS: usize = 6;

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
    let num_panels = num_lanes.div_ceil(width);
    // Panels whose vectors all lie within the row.
    let num_whole = (num_lanes + width).saturating_sub(width.next_multiple_of(S::LANES)) / width;
    // SAFETY: vectors are read only where all their lanes exist; a prefetched address need not be valid.
    unsafe {
        for unit in 0..units {
            let has_pair = !S::PAIRS || 2 * unit + 1 < num_k;
            let may_spill = unit + 1 < units || width.is_multiple_of(S::LANES);
            let num_fast = if has_pair && may_spill { num_whole } else { 0 };
            for panel in 0..num_fast {
                let to = to.add((panel * units + unit) * width);
                for lane in (0..width).step_by(S::LANES) {
                    let row = lane_units::<S, BF16>(from, panel * width + lane, unit);
                    S::store_units(to.add(lane), row);
                }
                S::prefetch(ahead::<S, BF16>(from, panel * width, unit));
            }
            for panel in num_fast..num_panels {
                let to = to.add((panel * units + unit) * width);
                let valid = (num_lanes - panel * width).min(width);
                if has_pair && may_spill {
                    for lane in (0..width).step_by(S::LANES) {
                        let count = valid.saturating_sub(lane).min(S::LANES);
                        let row = first_lane_units::<S, BF16>(from, panel * width + lane, unit, count);
                        S::store_units(to.add(lane), row);
                    }
                } else {
                    edge_row::<S, BF16>(from, panel * width, unit, num_k, valid, width, to);
                }
            }
        }
    }
}

/// The row `PREFETCH_ROWS` units on.
#[inline(always)]
fn ahead<S: Simd, const BF16: bool>(from: &Source, lane: usize, unit: usize) -> *const u32 {
    let row = (unit + PREFETCH_ROWS) * if S::PAIRS { 2 } else { 1 };
    from.ptr.wrapping_add((row * from.stride + lane) * if BF16 { 2 } else { 4 }).cast()
}

/// One unit of the `valid` lanes of a panel, zeros beyond; writes nothing else.
#[inline(always)]
unsafe fn edge_row<S: Simd, const BF16: bool>(
    from: &Source,
    first_lane: usize,
    unit: usize,
    num_k: usize,
    valid: usize,
    width: usize,
    to: *mut u32,
) {
    // SAFETY: the caller's.
    unsafe {
        for lane in 0..valid {
            to.add(lane).write(scalar::<S, BF16>(from, first_lane + lane, unit, num_k));
        }
        to.add(valid).write_bytes(0, width - valid);
    }
}

/// One unit of a vector of consecutive lanes.
#[inline(always)]
unsafe fn lane_units<S: Simd, const BF16: bool>(from: &Source, lane: usize, unit: usize) -> S::V {
    // SAFETY: the caller's.
    unsafe {
        if !BF16 {
            return S::load(from.ptr.cast::<f32>().add(unit * from.stride + lane));
        }
        let rows = from.ptr.cast::<u16>();
        if !S::PAIRS {
            return S::load_bf16(rows.add(unit * from.stride + lane));
        }
        let low = rows.add(2 * unit * from.stride + lane);
        S::interleave(low, low.add(from.stride))
    }
}

/// The first `count` lanes of [`lane_units`], zeros beyond.
#[inline(always)]
unsafe fn first_lane_units<S: Simd, const BF16: bool>(
    from: &Source,
    lane: usize,
    unit: usize,
    count: usize,
) -> S::V {
    // SAFETY: the caller's.
    unsafe {
        if !BF16 {
            return S::load_first(from.ptr.cast::<f32>().wrapping_add(unit * from.stride + lane), count);
        }
        let rows = from.ptr.cast::<u16>();
        if !S::PAIRS {
            return S::load_bf16_first(rows.wrapping_add(unit * from.stride + lane), count);
        }
        let low = rows.wrapping_add(2 * unit * from.stride + lane);
        S::interleave_first(low, low.wrapping_add(from.stride), count)
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
