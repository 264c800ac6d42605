//! Scalars of the host, frozen in what they are passed to.

use super::{CODES, lock};
use crate::fault::Fault;
use crate::handles::Handles;
use crate::operators::compute::{DType, View};
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::sync::Mutex;

/// A number and its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scalar {
    pub(crate) dtype: DType,
    pub(crate) float: f64,
    pub(crate) integer: i64,
}

static SCALARS: Mutex<Handles<Scalar>> = Mutex::new(Handles::new("scalar", 0x24, CODES));

/// The scalar behind a handle.
///
/// # Errors
/// 161001: null; 161002: it was destroyed, or is no scalar.
pub(crate) fn scalar(scalar: *const aclScalar) -> Result<Scalar, Fault> {
    lock(&SCALARS).get(scalar.cast()).copied()
}

pub(super) fn num_alive() -> usize {
    lock(&SCALARS).iter().count()
}

pub(crate) unsafe fn aclCreateScalar(
    value: *mut c_void,
    dataType: aclDataType,
) -> Result<*mut aclScalar, Fault> {
    if value.is_null() {
        return Err(Fault::new(ACLNN_ERR_PARAM_NULLPTR, "value is null"));
    }
    let dtype = DType::of_acl(dataType.0)
        .ok_or_else(|| Fault::new(ACLNN_ERR_PARAM_INVALID, format!("no scalar has type {}", dataType.0)))?;
    let view = View::contiguous(dtype, &[1], value as usize);
    let scalar = Scalar { dtype, float: view.get(0), integer: view.get(0) };
    Ok(lock(&SCALARS).insert(scalar).cast())
}

pub(crate) fn aclDestroyScalar(scalar: *const aclScalar) -> Result<(), Fault> {
    lock(&SCALARS).remove(scalar.cast()).map(drop)
}
