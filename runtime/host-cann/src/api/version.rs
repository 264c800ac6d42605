//! Errors of the past, and which CANN this is.

use crate::boundary::{last_code, last_text, non_null, write};
use crate::fault::Fault;
use ascend_rs_sys::types::*;
use std::ffi::{CStr, c_char};

/// The version of the ACL interface.
const VERSION: [i32; 3] = [1, 17, 0];
/// The version of CANN it is that of.
const CANN: &str = "9.1.0";
/// The same as a number.
const CANN_NUMBER: i32 = 90_100_000;

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

/// Fails for a package that is not known.
///
/// # Safety
/// `name` is null or a text that ends with zero.
unsafe fn check_package(name: *const c_char) -> Result<(), Fault> {
    non_null(name, "pkgName")?;
    // SAFETY: the caller vouches for it.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    if ["runtime", "cann", "toolkit", "hccl", "opp"].contains(&&*name) {
        return Ok(());
    }
    Err(Fault::new(ACL_ERROR_INVALID_PARAM, format!("there is no package `{name}`")))
}

pub(crate) unsafe fn aclsysGetVersionStr(name: *mut c_char, out: *mut c_char) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { check_package(name)? };
    non_null(out, "versionStr")?;
    // SAFETY: the caller vouches for room for a version.
    unsafe { put(CANN, out) };
    Ok(())
}

pub(crate) unsafe fn aclsysGetVersionNum(name: *mut c_char, out: *mut i32) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        check_package(name)?;
        write(out, CANN_NUMBER, "versionNum")
    }
}

/// Writes a text and a zero.
///
/// # Safety
/// There is room at `out`.
unsafe fn put(text: &str, out: *mut c_char) {
    // SAFETY: the caller vouches for it.
    unsafe {
        std::ptr::copy(text.as_ptr().cast::<c_char>(), out, text.len());
        out.add(text.len()).write(0);
    }
}

pub(crate) unsafe fn aclsysGetCANNVersion(
    name: aclCANNPackageName,
    out: *mut aclCANNPackageVersion,
) -> Result<(), Fault> {
    non_null(out, "version")?;
    if name.name().is_none() {
        return Err(Fault::new(ACL_ERROR_INVALID_PARAM, format!("there is no package {}", name.0)));
    }
    let mut parts = CANN.split('.');
    // SAFETY: the caller vouches for the struct, of which zero bytes are a value.
    unsafe {
        out.write_bytes(0, 1);
        put(CANN, (&raw mut (*out).version).cast());
        put(parts.next().unwrap_or_default(), (&raw mut (*out).majorVersion).cast());
        put(parts.next().unwrap_or_default(), (&raw mut (*out).minorVersion).cast());
        put(parts.next().unwrap_or_default(), (&raw mut (*out).releaseVersion).cast());
    }
    Ok(())
}
