//! Kernels for x86-64.
//!
//! `emit` schedules a kernel as explicit loops over rows and vectors of columns, in the `scf`, `arith`, `vector`, `math` and
//! `llvm` dialects; `lower` takes that to an object file; `image` links the objects into one image.
//!
//! Invariants:
//! * The bits a kernel computes do not depend on the CPU level, on how rows or columns are split, or on the position of its operands. So
//!   reductions use 64 virtual lanes whatever the vector width, the polynomials are ours, and rounding to bf16 is integer
//!   arithmetic (the processor's conversion flushes denormals).
//! * Nothing is left to the optimiser that changes floating-point results: no fast-math, no contraction.
//! * A kernel calls nothing.

mod address;
mod builder;
mod emit;
mod image;
mod level;
mod lower;
mod math;
mod schedule;

pub use image::{Image, compile, compile_on};
pub use level::CpuLevel;

use lower::Lowering;
use titan_ir::kernel::RowKernel;

/// The MLIR of one kernel, before lowering.
pub fn mlir_text(kernel: &RowKernel, level: CpuLevel) -> String {
    Lowering::new(level).mlir_text(kernel)
}
