//! The small products and the exponential of an attention tile.

use crate::kernels::simd::{MAX_LANES, Simd};
use titan_ir::DType;

/// Vectors of columns in a register tile.
pub(super) const NUM_VECTORS: usize = 2;

/// Stands for minus infinity where differences are taken.
pub(super) const LOWEST: f32 = -1e30;

/// The left operand of a product: element (row, unit) at `row * row_stride + unit * unit_stride`.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub(super) ptr: *const u32,
    pub(super) row_stride: usize,
    pub(super) unit_stride: usize,
}

/// The right operand: rows of units, `ld` apart.
#[derive(Clone, Copy)]
pub(super) struct Right {
    pub(super) ptr: *const u32,
    pub(super) ld: usize,
}

/// What sums start from.
#[derive(Clone, Copy)]
pub(super) enum Start<V> {
    Zero,
    /// The values already there.
    Add,
    /// The values already there, columns scaled.
    Scale([V; NUM_VECTORS]),
}

/// `to[row, col] = start + sum over units of left[row, unit] * right[unit, col]` for `Z` vectors of columns and a multiple of 8 rows.
#[inline(always)]
pub(super) unsafe fn product<S: Simd, const Z: usize>(
    rows: usize,
    units: usize,
    left: Left,
    right: Right,
    to: *mut f32,
    to_ld: usize,
    start: Start<S::V>,
) {
    for row in (0..rows).step_by(S::ROWS) {
        // SAFETY: the caller's.
        unsafe {
            let left = Left { ptr: left.ptr.add(row * left.row_stride), ..left };
            let to = to.add(row * to_ld);
            if S::ROWS == 8 {
                register_tile::<S, 8, Z>(units, left, right, to, to_ld, start);
            } else {
                register_tile::<S, 4, Z>(units, left, right, to, to_ld, start);
            }
        }
    }
}

/// [`product`] of any number of vectors of columns.
#[inline(always)]
pub(super) unsafe fn wide_product<S: Simd>(
    rows: usize,
    cols: usize,
    units: usize,
    left: Left,
    right: Right,
    to: *mut f32,
    to_ld: usize,
) {
    let pairs = cols / (2 * S::LANES) * (2 * S::LANES);
    // SAFETY: the caller's.
    unsafe {
        for col in (0..pairs).step_by(2 * S::LANES) {
            let right = Right { ptr: right.ptr.add(col), ..right };
            product::<S, 2>(rows, units, left, right, to.add(col), to_ld, Start::Add);
        }
        if pairs < cols {
            let right = Right { ptr: right.ptr.add(pairs), ..right };
            product::<S, 1>(rows, units, left, right, to.add(pairs), to_ld, Start::Add);
        }
    }
}

#[inline(always)]
unsafe fn register_tile<S: Simd, const R: usize, const Z: usize>(
    units: usize,
    left: Left,
    right: Right,
    to: *mut f32,
    to_ld: usize,
    start: Start<S::V>,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut acc = [[S::zero(); Z]; R];
        for (i, acc) in acc.iter_mut().enumerate() {
            for (z, acc) in acc.iter_mut().enumerate() {
                let to = to.add(i * to_ld + z * S::LANES);
                match start {
                    Start::Zero => {}
                    // Added at the end, when the values have come from afar.
                    Start::Add => S::prefetch(to.cast()),
                    Start::Scale(by) => *acc = S::mul(S::load(to), by[z]),
                }
            }
        }
        for unit in 0..units {
            let mut cols = [S::zero(); Z];
            for (z, col) in cols.iter_mut().enumerate() {
                *col = S::load_units(right.ptr.add(unit * right.ld + z * S::LANES));
            }
            for (i, acc) in acc.iter_mut().enumerate() {
                let row = S::splat_unit(left.ptr.add(i * left.row_stride + unit * left.unit_stride));
                for (acc, &col) in acc.iter_mut().zip(&cols) {
                    *acc = S::mac(*acc, row, col);
                }
            }
        }
        for (i, acc) in acc.iter().enumerate() {
            for (z, &acc) in acc.iter().enumerate() {
                let to = to.add(i * to_ld + z * S::LANES);
                S::store(to, if matches!(start, Start::Add) { S::add(S::load(to), acc) } else { acc });
            }
        }
    }
}

