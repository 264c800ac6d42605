//! Transfers between two ranks of a communicator.

use super::collectives::check_rank;
use super::communicators::{Communicator, communicator};
use super::connection::Awaited;
use super::exchange::{Question, submit_exchange};
use super::fault;
use super::types::size_bytes;
use super::wire::{Request, Transfer};
use crate::fault::Fault;
use crate::span::Span;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

/// One side of a transfer.
#[derive(Debug, Clone)]
struct Side {
    sends: bool,
    buffer: Span,
    count: u64,
    dtype: HcclDataType,
    other: u32,
}

impl Side {
    fn check(communicator: &Communicator, item: &HcclSendRecvItem) -> Result<Self, Fault> {
        let sends = match item.sendRecvType {
            HcclSendRecvType::HCCL_SEND => true,
            HcclSendRecvType::HCCL_RECV => false,
            other => return Err(fault(HcclResult::HCCL_E_PARA, format!("sendRecvType is {}", other.0))),
        };
        let other = check_rank(communicator, item.remoteRank, "the other rank")?;
        if other == communicator.rank {
            return Err(fault(
                HcclResult::HCCL_E_PARA,
                format!("rank {other} sends to or receives from itself"),
            ));
        }
        let size = size_bytes(item.dataType)?;
        if item.buf.is_null() && item.count > 0 {
            return Err(fault(HcclResult::HCCL_E_PTR, "the buffer is null"));
        }
        let buffer = Span::new(item.buf.cast_const(), item.count as usize * size);
        Ok(Self { sends, buffer, count: item.count, dtype: item.dataType, other })
    }

    fn question(&self, communicator: &Communicator) -> Question {
        let (group, rank) = (communicator.group.clone(), communicator.rank);
        let number = communicator.next_transfer(self.other, self.sends);
        let (count, dtype) = (self.count, self.dtype.0);
        if self.sends {
            let transfer = Transfer { from: rank, to: self.other, number };
            let awaited = Awaited::Sent(transfer.clone());
            let request = Request::Send { group, transfer, count, dtype };
            Question { request, gives: vec![self.buffer], awaited, gets: Vec::new() }
        } else {
            let transfer = Transfer { from: self.other, to: rank, number };
            let awaited = Awaited::Received(transfer.clone());
            let request = Request::Receive { group, transfer, count, dtype };
            Question { request, gives: Vec::new(), awaited, gets: vec![self.buffer] }
        }
    }
}

fn run(name: &str, items: &[HcclSendRecvItem], comm: HcclComm, stream: aclrtStream) -> Result<(), Fault> {
    let communicator = communicator(comm)?;
    let sides: Vec<Side> =
        items.iter().map(|item| Side::check(&communicator, item)).collect::<Result<_, _>>()?;
    let buffers =
        |sends: bool| sides.iter().filter(|side| side.sends == sends).map(|side| side.buffer).collect();
    let spans = [buffers(true), buffers(false)];
    let ask =
        move |communicator: &Communicator| sides.iter().map(|side| side.question(communicator)).collect();
    submit_exchange(communicator, stream, name, spans, Box::new(ask))
}

pub(crate) fn HcclSend(
    sendBuf: *mut c_void,
    count: u64,
    dataType: HcclDataType,
    destRank: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let sendRecvType = HcclSendRecvType::HCCL_SEND;
    let item = HcclSendRecvItem { sendRecvType, buf: sendBuf, count, dataType, remoteRank: destRank };
    run("HcclSend", &[item], comm, stream)
}

pub(crate) fn HcclRecv(
    recvBuf: *mut c_void,
    count: u64,
    dataType: HcclDataType,
    srcRank: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let sendRecvType = HcclSendRecvType::HCCL_RECV;
    let item = HcclSendRecvItem { sendRecvType, buf: recvBuf, count, dataType, remoteRank: srcRank };
    run("HcclRecv", &[item], comm, stream)
}

pub(crate) unsafe fn HcclBatchSendRecv(
    sendRecvInfo: *mut HcclSendRecvItem,
    itemNum: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    if sendRecvInfo.is_null() || itemNum == 0 {
        return Err(fault(HcclResult::HCCL_E_PTR, "sendRecvInfo is null or has no items"));
    }
    // SAFETY: the caller vouches for the items.
    let items = unsafe { std::slice::from_raw_parts(sendRecvInfo, itemNum as usize) };
    run("HcclBatchSendRecv", items, comm, stream)
}
