//! Products of matrices, accumulated in f32.

use super::View;

/// `out[m, n] = sum over k of a[m, k] * b[k, n]`, in f32, row-major. Terms are added in ascending order of `k` within
/// blocks, and no order depends on anything but the shape.
pub(crate) fn matmul(a: &View, b: &View, out: &mut [f32]) {
    let (m, k, n) = (a.dims[0], a.dims[1], b.dims[1]);
    assert_eq!((b.dims[0], out.len()), (k, m * n), "shapes were checked in phase one");
    if m * n == 0 {
        return;
    }
    if k == 0 {
        return out.fill(0.0);
    }
    let (a, b) = (Operand::of(a), Operand::of(b));
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
