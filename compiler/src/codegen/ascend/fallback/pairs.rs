//! Neighbours swapped.

use crate::codegen::ascend::emitter::Emitter;
use titan_ir::ascend::{Arg, TensorArg};

/// Writes the elements of `from` with every two neighbours swapped: two strided copies.
pub(super) fn swap(e: &mut Emitter<'_>, from: &TensorArg, to: &TensorArg) {
    let every_other = |t: &TensorArg, first: u64| TensorArg {
        dims: vec![t.num_elements() / 2],
        strides: vec![2],
        at: t.at + first * t.element.size_bytes(),
        ..t.clone()
    };
    for first in [0, 1] {
        let args = vec![Arg::Tensor(every_other(to, first)), Arg::Tensor(every_other(from, 1 - first))];
        e.operator("aclnnInplaceCopy", args);
    }
}
