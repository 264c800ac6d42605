//! Operations of all ranks of a communicator.

use super::communicators::{Communicator, communicator};
use super::connection::Awaited;
use super::exchange::{Question, submit_exchange};
use super::fault;
use super::types::{Reduce, size_bytes};
use super::wire::{Collective, Kind, Request};
use crate::fault::Fault;
use crate::query;
use crate::span::Span;
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::sync::Arc;

/// What a rank gives and gets, in elements.
pub(super) struct Operation {
    kind: Kind,
    count: u64,
    dtype: HcclDataType,
    reduce: Option<Reduce>,
    root: Option<u32>,
    /// Of pieces of different lengths: elements to and from each rank.
    pub(super) counts: Option<[Vec<u64>; 2]>,
    pub(super) gives: Vec<Span>,
    pub(super) gets: Vec<Span>,
}

/// `count` elements at `buffer`.
///
/// # Errors
/// PTR: null; PARA: not aligned to the element, or too many bytes.
pub(super) fn span(buffer: *const c_void, count: u64, size: usize, name: &str) -> Result<Span, Fault> {
    if buffer.is_null() && count > 0 {
        return Err(fault(HcclResult::HCCL_E_PTR, format!("{name} is null")));
    }
    if !(buffer as usize).is_multiple_of(size) {
        return Err(fault(
            HcclResult::HCCL_E_PARA,
            format!("{name} is at {buffer:p}, not aligned to its type"),
        ));
    }
    let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(size));
    let len = len.ok_or_else(|| fault(HcclResult::HCCL_E_PARA, format!("{name} has {count} elements")))?;
    Ok(Span::new(buffer, len))
}

/// A rank of the communicator.
pub(super) fn check_rank(communicator: &Communicator, rank: u32, name: &str) -> Result<u32, Fault> {
    let size = communicator.size();
    if rank < size {
        return Ok(rank);
    }
    Err(fault(HcclResult::HCCL_E_PARA, format!("{name} is {rank} in a communicator of {size}")))
}

impl Operation {
    pub(super) fn new(kind: Kind, count: u64, dtype: HcclDataType) -> Self {
        let (reduce, root, counts) = (None, None, None);
        Self { kind, count, dtype, reduce, root, counts, gives: Vec::new(), gets: Vec::new() }
    }

    /// Buffers may be the same, or one a piece of the other at this rank's place; they may not overlap otherwise.
    fn check_overlap(&self, rank: u32) -> Result<(), Fault> {
        let ([given], [got]) = (&self.gives[..], &self.gets[..]) else { return Ok(()) };
        let (small, large) = if given.len <= got.len { (given, got) } else { (got, given) };
        let own_place = large.start + if small.len == large.len { 0 } else { rank as usize * small.len };
        if given.overlaps(*got) && small.start != own_place {
            let text = format!("sendBuf {given} and recvBuf {got} overlap and are not in place");
            return Err(fault(HcclResult::HCCL_E_PARA, text));
        }
        Ok(())
    }

    pub(super) fn submit(
        self,
        name: &str,
        communicator: Arc<Communicator>,
        stream: aclrtStream,
    ) -> Result<(), Fault> {
        self.check_overlap(communicator.rank)?;
        if communicator.has_failed() {
            let text = format!("the communicator {} has failed before", communicator.name);
            return Err(fault(HcclResult::HCCL_E_REMOTE, text));
        }
        let size_bytes = size_bytes(self.dtype)?;
        let graph = query::capturing(stream)?.map(|graph| communicator.graph_number(graph));
        let spans = [self.gives.clone(), self.gets.clone()];
        let ask = move |communicator: &Communicator| {
            let collective = Collective {
                kind: self.kind,
                count: self.count,
                dtype: self.dtype.0,
                size_bytes,
                reduce: self.reduce,
                root: self.root,
                graph,
                counts: self.counts.clone(),
            };
            let number = communicator.next_operation();
            let (group, rank) = (communicator.group.clone(), communicator.rank);
            vec![Question {
                request: Request::Meet { group, rank, number, collective },
                gives: self.gives.clone(),
                awaited: Awaited::Met(number),
                gets: self.gets.clone(),
            }]
        };
        submit_exchange(communicator, stream, name, spans, Box::new(ask))
    }
}

