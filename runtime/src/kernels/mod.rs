//! Hand-written CPU kernels: matrix products, attention, scatter.
//!
//! Every kernel is written once over [`simd::Simd`] and compiled per instruction set; [`Isa`] picks the code at run time.
//! Results differ between instruction sets, never with the number of threads: each output element has one fixed order of
//! operations. Kernels allocate nothing; their scratch has the size `titan_ir::kernel::workspace` gives.

mod attention;
pub mod bf16;
mod gemm;
mod isa;
mod pack;
pub mod peak;
mod scatter;
mod simd;

pub use attention::{attention, attention_grad, attention_grad_on, attention_on};
pub use gemm::{Epilogue, RowKernelFn, contract, contract_on};
pub use isa::Isa;
pub use scatter::{scatter_add, scatter_add_on};

/// Scratch memory of one kernel call, at least as large as its `Workspace`, 64-byte aligned.
#[derive(Debug, Clone, Copy)]
pub struct ThreadScratch {
    /// Memory of all threads together.
    pub shared: *mut u8,
    /// Memory of worker 0.
    pub per_thread: *mut u8,
    /// Distance from one worker's memory to the next one's, in bytes.
    pub per_thread_stride_bytes: usize,
}

// SAFETY: the pointers are plain addresses; each kernel divides the memory among its workers.
unsafe impl Send for ThreadScratch {}
// SAFETY: as above.
unsafe impl Sync for ThreadScratch {}

impl ThreadScratch {
    /// The memory of a worker.
    ///
    /// # Safety
    /// The caller of the kernel has provided memory for `worker`.
    pub(crate) unsafe fn of(&self, worker: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { self.per_thread.add(worker * self.per_thread_stride_bytes) }
    }
}

/// Size from which a result is written around the caches: more than the last level holds of it until it is read.
const MIN_STREAM_BYTES: usize = 8 << 20;

/// Whether a result of `num_rows` rows is better left out of the caches: it is large, and its rows are whole cache lines.
fn streams(to: *const u8, num_rows: usize, row_bytes: usize) -> bool {
    (to.addr() | row_bytes).is_multiple_of(64) && num_rows * row_bytes >= MIN_STREAM_BYTES
}
