//! What a communicator is, and what became of it.

use super::communicators::{communicator, destroy};
use super::fault;
use crate::boundary::write;
use crate::fault::Fault;
use ascend_rs_sys::types::*;
use std::ffi::c_char;

fn pointer<T>(pointer: *mut T, name: &str) -> Result<*mut T, Fault> {
    if pointer.is_null() {
        Err(fault(HcclResult::HCCL_E_PTR, format!("{name} is null")))
    } else {
        Ok(pointer)
    }
}

pub(crate) unsafe fn HcclGetRankSize(comm: HcclComm, rankSize: *mut u32) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(pointer(rankSize, "rankSize")?, communicator(comm)?.size(), "rankSize") }
}

pub(crate) unsafe fn HcclGetRankId(comm: HcclComm, rank: *mut u32) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(pointer(rank, "rank")?, communicator(comm)?.rank, "rank") }
}

/// Writes up to 128 bytes, the last of them zero.
pub(crate) unsafe fn HcclGetCommName(comm: HcclComm, commName: *mut c_char) -> Result<(), Fault> {
    let (communicator, target) = (communicator(comm)?, pointer(commName, "commName")?);
    let bytes = communicator.name.as_bytes();
    let len = bytes.len().min(COMM_NAME_MAX_LENGTH as usize - 1);
    // SAFETY: the caller vouches for 128 bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.cast(), len);
        target.add(len).write(0);
    }
    Ok(())
}

pub(crate) unsafe fn HcclGetCommAsyncError(comm: HcclComm, asyncError: *mut HcclResult) -> Result<(), Fault> {
    let failed = communicator(comm)?.has_failed();
    let result = if failed { HcclResult::HCCL_E_REMOTE } else { HcclResult::HCCL_SUCCESS };
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(pointer(asyncError, "asyncError")?, result, "asyncError") }
}

pub(crate) fn HcclGetErrorString(code: HcclResult) -> Result<*const c_char, Fault> {
    let texts = [
        (HcclResult::HCCL_SUCCESS, c"no error"),
        (HcclResult::HCCL_E_PARA, c"parameter error"),
        (HcclResult::HCCL_E_PTR, c"empty pointer"),
        (HcclResult::HCCL_E_MEMORY, c"memory error"),
        (HcclResult::HCCL_E_INTERNAL, c"internal error"),
        (HcclResult::HCCL_E_NOT_SUPPORT, c"not support feature"),
        (HcclResult::HCCL_E_NOT_FOUND, c"not found specific resource"),
        (HcclResult::HCCL_E_UNAVAIL, c"resource unavailable"),
        (HcclResult::HCCL_E_SYSCALL, c"system call error"),
        (HcclResult::HCCL_E_TIMEOUT, c"timeout"),
        (HcclResult::HCCL_E_TCP_CONNECT, c"tcp connect fail"),
        (HcclResult::HCCL_E_RUNTIME, c"call runtime api fail"),
        (HcclResult::HCCL_E_REMOTE, c"error cqe"),
        (HcclResult::HCCL_E_OOM, c"out of memory"),
    ];
    let text = texts.iter().find(|(known, _)| *known == code).map_or(c"unknown error", |(_, text)| text);
    Ok(text.as_ptr())
}

/// The number of the first capability this library does not have.
pub(crate) fn HcclGetCommConfigCapability() -> Result<u32, Fault> {
    Ok(HcclCommConfigCapability::HCCL_COMM_CONFIG_RESERVED.0 as u32)
}

pub(crate) fn HcclCommDestroy(comm: HcclComm) -> Result<(), Fault> {
    destroy(comm)
}