pub(crate) fn HcclAllReduce(
    sendBuf: *mut c_void,
    recvBuf: *mut c_void,
    count: u64,
    dataType: HcclDataType,
    op: HcclReduceOp,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let (communicator, size) = (communicator(comm)?, size_bytes(dataType)?);
    let mut operation = Operation::new(Kind::AllReduce, count, dataType);
    operation.reduce = Some(Reduce::of(op, dataType)?);
    operation.gives.push(span(sendBuf, count, size, "sendBuf")?);
    operation.gets.push(span(recvBuf, count, size, "recvBuf")?);
    operation.submit("HcclAllReduce", communicator, stream)
}

pub(crate) fn HcclReduce(
    sendBuf: *mut c_void,
    recvBuf: *mut c_void,
    count: u64,
    dataType: HcclDataType,
    op: HcclReduceOp,
    root: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let (communicator, size) = (communicator(comm)?, size_bytes(dataType)?);
    let mut operation = Operation::new(Kind::Reduce, count, dataType);
    operation.reduce = Some(Reduce::of(op, dataType)?);
    operation.root = Some(check_rank(&communicator, root, "root")?);
    operation.gives.push(span(sendBuf, count, size, "sendBuf")?);
    if communicator.rank == root {
        operation.gets.push(span(recvBuf, count, size, "recvBuf")?);
    }
    operation.submit("HcclReduce", communicator, stream)
}

pub(crate) fn HcclBroadcast(
    buf: *mut c_void,
    count: u64,
    dataType: HcclDataType,
    root: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let (communicator, size) = (communicator(comm)?, size_bytes(dataType)?);
    let mut operation = Operation::new(Kind::Broadcast, count, dataType);
    operation.root = Some(check_rank(&communicator, root, "root")?);
    let buffer = span(buf, count, size, "buf")?;
    if communicator.rank == root {
        operation.gives.push(buffer);
        // The root gets its own bytes back; it does not write them.
        operation.gets = Vec::new();
    } else {
        operation.gets.push(buffer);
    }
    operation.submit("HcclBroadcast", communicator, stream)
}

pub(crate) fn HcclAllGather(
    sendBuf: *mut c_void,
    recvBuf: *mut c_void,
    sendCount: u64,
    dataType: HcclDataType,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let (communicator, size) = (communicator(comm)?, size_bytes(dataType)?);
    let mut operation = Operation::new(Kind::AllGather, sendCount, dataType);
    let total = sendCount.saturating_mul(u64::from(communicator.size()));
    operation.gives.push(span(sendBuf, sendCount, size, "sendBuf")?);
    operation.gets.push(span(recvBuf, total, size, "recvBuf")?);
    operation.submit("HcclAllGather", communicator, stream)
}

pub(crate) fn HcclReduceScatter(
    sendBuf: *mut c_void,
    recvBuf: *mut c_void,
    recvCount: u64,
    dataType: HcclDataType,
    op: HcclReduceOp,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let (communicator, size) = (communicator(comm)?, size_bytes(dataType)?);
    let mut operation = Operation::new(Kind::ReduceScatter, recvCount, dataType);
    let total = recvCount.saturating_mul(u64::from(communicator.size()));
    operation.reduce = Some(Reduce::of(op, dataType)?);
    operation.gives.push(span(sendBuf, total, size, "sendBuf")?);
    operation.gets.push(span(recvBuf, recvCount, size, "recvBuf")?);
    operation.submit("HcclReduceScatter", communicator, stream)
}

pub(crate) fn HcclScatter(
    sendBuf: *mut c_void,
    recvBuf: *mut c_void,
    recvCount: u64,
    dataType: HcclDataType,
    root: u32,
    comm: HcclComm,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let (communicator, size) = (communicator(comm)?, size_bytes(dataType)?);
    let mut operation = Operation::new(Kind::Scatter, recvCount, dataType);
    operation.root = Some(check_rank(&communicator, root, "root")?);
    if communicator.rank == root {
        let total = recvCount.saturating_mul(u64::from(communicator.size()));
        operation.gives.push(span(sendBuf, total, size, "sendBuf")?);
    }
    operation.gets.push(span(recvBuf, recvCount, size, "recvBuf")?);
    operation.submit("HcclScatter", communicator, stream)
}

pub(crate) fn HcclBarrier(comm: HcclComm, stream: aclrtStream) -> Result<(), Fault> {
    let communicator = communicator(comm)?;
    Operation::new(Kind::Barrier, 0, HcclDataType::HCCL_DATA_TYPE_INT8).submit(
        "HcclBarrier",
        communicator,
        stream,
    )
}
