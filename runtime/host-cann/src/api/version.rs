//! Errors of the past, and which CANN this is.

use crate::boundary::{last_code, last_text, write};
use crate::fault::Fault;
use ascend_rs_sys::types::*;
use std::ffi::c_char;

/// The version of the ACL interface.
const VERSION: [i32; 3] = [1, 17, 0];

pub(crate) fn aclGetRecentErrMsg() -> Result<*const c_char, Fault> {
    Ok(last_text())
}

pub(crate) fn aclrtPeekAtLastError(level: aclrtLastErrLevel) -> Result<(), Fault> {
    last(level, false)
}

pub(crate) fn aclrtGetLastError(level: aclrtLastErrLevel) -> Result<(), Fault> {
    last(level, true)
}

fn last(level: aclrtLastErrLevel, forget: bool) -> Result<(), Fault> {
    if level != aclrtLastErrLevel::ACL_RT_THREAD_LEVEL {
        return Err(Fault::parameter(format!("no level {} of errors", level.0)));
    }
    match last_code(forget) {
        0 => Ok(()),
        code => Err(Fault::new(code, "the last error of this thread")),
    }
}

pub(crate) unsafe fn aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        write(major, VERSION[0], "majorVersion")?;
        write(minor, VERSION[1], "minorVersion")?;
        write(patch, VERSION[2], "patchVersion")
    }
}
