//! Plain Rust, four lanes: what the compiler turns into the baseline vectors of any machine.

use super::Simd;
use crate::kernels::bf16;
use std::array::from_fn;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

#[expect(
    unsafe_op_in_unsafe_fn,
    reason = "every function reads or writes through a pointer or computes lanes"
)]
impl Simd for Portable {
    type V = [f32; 4];
    const LANES: usize = 4;
    const PAIRS: bool = false;
    const MR: usize = 4;
    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> [f32; 4] {
        [0.0; 4]
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 4] {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn splat_unit(p: *const u32) -> [f32; 4] {
        [p.cast::<f32>().read_unaligned(); 4]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> [f32; 4] {
        p.cast::<[f32; 4]>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn load_units(p: *const u32) -> [f32; 4] {
        p.cast::<[f32; 4]>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, x: [f32; 4]) {
        p.cast::<[f32; 4]>().write_unaligned(x);
    }
    #[inline(always)]
    unsafe fn stream(p: *mut f32, x: [f32; 4]) {
        Self::store(p, x);
    }
    #[inline(always)]
    unsafe fn stream_bf16(p: *mut u16, x: [f32; 4]) {
        Self::store_bf16(p, x);
    }
    #[inline(always)]
    unsafe fn fence() {}
    #[inline(always)]
    unsafe fn store_units(p: *mut u32, x: [f32; 4]) {
        p.cast::<[f32; 4]>().write_unaligned(x);
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> [f32; 4] {
        p.cast::<[u16; 4]>().read_unaligned().map(bf16::widen)
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, x: [f32; 4]) {
        p.cast::<[u16; 4]>().write_unaligned(x.map(bf16::round));
    }
    #[inline(always)]
    unsafe fn interleave(low: *const u16, high: *const u16) -> [f32; 4] {
        let low = low.cast::<[u16; 4]>().read_unaligned();
        let high = high.cast::<[u16; 4]>().read_unaligned();
        from_fn(|i| f32::from_bits(u32::from(low[i]) | u32::from(high[i]) << 16))
    }
    #[inline(always)]
    unsafe fn round_pairs(low: [f32; 4], high: [f32; 4]) -> [f32; 4] {
        from_fn(|i| f32::from_bits(u32::from(bf16::round(low[i])) | u32::from(bf16::round(high[i])) << 16))
    }
    #[inline(always)]
    unsafe fn transpose(row: impl Fn(usize) -> [f32; 4], to: *mut u32, ld: usize) {
        let rows: [[f32; 4]; 4] = from_fn(row);
        let columns: [[f32; 4]; 4] = from_fn(|j| from_fn(|i| rows[i][j]));
        for (j, column) in columns.into_iter().enumerate() {
            Self::store_units(to.add(j * ld), column);
        }
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn max(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn fma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        // Rounded twice: without the instruction a fused multiply-add is a slow library call.
        from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn round(a: [f32; 4]) -> [f32; 4] {
        // Adding 1.5 * 2^23 leaves no bits for a fraction.
        const SHIFT: f32 = 12_582_912.0;
        from_fn(|i| (a[i] + SHIFT) - SHIFT)
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: [f32; 4], n: [f32; 4]) -> [f32; 4] {
        from_fn(|i| {
            let power = f32::from_bits(((n[i] as i32).wrapping_add(127) as u32) << 23);
            if n[i] < -126.0 { 0.0 } else { a[i] * power }
        })
    }
    #[inline(always)]
    unsafe fn from_lane(first: usize, a: [f32; 4], below: [f32; 4]) -> [f32; 4] {
        from_fn(|i| if i < first { below[i] } else { a[i] })
    }
    #[inline(always)]
    unsafe fn mac(acc: [f32; 4], a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        from_fn(|i| acc[i] + a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn prefetch(_p: *const u32) {}
}
