//! Operations in which every rank has a piece for every other.

use super::collectives::{Operation, span};
use super::communicators::{Communicator, communicator};
use super::fault;
use super::types::size_bytes;
use super::wire::Kind;
use crate::fault::Fault;
use crate::span::Span;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

pub(crate) fn HcclAlltoAll(
    sendBuf: *const c_void,
    sendCount: u64,
    sendType: HcclDataType,
    recvBuf: *const c_void,
    recvCount: u64,
    recvType: HcclDataType,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let (communicator, size) = (communicator(comm)?, size_bytes(sendType)?);
    if (sendCount, sendType) != (recvCount, recvType) {
        return Err(fault(
            HcclResult::HCCL_E_PARA,
            "what is sent and what is received have other counts or types",
        ));
    }
    let mut operation = Operation::new(Kind::AlltoAll, sendCount, sendType);
    let total = sendCount.saturating_mul(u64::from(communicator.size()));
    operation.gives.push(span(sendBuf, total, size, "sendBuf")?);
    operation.gets.push(span(recvBuf, total, size, "recvBuf")?);
    operation.submit("HcclAlltoAll", communicator, stream)
}

/// The pieces of a buffer for each rank, and their lengths.
///
/// # Safety
/// `counts` and `displacements` have a number for each rank.
unsafe fn pieces(
    buffer: *const c_void,
    [counts, displacements]: [*const c_void; 2],
    communicator: &Communicator,
    size: usize,
    name: &str,
) -> Result<(Vec<Span>, Vec<u64>), Fault> {
    if counts.is_null() || displacements.is_null() {
        return Err(fault(HcclResult::HCCL_E_PTR, format!("the counts or displacements of {name} are null")));
    }
    // SAFETY: the caller vouches for it.
    let numbers = [counts, displacements].map(|numbers| unsafe {
        std::slice::from_raw_parts(numbers.cast::<u64>(), communicator.size() as usize)
    });
    let piece = |(&count, &displacement): (&u64, &u64)| {
        let all = span(buffer, displacement.saturating_add(count), size, name)?;
        let start = displacement as usize * size;
        Ok(Span { start: all.start + start, len: all.len - start })
    };
    let spans = numbers[0].iter().zip(numbers[1]).map(piece).collect::<Result<_, Fault>>()?;
    Ok((spans, numbers[0].to_vec()))
}

pub(crate) unsafe fn HcclAlltoAllV(
    sendBuf: *const c_void,
    sendCounts: *const c_void,
    sdispls: *const c_void,
    sendType: HcclDataType,
    recvBuf: *const c_void,
    recvCounts: *const c_void,
    rdispls: *const c_void,
    recvType: HcclDataType,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let (communicator, size) = (communicator(comm)?, size_bytes(sendType)?);
    if sendType != recvType {
        return Err(fault(HcclResult::HCCL_E_PARA, "what is sent and what is received have other types"));
    }
    let mut operation = Operation::new(Kind::AlltoAllV, 0, sendType);
    // SAFETY: the caller vouches for the arrays.
    let (given, got) = unsafe {
        (
            pieces(sendBuf, [sendCounts, sdispls], &communicator, size, "sendBuf")?,
            pieces(recvBuf, [recvCounts, rdispls], &communicator, size, "recvBuf")?,
        )
    };
    (operation.gives, operation.gets) = (given.0, got.0);
    operation.counts = Some([given.1, got.1]);
    operation.submit("HcclAlltoAllV", communicator, stream)
}
