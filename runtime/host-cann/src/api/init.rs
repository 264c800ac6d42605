//! Begin and end.

use crate::boundary::{non_null, note, write};
use crate::fault::Fault;
use crate::lifecycle;
use crate::state;
use ascend_rs_sys::types::*;
use std::ffi::{CStr, c_char};
use std::path::Path;

pub(crate) unsafe fn aclInit(config: *const c_char) -> Result<(), Fault> {
    let mut runtime = state::lock();
    if runtime.references > 0 {
        runtime.references += 1;
        return Err(Fault::new(ACL_ERROR_REPEAT_INITIALIZE, "aclInit has been called before"));
    }
    if !config.is_null() {
        // SAFETY: the caller vouches for a text that ends with zero.
        let path = unsafe { CStr::from_ptr(config) }.to_string_lossy();
        if !path.is_empty() && !Path::new(&*path).is_file() {
            return Err(Fault::new(ACL_ERROR_INVALID_FILE, format!("{path} is no file")));
        }
    }
    runtime.start()?;
    runtime.references = 1;
    Ok(())
}

pub(crate) fn aclFinalize() -> Result<(), Fault> {
    let runtime = state::lock();
    if runtime.references == 0 {
        return Err(Fault::new(ACL_ERROR_REPEAT_FINALIZE, "there is no aclInit to end"));
    }
    note(lifecycle::finalize(runtime));
    Ok(())
}

pub(crate) unsafe fn aclFinalizeReference(count: *mut u64) -> Result<(), Fault> {
    non_null(count, "refCount")?;
    let mut runtime = state::ready()?;
    let left = runtime.references - 1;
    if left > 0 {
        runtime.references = left;
    } else {
        note(lifecycle::finalize(runtime));
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(count, left, "refCount") }
}