/// Minimax polynomials of `2^f`, f in -1/2..1/2, from the highest power down to the first; the constant is one. Relative errors 3e-9 and 4e-6.
const EXP2_F32: [f32; 6] =
    [1.559_467_8e-4, 1.340_664_3e-3, 9.617_693e-3, 5.550_310_3e-2, 0.240_226_52, 0.693_147_24];
const EXP2_BF16: [f32; 4] = [9.782_912e-3, 5.597_688_3e-2, 0.240_207_1, 0.693_113_6];

/// `2^x`, for x below 127. `EXACT`: to an ulp; else to a hundredth of a bf16's.
#[inline(always)]
pub(super) unsafe fn exp2<S: Simd, const EXACT: bool>(x: S::V) -> S::V {
    // SAFETY: the caller's.
    unsafe {
        let n = S::round(x);
        let f = S::sub(x, n);
        let p = if EXACT { horner::<S>(&EXP2_F32, f) } else { horner::<S>(&EXP2_BF16, f) };
        S::scale_by_power(p, n)
    }
}

#[inline(always)]
unsafe fn horner<S: Simd>(coefficients: &[f32], x: S::V) -> S::V {
    // SAFETY: the caller's.
    unsafe {
        let mut p = S::splat(coefficients[0]);
        for &c in &coefficients[1..] {
            p = S::fma(p, x, S::splat(c));
        }
        S::fma(p, x, S::splat(1.0))
    }
}

/// Zeros `num` words.
#[inline(always)]
pub(super) unsafe fn clear(to: *mut u32, num: usize) {
    // SAFETY: the caller's.
    unsafe { to.write_bytes(0, num) };
}

/// Writes `num` elements of a row of f32 as `dtype`. The row may be read to the end of its last vector.
#[inline(always)]
pub(super) unsafe fn store_row<S: Simd>(from: *const f32, num: usize, to: *mut u8, dtype: DType) {
    let whole = num / S::LANES * S::LANES;
    // SAFETY: the caller's.
    unsafe {
        if dtype != DType::Bf16 {
            return to.cast::<f32>().copy_from_nonoverlapping(from, num);
        }
        let to = to.cast::<u16>();
        for i in (0..whole).step_by(S::LANES) {
            S::store_bf16(to.add(i), S::load(from.add(i)));
        }
        if whole < num {
            let mut last = [0u16; MAX_LANES];
            S::store_bf16(last.as_mut_ptr(), S::load(from.add(whole)));
            to.add(whole).copy_from_nonoverlapping(last.as_ptr(), num - whole);
        }
    }
}

/// The tile of a transposed result: `head_dim` by queries at `from`, stored as rows of `to` through `rows`, a buffer of the same size.
/// Columns are scaled by `factor`.
pub(super) struct Transposed<V, const N: usize> {
    pub(super) from: *const f32,
    pub(super) padded_dim: usize,
    pub(super) factor: [V; N],
    pub(super) rows: *mut u32,
}

impl<V: Copy, const N: usize> Transposed<V, N> {
    /// Writes `num_queries` rows of `head_dim` elements, `stride` elements apart.
    #[inline(always)]
    pub(super) unsafe fn store<S: Simd<V = V>>(
        &self,
        num_queries: usize,
        head_dim: usize,
        to: *mut u8,
        stride: usize,
        dtype: DType,
    ) {
        // SAFETY: the caller's.
        unsafe {
            for (z, &factor) in self.factor.iter().enumerate() {
                for d in (0..self.padded_dim).step_by(S::LANES) {
                    let from = self.from.add(d * N * S::LANES + z * S::LANES);
                    let row = |i: usize| S::mul(S::load(from.add(i * N * S::LANES)), factor);
                    S::transpose(row, self.rows.add(z * S::LANES * self.padded_dim + d), self.padded_dim);
                }
            }
            for query in 0..num_queries {
                let from = self.rows.add(query * self.padded_dim).cast();
                store_row::<S>(from, head_dim, to.add(query * stride * dtype.size_bytes()), dtype);
            }
        }
    }
}
