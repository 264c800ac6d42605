//! The type an operator computes in.

use crate::operators::compute::{DType, View, map};
use half::{bf16, f16};

/// What results of a type are computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lanes {
    F32,
    F64,
    I64,
}

impl Lanes {
    pub(super) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F64 => Self::F64,
            _ if dtype.is_float() => Self::F32,
            _ => Self::I64,
        }
    }
}

/// `x` rounded to a type of 16 bits, in which the operands have met.
fn settle(x: f32, dtype: DType) -> f32 {
    match dtype {
        DType::Bf16 => bf16::from_f32(x).to_f32(),
        DType::F16 => f16::from_f32(x).to_f32(),
        _ => x,
    }
}

/// `map` for floats that meet in `dtype`: operands of other types, and the result, are rounded to it.
/// A view of DOUBLE is a scalar of the host, which is not.
pub(super) fn map_f32<const N: usize, const M: usize>(
    inputs: [&View; N],
    out: &View,
    dtype: DType,
    f: impl Fn([f32; N]) -> f32,
) {
    let narrow = dtype.size_bytes() == 2;
    let rounded = inputs.map(|view| narrow && view.dtype != dtype && view.dtype != DType::F64);
    if rounded.contains(&true) || (narrow && out.dtype != dtype) {
        let round = |k: usize, x: f32| if rounded[k] { settle(x, dtype) } else { x };
        map::<f32, N, M>(inputs, out, |x| settle(f(std::array::from_fn(|k| round(k, x[k]))), dtype));
    } else {
        map::<f32, N, M>(inputs, out, f);
    }
}

/// The larger; a NaN wins.
pub(super) fn larger<T: PartialOrd>(a: T, b: T) -> T {
    let keep = a >= b || a.partial_cmp(&a).is_none();
    if keep { a } else { b }
}

/// The smaller; a NaN wins.
pub(super) fn smaller<T: PartialOrd>(a: T, b: T) -> T {
    let keep = a <= b || a.partial_cmp(&a).is_none();
    if keep { a } else { b }
}

/// Whether an element counts as true: it is not zero.
pub(super) fn is_true<T: PartialEq + Default>(x: T) -> bool {
    x != T::default()
}
