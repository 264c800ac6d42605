//! What the generator of random kernels makes.

use titan_ir::kernel::RowKernel;

/// A kernel with operands.
pub(crate) struct Case {
    pub(crate) kernel: RowKernel,
    /// Rows of a static domain, elements of a flat one.
    pub(crate) extent: u64,
    pub(crate) inputs: Vec<Vec<f64>>,
    /// Per output the input whose memory it is written over.
    pub(crate) in_place: Vec<Option<usize>>,
}
