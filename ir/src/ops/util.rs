//! Checks and helpers that ops share.

use crate::eval::Tensor;
use crate::ops::cast::Cast;
use crate::shard::{Factors, letter};
use crate::{DType, Diag, DiagResult, TensorType, ValueId, VjpCx};
use smallvec::SmallVec;

/// Why second derivatives are refused.
pub(super) const SECOND_ORDER: &str = "it is itself a gradient, and second derivatives are not supported";

/// Why ops of later stages are refused.
pub(super) const AFTER_AUTODIFF: &str = "it only exists after differentiation";

/// The operands, if there are `N`.
///
/// # Errors
/// T0101.
pub(super) fn operands<'a, const N: usize>(
    name: &str,
    ins: &[&'a TensorType],
) -> DiagResult<[&'a TensorType; N]> {
    <[&TensorType; N]>::try_from(ins).map_err(|_| {
        let plural = if N == 1 { "" } else { "s" };
        Diag::new("T0101", format!("`{name}` takes {N} operand{plural}, got {}", ins.len()))
    })
}

/// Checks an element type.
///
/// # Errors
/// T0102.
pub(super) fn want_dtype(name: &str, what: &str, ty: &TensorType, dtype: DType) -> DiagResult<()> {
    if ty.dtype == dtype {
        return Ok(());
    }
    let message = format!("`{name}`: element type of {what} is {}, expected {dtype}", ty.dtype);
    Err(Diag::new("T0102", message).help("insert a `cast`"))
}

/// Checks that the elements are real numbers.
///
/// # Errors
/// T0102.
pub(super) fn want_float(name: &str, what: &str, ty: &TensorType) -> DiagResult<()> {
    if ty.dtype.is_float() {
        return Ok(());
    }
    let message = format!("`{name}`: element type of {what} is {}, expected f32 or bf16", ty.dtype);
    Err(Diag::new("T0102", message).help("insert a `cast`"))
}

/// Checks the dimensions.
///
/// # Errors
/// T0103.
pub(super) fn want_dims(name: &str, what: &str, ty: &TensorType, dims: &[u64]) -> DiagResult<()> {
    if ty.dims.as_slice() == dims {
        return Ok(());
    }
    let message = format!("`{name}`: dimensions of {what} are {:?}, expected {dims:?}", ty.dims);
    Err(Diag::new("T0103", message))
}

/// Checks the number of dimensions.
///
/// # Errors
/// T0104.
pub(super) fn want_rank(name: &str, what: &str, ty: &TensorType, rank: usize) -> DiagResult<()> {
    if ty.rank() == rank {
        return Ok(());
    }
    let message = format!("`{name}`: {what} has {} dimensions {:?}, expected {rank}", ty.rank(), ty.dims);
    Err(Diag::new("T0104", message))
}

/// Checks that there is at least one dimension.
///
/// # Errors
/// T0104.
pub(super) fn want_not_scalar(name: &str, what: &str, ty: &TensorType) -> DiagResult<()> {
    if ty.rank() > 0 {
        return Ok(());
    }
    Err(Diag::new("T0104", format!("`{name}`: {what} is a scalar, expected at least 1 dimension")))
}

/// The cotangent in element type `dtype`: it may come in another.
pub(super) fn ct_as(cx: &mut VjpCx<'_>, ct: ValueId, dtype: DType) -> DiagResult<ValueId> {
    if cx.func.ty(ct).dtype == dtype { Ok(ct) } else { cx.func.emit1(Cast { to: dtype }, &[ct]) }
}

/// The dimensions of `ty` without the last.
pub(super) fn lead(ty: &TensorType) -> &[u64] {
    ty.dims.split_last().map_or(&[], |(_, lead)| lead)
}

/// `rank` different factors, one per dimension.
pub(super) fn letters(rank: usize) -> Factors {
    (0..rank).map(|i| SmallVec::from_slice(&[letter(i)])).collect()
}

/// Factors of `lead` dimensions, then `last`.
pub(super) fn letters_then(lead: usize, last: char) -> Factors {
    let mut factors = letters(lead);
    factors.push(SmallVec::from_slice(&[last]));
    factors
}

/// A tensor of the dimensions of `ty`.
pub(super) fn tensor(ty: &TensorType, data: Vec<f64>) -> Tensor {
    debug_assert_eq!(ty.num_elements(), data.len() as u64);
    Tensor { dims: ty.dims.clone(), data }
}

/// A function of every element.
pub(super) fn map(x: &Tensor, f: impl Fn(f64) -> f64) -> Tensor {
    Tensor { dims: x.dims.clone(), data: x.data.iter().map(|&x| f(x)).collect() }
}
