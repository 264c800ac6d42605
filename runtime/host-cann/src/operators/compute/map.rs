//! One result per element.

use super::{DType, Element, Lane, View, each_element};

/// Elements worked on at a time.
const CHUNK: usize = 512;

/// Calls `body` with the element offsets of each operand for every row of the last dimension, after neighbouring
/// dimensions that all operands walk alike were merged, and with the length and strides of that row.
pub(crate) fn for_each_row<const N: usize>(
    views: [&View; N],
    mut body: impl FnMut([usize; N], usize, [usize; N]),
) {
    let mut dims: Vec<usize> = Vec::new();
    let mut strides: Vec<[usize; N]> = Vec::new();
    for (i, &dim) in views[0].dims.iter().enumerate().filter(|(_, dim)| **dim != 1) {
        let here = views.map(|view| view.strides[i]);
        match (dims.last_mut(), strides.last_mut()) {
            (Some(last), Some(step)) if (0..N).all(|k| step[k] == here[k] * dim) => {
                *last *= dim;
                *step = here;
            }
            _ => {
                dims.push(dim);
                strides.push(here);
            }
        }
    }
    let (len, row) = (dims.pop().unwrap_or(1), strides.pop().unwrap_or([1; N]));
    let num_rows: usize = dims.iter().product();
    if len == 0 || num_rows == 0 {
        return;
    }
    let (mut index, mut at) = (vec![0; dims.len()], [0; N]);
    for _ in 0..num_rows {
        body(at, len, row);
        for dim in (0..dims.len()).rev() {
            index[dim] += 1;
            (0..N).for_each(|k| at[k] += strides[dim][k]);
            if index[dim] < dims[dim] {
                break;
            }
            (0..N).for_each(|k| at[k] -= strides[dim][k] * dims[dim]);
            index[dim] = 0;
        }
    }
}

/// `out = f(inputs)`, element by element; `views` are the inputs, broadcast to the output, which is the last.
pub(crate) fn map<L: Lane, const N: usize, const M: usize>(
    inputs: [&View; N],
    out: &View,
    f: impl Fn([L; N]) -> L,
) {
    const { assert!(M == N + 1, "the output is one more operand") };
    let views: [View; M] =
        std::array::from_fn(|k| if k < N { inputs[k].broadcast(&out.dims) } else { out.clone() });
    let mut lanes = [[L::default(); CHUNK]; M];
    for_each_row(views.each_ref(), |at, len, stride| {
        for from in (0..len).step_by(CHUNK) {
            let n = CHUNK.min(len - from);
            for k in 0..N {
                views[k].load(at[k] + from * stride[k], stride[k], &mut lanes[k][..n]);
            }
            let (ins, results) = lanes.split_at_mut(N);
            for (i, result) in results[0][..n].iter_mut().enumerate() {
                *result = f(std::array::from_fn(|k| ins[k][i]));
            }
            views[N].store(at[N] + from * stride[N], stride[N], &lanes[N][..n]);
        }
    });
}

/// `out[i] = f(i)` with the row-major index of the element.
pub(crate) fn map_indexed<L: Lane>(out: &View, f: impl Fn(usize) -> L) {
    let offsets = out.offsets();
    for (i, at) in offsets.enumerate() {
        out.store(at, 1, &[f(i)]);
    }
}

/// Copies elements, converting each; the source is broadcast.
pub(crate) fn copy(from: &View, to: &View) {
    if from.dtype == to.dtype {
        return copy_bits(from, to);
    }
    match (from.dtype, to.dtype) {
        (DType::F64, _) | (_, DType::F64) => map::<f64, 1, 2>([from], to, |[x]| x),
        (a, _) if a.is_float() => map::<f32, 1, 2>([from], to, |[x]| x),
        _ => map::<i64, 1, 2>([from], to, |[x]| x),
    }
}

fn copy_bits(from: &View, to: &View) {
    let from = from.broadcast(&to.dims);
    each_element!(to.dtype, E => for_each_row([&from, to], |[a, b], len, strides| {
        let size = size_of::<E>();
        copy_row::<E>(from.address + a * size, to.address + b * size, len, strides);
    }));
}

/// Copies a row of elements.
fn copy_row<E: Element>(from: usize, to: usize, len: usize, strides: [usize; 2]) {
    let (from, to) = (from as *const E, to as *mut E);
    if strides == [1, 1] {
        // SAFETY: the scheduler found both rows inside live allocations; `copy` allows overlap.
        unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), len * size_of::<E>()) };
        return;
    }
    for i in 0..len {
        // SAFETY: as above.
        unsafe { to.add(i * strides[1]).write_unaligned(from.add(i * strides[0]).read_unaligned()) };
    }
}

/// Sets every element.
pub(crate) fn fill<L: Lane>(out: &View, value: L) {
    let lanes = [value; CHUNK];
    for_each_row([out], |[at], len, [stride]| {
        for from in (0..len).step_by(CHUNK) {
            out.store(at + from * stride, stride, &lanes[..CHUNK.min(len - from)]);
        }
    });
}
