//! The operators. `build.rs` exports both phases of every operator whose name stands in quotes below this folder.

use crate::fault::Fault;
use crate::value::Value;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

/// Phase one of `name`: checks `values` and plans.
///
/// # Safety
/// The pointers are what the operator's documentation asks for.
pub(crate) unsafe fn phase_one(
    name: &str,
    values: Vec<Value>,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> Result<(), Fault> {
    let _ = (values, workspace_size, executor);
    Err(Fault::new(ACLNN_ERR_PARAM_INVALID, format!("{name} is not implemented")))
}

/// Phase two of `name`: submits what phase one has planned.
///
/// # Safety
/// As for phase one.
pub(crate) unsafe fn phase_two(
    name: &str,
    workspace: *mut c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let _ = (workspace, workspace_size, executor, stream);
    Err(Fault::new(ACLNN_ERR_PARAM_INVALID, format!("{name} is not implemented")))
}
