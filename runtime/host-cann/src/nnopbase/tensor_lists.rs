//! Lists of tensors, which own the descriptors in them, and lists of scalars, which own those.

use super::scalars::aclDestroyScalar;
use super::tensors::{aclDestroyTensor, descriptor};
use super::{CODES, lock, scalar};
use crate::boundary::write;
use crate::fault::Fault;
use crate::handles::Handles;
use ascend_rs_sys::types::*;
use std::sync::Mutex;

static TENSORS: Mutex<Handles<Vec<usize>>> = Mutex::new(Handles::new("list of tensors", 0x22, CODES));
static SCALARS: Mutex<Handles<Vec<usize>>> = Mutex::new(Handles::new("list of scalars", 0x23, CODES));

/// The handles of the tensors in a list.
///
/// # Errors
/// 161001: null; 161002: it was destroyed, or is no list.
pub(crate) fn elements(list: *const aclTensorList) -> Result<Vec<*const aclTensor>, Fault> {
    Ok(lock(&TENSORS).get(list.cast())?.iter().map(|&tensor| tensor as *const aclTensor).collect())
}

pub(super) fn num_alive() -> usize {
    lock(&TENSORS).iter().count() + lock(&SCALARS).iter().count()
}

/// The handles at `values`, each of which `check` accepts.
unsafe fn handles<T>(
    values: *const *const T,
    size: u64,
    check: impl Fn(*const T) -> Result<(), Fault>,
) -> Result<Vec<usize>, Fault> {
    if values.is_null() && size > 0 {
        return Err(Fault::new(ACLNN_ERR_PARAM_NULLPTR, "value is null"));
    }
    let slice = if size == 0 {
        &[]
    } else {
        // SAFETY: the caller vouches for it.
        unsafe { std::slice::from_raw_parts(values, size as usize) }
    };
    slice.iter().map(|&handle| check(handle).map(|()| handle as usize)).collect()
}

pub(crate) unsafe fn aclCreateTensorList(
    value: *const *const aclTensor,
    size: u64,
) -> Result<*mut aclTensorList, Fault> {
    // SAFETY: the caller vouches for the pointers and the count.
    let tensors = unsafe { handles(value, size, |tensor| descriptor(tensor).map(drop))? };
    Ok(lock(&TENSORS).insert(tensors).cast())
}

pub(crate) unsafe fn aclCreateScalarList(
    value: *const *const aclScalar,
    size: u64,
) -> Result<*mut aclScalarList, Fault> {
    // SAFETY: the caller vouches for the pointers and the count.
    let scalars = unsafe { handles(value, size, |s| scalar(s).map(drop))? };
    Ok(lock(&SCALARS).insert(scalars).cast())
}

pub(crate) fn aclDestroyTensorList(array: *const aclTensorList) -> Result<(), Fault> {
    let tensors = lock(&TENSORS).remove(array.cast())?;
    tensors.into_iter().try_for_each(|tensor| aclDestroyTensor(tensor as *const aclTensor))
}

pub(crate) fn aclDestroyScalarList(array: *const aclScalarList) -> Result<(), Fault> {
    let scalars = lock(&SCALARS).remove(array.cast())?;
    scalars.into_iter().try_for_each(|scalar| aclDestroyScalar(scalar as *const aclScalar))
}

pub(crate) unsafe fn aclGetTensorListSize(
    tensorList: *const aclTensorList,
    size: *mut u64,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { write(size, elements(tensorList)?.len() as u64, "size") }
}

pub(crate) unsafe fn aclGetScalarListSize(
    scalarList: *const aclScalarList,
    size: *mut u64,
) -> Result<(), Fault> {
    let count = lock(&SCALARS).get(scalarList.cast())?.len() as u64;
    // SAFETY: the caller vouches for the pointers.
    unsafe { write(size, count, "size") }
}
