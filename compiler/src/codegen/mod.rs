//! Code generation: [`RowKernel`](titan_ir::kernel::RowKernel)s become machine code through MLIR and LLVM.

pub mod ascend;
pub mod cpu;
