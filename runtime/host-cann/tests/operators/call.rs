//! Calls of operators, both phases.

use crate::support::*;
use crate::tensors::{nnopbase, scalar, type_of};
use ascend_rs_sys::Value;
use ascend_rs_sys::types::*;
use ascend_rs_sys::{Aclnn, Error, Search};
use std::ffi::CString;
use std::ptr;
use std::sync::OnceLock;

/// Operators.
pub(crate) fn aclnn() -> &'static Aclnn {
    static ACLNN: OnceLock<Aclnn> = OnceLock::new();
    ACLNN.get_or_init(|| Aclnn::load(&Search::at(&library()), acl()).unwrap())
}

pub(crate) fn ints(values: &[i64]) -> Value {
    // SAFETY: the array has that length.
    Value::Ints(unsafe { nnopbase().aclCreateIntArray(values.as_ptr(), values.len() as u64).unwrap() })
}

pub(crate) fn number(dtype: &str, value: f64) -> Value {
    Value::Scalar(scalar(dtype, value))
}

pub(crate) fn dtype(name: &str) -> Value {
    Value::Type(aclDataType(type_of(name).0))
}

/// A text that is never freed.
pub(crate) fn text_value(text: &str) -> Value {
    Value::Text(CString::new(text).unwrap().into_raw())
}

/// Phase one.
pub(crate) fn plan(name: &str, values: &[Value]) -> Result<(u64, *mut aclOpExecutor), Error> {
    // SAFETY: pointers are to objects of the library, which checks them.
    unsafe { aclnn().operator(name)?.workspace_size(values) }
}

/// Phase two.
pub(crate) fn run(
    name: &str,
    size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> Result<(), Error> {
    let workspace = if size == 0 { ptr::null_mut() } else { device_memory(size as usize) };
    // SAFETY: the workspace has that size; it lives until the session ends.
    unsafe { aclnn().operator(name)?.run(workspace, size, executor, stream) }
}

/// Both phases, and waits.
pub(crate) fn call(name: &str, values: &[Value]) -> Result<(), Error> {
    let stream = stream();
    let (size, executor) = plan(name, values)?;
    run(name, size, executor, stream)?;
    synchronize(stream)
}
