//! [`RowKernel`]s as static tensor functions for the device compiler.

mod split;

pub use split::{Piece, split};

use titan_ir::ascend::{DeviceKernel, Soc};
use titan_ir::kernel::RowKernel;

/// Why a kernel is not in the device compiler's subset; it goes the way of operators instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit(pub String);

/// The function of `kernel` over `rows` rows, or over `rows` elements of a flat domain.
///
/// A launch takes one address per input of the kernel, then one per constant table of [`DeviceKernel::tables`], then one per output.
///
/// # Errors
/// [`Unfit`], with the reason.
pub fn emit(kernel: &RowKernel, rows: u64, soc: &Soc) -> Result<DeviceKernel, Unfit> {
    let _ = (kernel, rows, soc);
    Err(Unfit("not generated yet".to_owned()))
}
