//! Launches of kernels.

use super::{Code, Parameter};
use crate::fault::Fault;
use crate::span::Span;
use crate::state::{self, Runtime};
use crate::stream::{Work, WorkKind};
use crate::task::{Progress, Task, submit_work};
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::sync::{Arc, Weak};

/// Bytes of an argument: a pointer.
const POINTER: usize = 8;

/// Where the arguments of a launch are.
pub(crate) enum Block<'a> {
    /// In host memory, which is read now.
    Host(&'a [u8]),
    /// In device memory, which is read when the kernel runs.
    Device(Span),
}

/// The spans a kernel reads and writes, given its arguments.
pub(crate) fn resolve(parameters: &[Parameter], pointers: &[usize]) -> (Vec<Span>, Vec<Span>) {
    let pick = |of: fn(&Parameter) -> bool| {
        let used = parameters.iter().zip(pointers).filter(|(parameter, _)| of(parameter));
        used.map(|(parameter, start)| Span { start: *start, len: parameter.size_bytes }).collect()
    };
    (pick(|parameter| parameter.reads), pick(|parameter| parameter.writes))
}

/// The arguments in a block.
///
/// # Safety
/// The block is live memory of `num` pointers.
unsafe fn pointers(block: Span, num: usize) -> Vec<usize> {
    // SAFETY: the caller vouches for it; the block need not be aligned.
    (0..num).map(|i| unsafe { (block.start as *const usize).add(i).read_unaligned() }).collect()
}

/// Launches a kernel on `num_blocks` blocks.
///
/// # Errors
/// 107000: the number of blocks or the size of the arguments is not what the kernel was compiled for.
pub(crate) fn launch(
    function: aclrtFuncHandle,
    num_blocks: u32,
    block: Block<'_>,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let code = {
        let runtime = state::ready()?;
        check_context(&runtime, function)?;
        Arc::clone(&runtime.functions.get(function.0)?.code)
    };
    let signature = &code.signature;
    let name = signature.symbol.clone();
    if num_blocks != signature.num_blocks {
        let message = format!("{name} is for {} blocks, not {num_blocks}", signature.num_blocks);
        return Err(Fault::parameter(message));
    }
    let (num, given) = (
        signature.parameters.len(),
        match &block {
            Block::Host(bytes) => bytes.len(),
            Block::Device(span) => span.len,
        },
    );
    if given != num * POINTER {
        let message = format!("{name} has {num} arguments, {} bytes, not {given} bytes", num * POINTER);
        return Err(Fault::parameter(message));
    }
    let weak = Arc::downgrade(&code);
    let work = match block {
        Block::Host(bytes) => {
            let span = Span { start: bytes.as_ptr() as usize, len: bytes.len() };
            // SAFETY: the bytes are those of the slice.
            let pointers = unsafe { pointers(span, num) };
            let (reads, writes) = resolve(&signature.parameters, &pointers);
            let run = move |_: &_| call(&weak, &pointers);
            Work::new(Task { name, reads, writes, workspace: None, run: Arc::new(run) }, WorkKind::Kernel)
        }
        Block::Device(span) => {
            let run = move |_: &_| {
                // SAFETY: the span was checked before the run, and is pinned.
                let pointers = unsafe { pointers(span, num) };
                call(&weak, &pointers)
            };
            let task =
                Task { name, reads: vec![span], writes: Vec::new(), workspace: None, run: Arc::new(run) };
            let indirect = Some((span, signature.parameters.clone()));
            Work { indirect, ..Work::new(task, WorkKind::Kernel) }
        }
    };
    submit_work(stream, work)
}

/// A binary may only be used in the context that loaded it.
fn check_context(runtime: &Runtime, function: aclrtFuncHandle) -> Result<(), Fault> {
    let binary = runtime.functions.get(function.0)?.binary;
    let loaded = runtime.binaries.get(binary as *const c_void)?;
    if loaded.context == runtime.context()?.0 {
        return Ok(());
    }
    Err(Fault::new(ACL_ERROR_RT_STREAM_CONTEXT, "the kernel was loaded in another context"))
}

fn call(code: &Weak<Code>, pointers: &[usize]) -> Progress {
    let Some(code) = code.upgrade() else {
        let message = "its binary has been unloaded";
        return Progress::Failed(Fault::new(ACL_ERROR_RT_KERNEL_UNREGISTERING, message));
    };
    let mut arguments: Vec<*mut c_void> = pointers.iter().map(|pointer| *pointer as *mut c_void).collect();
    // SAFETY: the kernel takes one pointer per parameter, and every range was checked before the run.
    unsafe { (code.entry)(arguments.as_mut_ptr()) };
    Progress::Done
}

/// The pointers in device memory at `span`, for the checks before a run.
///
/// # Safety
/// The span is live memory.
pub(crate) unsafe fn device_pointers(span: Span) -> Vec<usize> {
    // SAFETY: the caller vouches for it.
    unsafe { pointers(span, span.len / POINTER) }
}
