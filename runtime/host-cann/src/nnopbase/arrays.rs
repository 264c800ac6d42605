//! Arrays of the host: copied when made, frozen in what they are passed to.

use super::{CODES, lock};
use crate::boundary::write;
use crate::fault::Fault;
use crate::handles::Handles;
use ascend_rs_sys::types::*;
use std::sync::Mutex;

/// Copies `size` values.
unsafe fn copied<T: Clone>(value: *const T, size: u64) -> Result<Vec<T>, Fault> {
    if size == 0 {
        return Ok(Vec::new());
    }
    if value.is_null() {
        return Err(Fault::new(ACLNN_ERR_PARAM_NULLPTR, "value is null"));
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { std::slice::from_raw_parts(value, size as usize) }.to_vec())
}

static INTS: Mutex<Handles<Vec<i64>>> = Mutex::new(Handles::new("array of integers", 0x25, CODES));
static FLOATS: Mutex<Handles<Vec<f32>>> = Mutex::new(Handles::new("array of floats", 0x26, CODES));
static BOOLS: Mutex<Handles<Vec<bool>>> = Mutex::new(Handles::new("array of bools", 0x27, CODES));

/// The values of an array.
///
/// # Errors
/// 161001: null; 161002: it was destroyed, or is no such array.
pub(crate) fn ints(array: *const aclIntArray) -> Result<Vec<i64>, Fault> {
    lock(&INTS).get(array.cast()).cloned()
}

fn floats(array: *const aclFloatArray) -> Result<Vec<f32>, Fault> {
    lock(&FLOATS).get(array.cast()).cloned()
}

fn bools(array: *const aclBoolArray) -> Result<Vec<bool>, Fault> {
    lock(&BOOLS).get(array.cast()).cloned()
}

pub(super) fn num_alive() -> usize {
    lock(&INTS).iter().count() + lock(&FLOATS).iter().count() + lock(&BOOLS).iter().count()
}

pub(crate) unsafe fn aclCreateIntArray(value: *const i64, size: u64) -> Result<*mut aclIntArray, Fault> {
    // SAFETY: the caller vouches for the pointer and the count.
    Ok(lock(&INTS).insert(unsafe { copied(value, size)? }).cast())
}

pub(crate) unsafe fn aclCreateFloatArray(value: *const f32, size: u64) -> Result<*mut aclFloatArray, Fault> {
    // SAFETY: the caller vouches for the pointer and the count.
    Ok(lock(&FLOATS).insert(unsafe { copied(value, size)? }).cast())
}

pub(crate) unsafe fn aclCreateBoolArray(value: *const bool, size: u64) -> Result<*mut aclBoolArray, Fault> {
    // SAFETY: the caller vouches for the pointer and the count.
    Ok(lock(&BOOLS).insert(unsafe { copied(value, size)? }).cast())
}

pub(crate) fn aclDestroyIntArray(array: *const aclIntArray) -> Result<(), Fault> {
    lock(&INTS).remove(array.cast()).map(drop)
}

pub(crate) fn aclDestroyFloatArray(array: *const aclFloatArray) -> Result<(), Fault> {
    lock(&FLOATS).remove(array.cast()).map(drop)
}

pub(crate) fn aclDestroyBoolArray(array: *const aclBoolArray) -> Result<(), Fault> {
    lock(&BOOLS).remove(array.cast()).map(drop)
}

pub(crate) unsafe fn aclGetIntArraySize(array: *const aclIntArray, size: *mut u64) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { write(size, ints(array)?.len() as u64, "size") }
}

pub(crate) unsafe fn aclGetFloatArraySize(array: *const aclFloatArray, size: *mut u64) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { write(size, floats(array)?.len() as u64, "size") }
}

pub(crate) unsafe fn aclGetBoolArraySize(array: *const aclBoolArray, size: *mut u64) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { write(size, bools(array)?.len() as u64, "size") }
}
