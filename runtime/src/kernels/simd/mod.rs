//! The vector operations kernels are written in.
//!
//! A vector has [`Simd::LANES`] lanes of 32 bits. Contractions read *units* of 32 bits: one f32, or two consecutive bf16 of
//! the contracted dimension when the engine multiplies pairs. Packing makes units from either element type.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use portable::Portable;

/// Lanes of the widest vector.
pub(crate) const MAX_LANES: usize = 16;

/// An instruction set.
///
/// # Safety
/// All functions need the instructions of the implementation; pointers need no alignment and must be valid for the lanes read
/// or written.
pub(crate) trait Simd: Copy {
    /// A vector of 32-bit lanes, as f32 or as units.
    type V: Copy;
    /// Lanes of a vector.
    const LANES: usize;
    /// Whether a unit is a pair of bf16.
    const PAIRS: bool;
    /// Rows of the matrix-product tile whose width is two vectors.
    const MR: usize;
    /// Rows of the tile whose width is one or two vectors, in attention: divides 8.
    const ROWS: usize;

    unsafe fn zero() -> Self::V;
    unsafe fn splat(x: f32) -> Self::V;
    /// Every lane the unit at `p`.
    unsafe fn splat_unit(p: *const u32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn load_units(p: *const u32) -> Self::V;
    unsafe fn store(p: *mut f32, x: Self::V);
    /// [`Simd::store`] to an aligned address, around the caches.
    unsafe fn stream(p: *mut f32, x: Self::V);
    /// [`Simd::store_bf16`] to an aligned address, around the caches.
    unsafe fn stream_bf16(p: *mut u16, x: Self::V);
    /// Makes the streamed data visible to threads that synchronise with this one.
    unsafe fn fence();
    unsafe fn store_units(p: *mut u32, x: Self::V);
    /// bf16 to f32.
    unsafe fn load_bf16(p: *const u16) -> Self::V;
    /// f32 to bf16, to nearest even.
    unsafe fn store_bf16(p: *mut u16, x: Self::V);
    /// Lane `i` is the pair (`low[i]`, `high[i]`).
    unsafe fn interleave(low: *const u16, high: *const u16) -> Self::V;
    /// Lane `i` is the pair of bf16 nearest to `low[i]` and `high[i]`.
    unsafe fn round_pairs(low: Self::V, high: Self::V) -> Self::V;
    /// Writes lane `j` of `row(i)` to `to[j * ld + i]`, in the order of `j`, for all `LANES` rows: lanes beyond a narrow column are
    /// overwritten by the next.
    unsafe fn transpose(row: impl Fn(usize) -> Self::V, to: *mut u32, ld: usize);

    /// The first `count` lanes at `p`, zeros beyond.
    #[inline(always)]
    unsafe fn load_first(p: *const f32, count: usize) -> Self::V {
        let mut lanes = [0.0; MAX_LANES];
        // SAFETY: the caller's; `count` is below the number of lanes.
        unsafe {
            lanes.as_mut_ptr().copy_from_nonoverlapping(p, count);
            Self::load(lanes.as_ptr())
        }
    }
    /// The first `count` lanes of [`Simd::load_bf16`], zeros beyond.
    #[inline(always)]
    unsafe fn load_bf16_first(p: *const u16, count: usize) -> Self::V {
        let mut lanes = [0; MAX_LANES];
        // SAFETY: the caller's; `count` is below the number of lanes.
        unsafe {
            lanes.as_mut_ptr().copy_from_nonoverlapping(p, count);
            Self::load_bf16(lanes.as_ptr())
        }
    }
    /// The first `count` lanes of [`Simd::interleave`], zeros beyond.
    #[inline(always)]
    unsafe fn interleave_first(low: *const u16, high: *const u16, count: usize) -> Self::V {
        let (mut lows, mut highs) = ([0; MAX_LANES], [0; MAX_LANES]);
        // SAFETY: the caller's; `count` is below the number of lanes.
        unsafe {
            lows.as_mut_ptr().copy_from_nonoverlapping(low, count);
            highs.as_mut_ptr().copy_from_nonoverlapping(high, count);
            Self::interleave(lows.as_ptr(), highs.as_ptr())
        }
    }

    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// To the nearest integer, ties to even; values beyond 2^22 in magnitude may come out as any value as large.
    unsafe fn round(a: Self::V) -> Self::V;
    /// `a * 2^n` for integral `n <= 127`; zero when `n < -126` or `n` is -inf.
    unsafe fn scale_by_power(a: Self::V, n: Self::V) -> Self::V;
    /// Lanes from `first` on from `a`, the lower ones from `below`.
    unsafe fn from_lane(first: usize, a: Self::V, below: Self::V) -> Self::V;
    /// `acc` plus the products of the units of `a` and `b`, accumulated in f32.
    unsafe fn mac(acc: Self::V, a: Self::V, b: Self::V) -> Self::V;
    /// Brings the cache line at `p`, which need not be valid, near.
    unsafe fn prefetch(p: *const u32);
}
