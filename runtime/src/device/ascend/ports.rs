//! What crosses between host and device in a step: inputs before its parts, outputs and guarded scalars after them.
//!
//! Copies are queued on stream 0 between pinned host memory and the arena. Every microbatch has host memory of its own, so the
//! host may fill all before the device has read one.

use super::arena::Arena;
use super::context::Context;
use super::owned::Pinned;
use crate::device::Inputs;
use crate::host::{num_microbatches, tensor};
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use titan_ir::Diag;
use titan_ir::ascend::Program;
use titan_ir::plan::PlanTensor;

/// Names of the outputs.
const OUTPUTS: [&str; 3] = ["loss", "grad_norm", "lr"];

/// The host's side of a rank.
#[derive(Debug)]
pub(super) struct Ports<'a> {
    /// Tokens and labels on the device.
    batch: [*mut c_void; 2],
    batch_bytes: usize,
    step: *mut c_void,
    outputs: [*const c_void; 3],
    /// Per microbatch tokens, then labels; then the step; then outputs; then guarded scalars.
    pinned: Pinned<'a>,
    num_microbatches: usize,
}

impl<'a> Ports<'a> {
    /// For the tensors of a plan.
    ///
    /// # Errors
    /// T0742 when there is no host memory for it.
    pub(super) fn new(context: &Rc<Context<'a>>, program: &Program, arena: &Arena<'a>) -> Result<Self, Diag> {
        let plan = context.plan;
        let at = |t: &PlanTensor| arena.at(program.address(t.address), t.size_bytes);
        let [tokens, labels, step] = ["tokens", "labels", "step"].map(|name| tensor(&plan.tensors, name));
        let num_microbatches = num_microbatches(plan) as usize;
        let batch_bytes = tensor(&plan.tensors, "tokens").local_dims.iter().product::<u64>() as usize * 4;
        let most_guarded = program.segments.iter().flat_map(|s| &s.parts).map(|p| p.guard.len()).max();
        let scalars = 1 + OUTPUTS.len() + most_guarded.unwrap_or(0);
        Ok(Self {
            batch: [at(tokens), at(labels)],
            batch_bytes,
            step: at(step),
            outputs: OUTPUTS.map(|name| at(tensor(&plan.tensors, name)).cast_const()),
            pinned: context.pinned(num_microbatches * 2 * batch_bytes + scalars * 4)?,
            num_microbatches,
        })
    }

    fn host(&self, offset_bytes: usize) -> *mut c_void {
        self.pinned.get().wrapping_byte_add(offset_bytes)
    }

    /// The place of a scalar: the step, the outputs, the guarded ones.
    fn scalar(&self, i: usize) -> *mut c_void {
        self.host(self.num_microbatches * 2 * self.batch_bytes + i * 4)
    }

    /// Puts the inputs of a step where the device will copy them from. No copy of an earlier step is under way.
    pub(super) fn fill(&self, inputs: &Inputs<'_>) {
        // SAFETY: inside the pinned memory, which nothing else uses now.
        unsafe { self.scalar(0).cast::<i32>().write(inputs.index()) };
        for microbatch in 0..self.num_microbatches {
            for (i, ids) in inputs.batch(microbatch).iter().enumerate() {
                let at = self.host((microbatch * 2 + i) * self.batch_bytes).cast();
                // SAFETY: as above; every batch is as long.
                unsafe { ptr::copy_nonoverlapping(ids.as_ptr(), at, self.batch_bytes / 4) };
            }
        }
    }

    /// Queues the copy of the step number.
    ///
    /// # Errors
    /// T0742 when that fails.
    pub(super) fn begin(&self, context: &Context<'_>, stream: aclrtStream) -> Result<(), Diag> {
        // SAFETY: both are as long, and live as long as this rank's device.
        unsafe { to_device(context, self.step, self.scalar(0), 4, stream) }
    }

    /// Queues the copies of a microbatch.
    ///
    /// # Errors
    /// T0742 when that fails.
    pub(super) fn load(
        &self,
        context: &Context<'_>,
        microbatch: usize,
        stream: aclrtStream,
    ) -> Result<(), Diag> {
        for (i, &dst) in self.batch.iter().enumerate() {
            let src = self.host((microbatch * 2 + i) * self.batch_bytes);
            // SAFETY: as in `begin`.
            unsafe { to_device(context, dst, src, self.batch_bytes, stream)? };
        }
        Ok(())
    }

    /// Queues the copies of the outputs.
    ///
    /// # Errors
    /// T0742 when that fails.
    pub(super) fn fetch(&self, context: &Context<'_>, stream: aclrtStream) -> Result<(), Diag> {
        for (i, &src) in self.outputs.iter().enumerate() {
            // SAFETY: as in `begin`.
            unsafe { to_host(context, self.scalar(1 + i), src, stream)? };
        }
        Ok(())
    }

    /// Loss, gradient norm and learning rate, after a wait for [`Ports::fetch`].
    pub(super) fn outputs(&self) -> [f32; 3] {
        // SAFETY: inside the pinned memory; nothing is copied into it now.
        [1, 2, 3].map(|i| unsafe { self.scalar(i).cast::<f32>().read() })
    }

    /// Queues the copies of guarded scalars.
    ///
    /// # Errors
    /// T0742 when that fails.
    pub(super) fn fetch_guard(
        &self,
        context: &Context<'_>,
        guard: &[(String, u64)],
        arena: &Arena<'_>,
        stream: aclrtStream,
    ) -> Result<(), Diag> {
        for (i, (_, at)) in guard.iter().enumerate() {
            let src = arena.at(*at, 4).cast_const();
            // SAFETY: as in `begin`.
            unsafe { to_host(context, self.scalar(1 + OUTPUTS.len() + i), src, stream)? };
        }
        Ok(())
    }

    /// Whether all guarded scalars are finite, after a wait for [`Ports::fetch_guard`].
    pub(super) fn is_finite(&self, num_scalars: usize) -> bool {
        // SAFETY: as in `outputs`.
        let scalar = |i: usize| unsafe { self.scalar(1 + OUTPUTS.len() + i).cast::<f32>().read() };
        (0..num_scalars).all(|i| scalar(i).is_finite())
    }
}

/// # Safety
/// Both ranges are valid until the copy is done; `src` is pinned.
unsafe fn to_device(
    context: &Context<'_>,
    dst: *mut c_void,
    src: *const c_void,
    size_bytes: usize,
    stream: aclrtStream,
) -> Result<(), Diag> {
    let kind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE;
    // SAFETY: the caller's.
    context.check(unsafe { context.acl().aclrtMemcpyAsync(dst, size_bytes, src, size_bytes, kind, stream) })
}

/// Copies one f32.
///
/// # Safety
/// Both places are valid until the copy is done; `dst` is pinned.
unsafe fn to_host(
    context: &Context<'_>,
    dst: *mut c_void,
    src: *const c_void,
    stream: aclrtStream,
) -> Result<(), Diag> {
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST;
    // SAFETY: the caller's.
    context.check(unsafe { context.acl().aclrtMemcpyAsync(dst, 4, src, 4, kind, stream) })
}
