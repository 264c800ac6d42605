//! Products of matrices, accumulated in f32.

use super::View;

/// `out[m, n] = sum over k of a[m, k] * b[k, n]`, in f32, row-major. Terms are added in ascending order of `k` within
/// blocks, and no order depends on anything but the shape.
pub(crate) fn matmul(a: &View, b: &View, out: &mut [f32]) {
    multiply(Operand::of(a), Operand::of(b), [a.dims[0], a.dims[1], b.dims[1]], out);
}

/// As [`matmul`], of operands rounded to HF32.
///
/// The vendor documents no more of HF32 than that it is shorter than FLOAT; here it keeps 11 bits of the fraction.
pub(crate) fn matmul_hf32(a: &View, b: &View, out: &mut [f32]) {
    let [mut a_rounded, mut b_rounded] = [Operand::of(a), Operand::of(b)];
    let values = a_rounded.values.iter_mut().chain(&mut b_rounded.values);
    values.filter(|x| x.is_finite()).for_each(|x| {
        let bits = x.to_bits();
        // Half a unit in the last place, less one if it is even already.
        *x = f32::from_bits((bits + 0x7ff + (bits >> 12 & 1)) & !0xfff);
    });
    multiply(a_rounded, b_rounded, [a.dims[0], a.dims[1], b.dims[1]], out);
}

fn multiply(a: Operand, b: Operand, [m, k, n]: [usize; 3], out: &mut [f32]) {
    assert_eq!(
        (a.values.len(), b.values.len(), out.len()),
        (m * k, k * n, m * n),
        "shapes were checked in phase one"
    );
    if m * n == 0 {
        return;
    }
    if k == 0 {
        return out.fill(0.0);
    }
    // SAFETY: the operands hold m x k and k x n values at their strides, and `out` m x n.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            a.values.as_ptr(),
            a.strides[0],
            a.strides[1],
            b.values.as_ptr(),
            b.strides[0],
            b.strides[1],
            0.0,
            out.as_mut_ptr(),
            n as isize,
            1,
        );
    }
}

/// A matrix widened to f32, in the order it has in memory.
struct Operand {
    values: Vec<f32>,
    strides: [isize; 2],
}

impl Operand {
    fn of(view: &View) -> Self {
        if view.strides[0] < view.strides[1] {
            let values = view.permuted(&[1, 0]).to_vec();
            Self { values, strides: [1, view.dims[0] as isize] }
        } else {
            Self { values: view.to_vec(), strides: [view.dims[1] as isize, 1] }
        }
    }
}
