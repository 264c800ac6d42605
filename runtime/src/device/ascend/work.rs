//! What can be queued on a stream.

use super::context::Context;
use super::operators::Prepared;
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use titan_ir::Diag;
use titan_ir::kernel::{CollectiveKind, ReduceKind};

/// A call bound to a rank.
#[derive(Debug)]
pub(super) enum Work<'a> {
    Operator(Box<Prepared<'a>>),
    Kernel { function: aclrtFuncHandle, num_blocks: u32, args: Box<[u64]> },
    Collective(Collective),
    Copy { dst: *mut c_void, src: *const c_void, size_bytes: usize },
    Zero { dst: *mut c_void, size_bytes: usize },
    Record(aclrtEvent),
    Wait(aclrtEvent),
}

#[derive(Debug)]
pub(super) struct Collective {
    pub(super) kind: CollectiveKind,
    pub(super) comm: HcclComm,
    pub(super) src: *mut c_void,
    pub(super) dst: *mut c_void,
    pub(super) src_len: u64,
    pub(super) num_ranks: u64,
    pub(super) dtype: HcclDataType,
}

/// Queues a call, or records it if its stream is capturing.
///
/// # Errors
/// T0742 when CANN refuses it.
pub(super) fn issue(work: &Work<'_>, context: &Context<'_>, stream: aclrtStream) -> Result<(), Diag> {
    let acl = context.acl();
    // SAFETY (all calls): handles are this context's; addresses are in the arena, which outlives all queued work.
    context.check(match work {
        Work::Operator(operator) => return operator.run(context, stream),
        Work::Kernel { function, num_blocks, args } => {
            let size_bytes = size_of_val(&**args);
            // SAFETY: see above; without place holders the arguments are only read, by the call itself.
            unsafe {
                acl.aclrtLaunchKernelWithHostArgs(
                    *function,
                    *num_blocks,
                    stream,
                    std::ptr::null_mut(),
                    args.as_ptr().cast_mut().cast(),
                    size_bytes,
                    std::ptr::null_mut(),
                    0,
                )
            }
        }
        Work::Collective(collective) => return issue_collective(collective, context, stream),
        Work::Copy { dst, src, size_bytes } => {
            let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_DEVICE;
            // SAFETY: see above.
            unsafe { acl.aclrtMemcpyAsync(*dst, *size_bytes, *src, *size_bytes, kind, stream) }
        }
        // SAFETY: see above.
        Work::Zero { dst, size_bytes } => unsafe {
            acl.aclrtMemsetAsync(*dst, *size_bytes, 0, *size_bytes, stream)
        },
        // SAFETY: see above.
        Work::Record(event) => unsafe { acl.aclrtRecordEvent(*event, stream) },
        // SAFETY: see above.
        Work::Wait(event) => unsafe { acl.aclrtStreamWaitEvent(stream, *event) },
    })
}

fn issue_collective(call: &Collective, context: &Context<'_>, stream: aclrtStream) -> Result<(), Diag> {
    let Collective { kind, comm, src, dst, src_len, num_ranks, dtype } = *call;
    let hccl = context.cann.hccl.as_ref().expect("a program of several ranks has HCCL");
    let op = |kind: ReduceKind| match kind {
        ReduceKind::Sum => HcclReduceOp::HCCL_REDUCE_SUM,
        ReduceKind::Max => HcclReduceOp::HCCL_REDUCE_MAX,
    };
    // SAFETY: the communicator is this rank's; the buffers are as large as the kind says.
    context.check(unsafe {
        match kind {
            CollectiveKind::AllGather => hccl.HcclAllGather(src, dst, src_len, dtype, comm, stream),
            CollectiveKind::ReduceScatter(kind) => {
                hccl.HcclReduceScatter(src, dst, src_len / num_ranks, dtype, op(kind), comm, stream)
            }
            CollectiveKind::AllReduce(kind) => {
                hccl.HcclAllReduce(src, dst, src_len, dtype, op(kind), comm, stream)
            }
            CollectiveKind::AllToAll => {
                let each = src_len / num_ranks;
                hccl.HcclAlltoAll(src, each, dtype, dst, each, dtype, comm, stream)
            }
        }
    })
}
