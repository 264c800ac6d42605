//! Arguments of phase one of an operator.

use crate::fault::Fault;
use ascend_rs_sys::types::*;
use std::ffi::{CStr, c_char};

/// An argument, as it came. A null pointer is an optional argument that was left out.
#[expect(dead_code, reason = "which are made depends on which operators are exported")]
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// `aclTensor*`.
    Tensor(*const aclTensor),
    /// `aclTensorList*`.
    Tensors(*const aclTensorList),
    /// `aclScalar*`.
    Scalar(*const aclScalar),
    /// `aclScalarList*`.
    Scalars(*const aclScalarList),
    /// `aclIntArray*`.
    Ints(*const aclIntArray),
    /// `aclFloatArray*`.
    Floats(*const aclFloatArray),
    /// `aclBoolArray*`.
    Bools(*const aclBoolArray),
    /// `char*`; none for null.
    Text(Option<String>),
    /// `double`.
    F64(f64),
    /// `float`.
    F32(f32),
    /// `int64_t`.
    I64(i64),
    /// `uint64_t`.
    U64(u64),
    /// `int32_t` or `int`.
    I32(i32),
    /// `int8_t`.
    I8(i8),
    /// `bool`.
    Bool(bool),
    /// `aclDataType`.
    Type(aclDataType),
}

/// The text behind `pointer`.
///
/// # Errors
/// 161002: it is not UTF-8.
///
/// # Safety
/// `pointer` is null or a text that ends with zero.
pub(crate) unsafe fn text(pointer: *const c_char) -> Result<Value, Fault> {
    if pointer.is_null() {
        return Ok(Value::Text(None));
    }
    // SAFETY: the caller vouches for it.
    let text = unsafe { CStr::from_ptr(pointer) };
    let text = text.to_str().map_err(|_| Fault::new(ACLNN_ERR_PARAM_INVALID, "a text is not UTF-8"))?;
    Ok(Value::Text(Some(text.to_owned())))
}
