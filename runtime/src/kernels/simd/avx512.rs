//! AVX-512, with bf16 pairs or without.

use super::Simd;
use std::arch::x86_64::*;

/// `P`: units are bf16 pairs (AVX512_BF16).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512<const P: bool>;

#[inline(always)]
unsafe fn units(x: __m512) -> __m512i {
    // SAFETY: the caller has AVX-512.
    unsafe { _mm512_castps_si512(x) }
}

#[inline(always)]
unsafe fn floats(x: __m512i) -> __m512 {
    // SAFETY: the caller has AVX-512.
    unsafe { _mm512_castsi512_ps(x) }
}

#[inline(always)]
unsafe fn pairs(x: __m512) -> __m512bh {
    // SAFETY: vectors of the same size; every bit pattern is valid.
    unsafe { std::mem::transmute::<__m512, __m512bh>(x) }
}

/// The mask of the first `count` lanes.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

/// bf16 lanes of f32 lanes, in the low halves; without the bf16 instructions.
#[inline(always)]
unsafe fn round_bits(x: __m512) -> __m512i {
    // SAFETY: the caller has AVX-512.
    unsafe {
        let bits = units(x);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x0040_0000));
        _mm512_srli_epi32::<16>(_mm512_mask_mov_epi32(rounded, nan, quiet))
    }
}

/// The bf16 nearest to each lane.
#[inline(always)]
unsafe fn narrow<const P: bool>(x: __m512) -> __m256i {
    // SAFETY: the caller has AVX-512, and the bf16 instructions when `P`.
    unsafe {
        if P {
            std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(x))
        } else {
            _mm512_cvtepi32_epi16(round_bits(x))
        }
    }
}

#[expect(unsafe_op_in_unsafe_fn, reason = "every line is an intrinsic")]
impl<const P: bool> Simd for Avx512<P> {
    type V = __m512;
    const LANES: usize = 16;
    const PAIRS: bool = P;
    const MR: usize = 14;
    const ROWS: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        _mm512_setzero_ps()
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        _mm512_set1_ps(x)
    }
    #[inline(always)]
    unsafe fn splat_unit(p: *const u32) -> __m512 {
        floats(_mm512_set1_epi32(p.cast::<i32>().read_unaligned()))
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        _mm512_loadu_ps(p)
    }
    #[inline(always)]
    unsafe fn load_units(p: *const u32) -> __m512 {
        _mm512_loadu_ps(p.cast())
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, x: __m512) {
        _mm512_storeu_ps(p, x);
    }
    #[inline(always)]
    unsafe fn stream(p: *mut f32, x: __m512) {
        _mm512_stream_ps(p, x);
    }
    #[inline(always)]
    unsafe fn stream_bf16(p: *mut u16, x: __m512) {
        _mm256_stream_si256(p.cast(), narrow::<P>(x));
    }
    #[inline(always)]
    unsafe fn fence() {
        _mm_sfence();
    }
    #[inline(always)]
    unsafe fn store_units(p: *mut u32, x: __m512) {
        _mm512_storeu_ps(p.cast(), x);
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m512 {
        floats(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))))
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, x: __m512) {
        _mm256_storeu_si256(p.cast(), narrow::<P>(x));
    }
    #[inline(always)]
    unsafe fn interleave(low: *const u16, high: *const u16) -> __m512 {
        let low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(low.cast()));
        let high = _mm512_cvtepu16_epi32(_mm256_loadu_si256(high.cast()));
        floats(_mm512_or_si512(low, _mm512_slli_epi32::<16>(high)))
    }
    #[inline(always)]
    unsafe fn round_pairs(low: __m512, high: __m512) -> __m512 {
        if P {
            // The instruction gives `low`'s lanes, then `high`'s: interleave the halves.
            let both = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
            let low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(both));
            let high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(both));
            floats(_mm512_or_si512(low, _mm512_slli_epi32::<16>(high)))
        } else {
            floats(_mm512_or_si512(round_bits(low), _mm512_slli_epi32::<16>(round_bits(high))))
        }
    }
    #[inline(always)]
    unsafe fn transpose(row: impl Fn(usize) -> __m512, to: *mut u32, ld: usize) {
        let mut a = [_mm512_setzero_si512(); 16];
        let mut b = a;
        for i in 0..8 {
            let (even, odd) = (units(row(2 * i)), units(row(2 * i + 1)));
            a[2 * i] = _mm512_unpacklo_epi32(even, odd);
            a[2 * i + 1] = _mm512_unpackhi_epi32(even, odd);
        }
        for i in 0..4 {
            b[4 * i] = _mm512_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
            b[4 * i + 1] = _mm512_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
            b[4 * i + 2] = _mm512_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
            b[4 * i + 3] = _mm512_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
        }
        for i in 0..4 {
            a[i] = _mm512_shuffle_i32x4::<0x88>(b[i], b[i + 4]);
            a[i + 4] = _mm512_shuffle_i32x4::<0xdd>(b[i], b[i + 4]);
            a[i + 8] = _mm512_shuffle_i32x4::<0x88>(b[i + 8], b[i + 12]);
            a[i + 12] = _mm512_shuffle_i32x4::<0xdd>(b[i + 8], b[i + 12]);
        }
        for i in 0..4 {
            b[i] = _mm512_shuffle_i32x4::<0x88>(a[i], a[i + 8]);
            b[i + 8] = _mm512_shuffle_i32x4::<0xdd>(a[i], a[i + 8]);
            b[i + 4] = _mm512_shuffle_i32x4::<0x88>(a[i + 4], a[i + 12]);
            b[i + 12] = _mm512_shuffle_i32x4::<0xdd>(a[i + 4], a[i + 12]);
        }
        for (j, column) in b.into_iter().enumerate() {
            _mm512_storeu_si512(to.add(j * ld).cast(), column);
        }
    }
    #[inline(always)]
    unsafe fn load_first(p: *const f32, count: usize) -> __m512 {
        _mm512_maskz_loadu_ps(first(count), p)
    }
    #[inline(always)]
    unsafe fn load_bf16_first(p: *const u16, count: usize) -> __m512 {
        floats(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(
            first(count),
            p.cast(),
        ))))
    }
    #[inline(always)]
    unsafe fn interleave_first(low: *const u16, high: *const u16, count: usize) -> __m512 {
        let low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(count), low.cast()));
        let high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(count), high.cast()));
        floats(_mm512_or_si512(low, _mm512_slli_epi32::<16>(high)))
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        _mm512_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        _mm512_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        _mm512_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        _mm512_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fmadd_ps(a, b, c)
    }
    #[inline(always)]
    unsafe fn round(a: __m512) -> __m512 {
        _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: __m512, n: __m512) -> __m512 {
        _mm512_scalef_ps(a, n)
    }
    #[inline(always)]
    unsafe fn from_lane(first: usize, a: __m512, below: __m512) -> __m512 {
        let from = (0xffff_u32 << first) as __mmask16;
        _mm512_mask_mov_ps(below, from, a)
    }
    #[inline(always)]
    unsafe fn mac(acc: __m512, a: __m512, b: __m512) -> __m512 {
        if P { _mm512_dpbf16_ps(acc, pairs(b), pairs(a)) } else { _mm512_fmadd_ps(a, b, acc) }
    }
    #[inline(always)]
    unsafe fn prefetch(p: *const u32) {
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
}
