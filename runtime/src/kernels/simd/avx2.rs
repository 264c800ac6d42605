//! AVX2 with FMA.

use super::Simd;
use std::arch::x86_64::*;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2;

/// bf16 lanes of f32 lanes, in the low halves.
#[inline(always)]
unsafe fn round_bits(x: __m256) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let bits = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
        let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x0040_0000));
        _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan))
    }
}

#[inline(always)]
unsafe fn narrow(x: __m256) -> __m128i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let bits = round_bits(x);
        _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(bits, bits)))
    }
}

/// bf16 in the low halves of the lanes.
#[inline(always)]
unsafe fn load_low(p: *const u16) -> __m256i {
    // SAFETY: the caller's.
    unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())) }
}

#[expect(unsafe_op_in_unsafe_fn, reason = "every line is an intrinsic")]
impl Simd for Avx2 {
    type V = __m256;
    const LANES: usize = 8;
    const PAIRS: bool = false;
    const MR: usize = 6;
    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> __m256 {
        _mm256_setzero_ps()
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        _mm256_set1_ps(x)
    }
    #[inline(always)]
    unsafe fn splat_unit(p: *const u32) -> __m256 {
        _mm256_set1_ps(p.cast::<f32>().read_unaligned())
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        _mm256_loadu_ps(p)
    }
    #[inline(always)]
    unsafe fn load_units(p: *const u32) -> __m256 {
        _mm256_loadu_ps(p.cast())
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, x: __m256) {
        _mm256_storeu_ps(p, x);
    }
    #[inline(always)]
    unsafe fn stream(p: *mut f32, x: __m256) {
        _mm256_stream_ps(p, x);
    }
    #[inline(always)]
    unsafe fn stream_bf16(p: *mut u16, x: __m256) {
        _mm_stream_si128(p.cast(), narrow(x));
    }
    #[inline(always)]
    unsafe fn fence() {
        _mm_sfence();
    }
    #[inline(always)]
    unsafe fn store_units(p: *mut u32, x: __m256) {
        _mm256_storeu_ps(p.cast(), x);
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m256 {
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(load_low(p)))
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, x: __m256) {
        _mm_storeu_si128(p.cast(), narrow(x));
    }
    #[inline(always)]
    unsafe fn interleave(low: *const u16, high: *const u16) -> __m256 {
        _mm256_castsi256_ps(_mm256_or_si256(load_low(low), _mm256_slli_epi32::<16>(load_low(high))))
    }
    #[inline(always)]
    unsafe fn round_pairs(low: __m256, high: __m256) -> __m256 {
        _mm256_castsi256_ps(_mm256_or_si256(round_bits(low), _mm256_slli_epi32::<16>(round_bits(high))))
    }
    #[inline(always)]
    unsafe fn transpose(row: impl Fn(usize) -> __m256, to: *mut u32, ld: usize) {
        let mut a = [_mm256_setzero_ps(); 8];
        let mut b = a;
        for i in 0..4 {
            let (even, odd) = (row(2 * i), row(2 * i + 1));
            a[2 * i] = _mm256_unpacklo_ps(even, odd);
            a[2 * i + 1] = _mm256_unpackhi_ps(even, odd);
        }
        for i in 0..2 {
            b[4 * i] = _mm256_shuffle_ps::<0x44>(a[4 * i], a[4 * i + 2]);
            b[4 * i + 1] = _mm256_shuffle_ps::<0xee>(a[4 * i], a[4 * i + 2]);
            b[4 * i + 2] = _mm256_shuffle_ps::<0x44>(a[4 * i + 1], a[4 * i + 3]);
            b[4 * i + 3] = _mm256_shuffle_ps::<0xee>(a[4 * i + 1], a[4 * i + 3]);
        }
        for i in 0..4 {
            a[i] = _mm256_permute2f128_ps::<0x20>(b[i], b[i + 4]);
            a[i + 4] = _mm256_permute2f128_ps::<0x31>(b[i], b[i + 4]);
        }
        for (j, column) in a.into_iter().enumerate() {
            _mm256_storeu_ps(to.add(j * ld).cast(), column);
        }
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        _mm256_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        _mm256_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        _mm256_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        _mm256_fmadd_ps(a, b, c)
    }
    #[inline(always)]
    unsafe fn round(a: __m256) -> __m256 {
        _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: __m256, n: __m256) -> __m256 {
        let power = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)));
        let tiny = _mm256_cmp_ps::<_CMP_LT_OQ>(n, _mm256_set1_ps(-126.0));
        _mm256_andnot_ps(tiny, _mm256_mul_ps(a, _mm256_castsi256_ps(power)))
    }
    #[inline(always)]
    unsafe fn from_lane(first: usize, a: __m256, below: __m256) -> __m256 {
        let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let is_below = _mm256_cmpgt_epi32(_mm256_set1_epi32(first as i32), lane);
        _mm256_blendv_ps(a, below, _mm256_castsi256_ps(is_below))
    }
    #[inline(always)]
    unsafe fn mac(acc: __m256, a: __m256, b: __m256) -> __m256 {
        _mm256_fmadd_ps(a, b, acc)
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const u32) {
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
}
