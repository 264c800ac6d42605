//! Descriptors of tensors.

use super::{CODES, lock, watch_leaks};
use crate::boundary::write;
use crate::fault::Fault;
use crate::handles::Handles;
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::sync::Mutex;

/// What a caller has said about a tensor; nothing of it was checked but the pointers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) dims: Vec<i64>,
    /// Elements between neighbours.
    pub(crate) strides: Vec<i64>,
    /// Elements before the first.
    pub(crate) offset: i64,
    pub(crate) dtype: aclDataType,
    pub(crate) format: aclFormat,
    /// Shape of the memory the view is of.
    pub(crate) storage: Vec<i64>,
    /// Address of that memory.
    pub(crate) data: usize,
}

static TENSORS: Mutex<Handles<Descriptor>> = Mutex::new(Handles::new("tensor descriptor", 0x21, CODES));

/// The descriptor behind a handle.
///
/// # Errors
/// 161001: null; 161002: it was destroyed, or is no tensor.
pub(crate) fn descriptor(tensor: *const aclTensor) -> Result<Descriptor, Fault> {
    lock(&TENSORS).get(tensor.cast()).cloned()
}

/// Whether a handle is that of a descriptor.
pub(crate) fn is_alive(tensor: usize) -> bool {
    lock(&TENSORS).get(tensor as *const c_void).is_ok()
}

pub(super) fn num_alive() -> usize {
    lock(&TENSORS).iter().count()
}

pub(super) fn set_address(tensor: *const aclTensor, address: usize) -> Result<(), Fault> {
    lock(&TENSORS).get_mut(tensor.cast())?.data = address;
    Ok(())
}

/// `count` numbers; none without any.
///
/// # Safety
/// `values` is null or has that many.
unsafe fn numbers(values: *const i64, count: u64, name: &str) -> Result<Vec<i64>, Fault> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if values.is_null() {
        return Err(Fault::new(ACLNN_ERR_PARAM_NULLPTR, format!("{name} is null")));
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { std::slice::from_raw_parts(values, count as usize) }.to_vec())
}

/// Strides of a row-major tensor, for a caller who gives none.
fn row_major(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    strides
}

#[expect(clippy::too_many_arguments, reason = "the vendor's")]
unsafe fn describe(
    dims: *const i64,
    rank: u64,
    dtype: aclDataType,
    strides: *const i64,
    offset: i64,
    format: aclFormat,
    storage: *const i64,
    storage_rank: u64,
    data: *mut c_void,
) -> Result<Descriptor, Fault> {
    // SAFETY: the caller vouches for the pointers and counts.
    let (dims, storage) =
        unsafe { (numbers(dims, rank, "viewDims")?, numbers(storage, storage_rank, "storageDims")?) };
    let strides = if strides.is_null() {
        row_major(&dims)
    } else {
        // SAFETY: as above; there is a stride for every dimension.
        unsafe { numbers(strides, rank, "stride")? }
    };
    Ok(Descriptor { dims, strides, offset, dtype, format, storage, data: data as usize })
}

pub(crate) unsafe fn aclCreateTensor(
    viewDims: *const i64,
    viewDimsNum: u64,
    dataType: aclDataType,
    stride: *const i64,
    offset: i64,
    format: aclFormat,
    storageDims: *const i64,
    storageDimsNum: u64,
    tensorData: *mut c_void,
) -> Result<*mut aclTensor, Fault> {
    // SAFETY: the caller vouches for the pointers and counts.
    let described = unsafe {
        describe(
            viewDims,
            viewDimsNum,
            dataType,
            stride,
            offset,
            format,
            storageDims,
            storageDimsNum,
            tensorData,
        )?
    };
    watch_leaks();
    Ok(lock(&TENSORS).insert(described).cast())
}

pub(crate) unsafe fn aclInitTensor(
    tensor: *mut aclTensor,
    viewDims: *const i64,
    viewDimsNum: u64,
    dataType: aclDataType,
    stride: *const i64,
    offset: i64,
    format: aclFormat,
    storageDims: *const i64,
    storageDimsNum: u64,
    tensorDataAddr: *mut c_void,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers and counts.
    let described = unsafe {
        describe(
            viewDims,
            viewDimsNum,
            dataType,
            stride,
            offset,
            format,
            storageDims,
            storageDimsNum,
            tensorDataAddr,
        )?
    };
    *lock(&TENSORS).get_mut(tensor.cast())? = described;
    Ok(())
}

pub(crate) fn aclDestroyTensor(tensor: *const aclTensor) -> Result<(), Fault> {
    lock(&TENSORS).remove(tensor.cast()).map(drop)
}

/// Gives `values` away in memory that C frees.
unsafe fn give(values: &[i64], out: *mut *mut i64, count: *mut u64) -> Result<(), Fault> {
    let bytes = std::mem::size_of_val(values).max(8);
    // SAFETY: no conditions; the result is checked.
    let memory: *mut i64 = unsafe { libc::malloc(bytes) }.cast();
    if memory.is_null() {
        return Err(Fault::new(ACLNN_ERR_INNER_NULLPTR, "no memory on the host"));
    }
    // SAFETY: the memory has room for all values; the caller vouches for `out` and `count`.
    unsafe {
        std::ptr::copy_nonoverlapping(values.as_ptr(), memory, values.len());
        write(out, memory, "the array")?;
        write(count, values.len() as u64, "the count")
    }
}

pub(crate) unsafe fn aclGetViewShape(
    tensor: *const aclTensor,
    viewDims: *mut *mut i64,
    viewDimsNum: *mut u64,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { give(&descriptor(tensor)?.dims, viewDims, viewDimsNum) }
}

pub(crate) unsafe fn aclGetStorageShape(
    tensor: *const aclTensor,
    storageDims: *mut *mut i64,
    storageDimsNum: *mut u64,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { give(&descriptor(tensor)?.storage, storageDims, storageDimsNum) }
}

pub(crate) unsafe fn aclGetViewStrides(
    tensor: *const aclTensor,
    stridesValue: *mut *mut i64,
    stridesNum: *mut u64,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { give(&descriptor(tensor)?.strides, stridesValue, stridesNum) }
}

pub(crate) unsafe fn aclGetViewOffset(tensor: *const aclTensor, offset: *mut i64) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { write(offset, descriptor(tensor)?.offset, "offset") }
}

pub(crate) unsafe fn aclGetFormat(tensor: *const aclTensor, format: *mut aclFormat) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { write(format, descriptor(tensor)?.format, "format") }
}

pub(crate) unsafe fn aclGetDataType(
    tensor: *const aclTensor,
    dataType: *mut aclDataType,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { write(dataType, descriptor(tensor)?.dtype, "dataType") }
}

pub(crate) fn aclSetRawTensorAddr(tensor: *mut aclTensor, addr: *mut c_void) -> Result<(), Fault> {
    set_address(tensor, addr as usize)
}

pub(crate) unsafe fn aclGetRawTensorAddr(
    tensor: *const aclTensor,
    addr: *mut *mut c_void,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { write(addr, descriptor(tensor)?.data as *mut c_void, "addr") }
}
