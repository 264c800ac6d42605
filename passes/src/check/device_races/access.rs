//! What a call reads and writes.

use super::intervals::Range;
use titan_ir::Mesh;
use titan_ir::ascend::{self, Arg, Call, DeviceKernels, TensorArg};
use titan_ir::kernel::CollectiveKind;

/// Alignment of operands of generated kernels. Tensors of operators keep that of their elements: they are offsets from an aligned
/// address.
const OPERAND_ALIGN_BYTES: u64 = 32;

/// One operand of a call.
#[derive(Debug, Clone)]
pub(super) struct Access {
    /// `argument 2`, `source`.
    pub(super) what: String,
    pub(super) at: u64,
    /// From its first element to its last, whatever lies between.
    pub(super) len_bytes: u64,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) align_bytes: u64,
}

impl Access {
    pub(super) fn range(&self) -> Range {
        (self.at, self.at + self.len_bytes)
    }
}

/// All operands.
///
/// # Errors
/// Why the call has none.
pub(super) fn accesses(call: &Call, mesh: &Mesh, kernels: &DeviceKernels) -> Result<Vec<Access>, String> {
    match call {
        Call::Operator { args, .. } => Ok(operator(args)),
        Call::Kernel { kernel, args } => launch(*kernel, args, kernels),
        Call::Collective { kind, axis, element, src_len, src, dst } => {
            let ranks = mesh.axes.get(axis.index()).map(|axis| axis.size);
            let ranks = ranks.ok_or_else(|| "there is no such axis".to_owned())?;
            let received = match kind {
                CollectiveKind::AllGather => src_len * ranks,
                CollectiveKind::ReduceScatter(_) => src_len / ranks,
                CollectiveKind::AllReduce(_) | CollectiveKind::AllToAll => *src_len,
            };
            let size = element.size_bytes();
            Ok(vec![
                read("contribution", *src, src_len * size, size),
                write("result", *dst, received * size, size),
            ])
        }
        Call::Copy { src, dst, size_bytes } => {
            Ok(vec![read("source", *src, *size_bytes, 1), write("copy", *dst, *size_bytes, 1)])
        }
        Call::RankSlice { src, src_bytes, dst, size_bytes, .. } => {
            Ok(vec![read("source", *src, *src_bytes, 1), write("slice", *dst, *size_bytes, 1)])
        }
        Call::Zero { dst, size_bytes } => Ok(vec![write("zeros", *dst, *size_bytes, 1)]),
        Call::Record { .. } | Call::Wait { .. } => Ok(Vec::new()),
    }
}

fn read(what: &str, at: u64, len_bytes: u64, align_bytes: u64) -> Access {
    Access { what: what.to_owned(), at, len_bytes, reads: true, writes: false, align_bytes }
}

fn write(what: &str, at: u64, len_bytes: u64, align_bytes: u64) -> Access {
    Access { what: what.to_owned(), at, len_bytes, reads: false, writes: true, align_bytes }
}

fn operator(args: &[Arg]) -> Vec<Access> {
    let mut list = Vec::new();
    let mut add = |tensor: &TensorArg, what: String| {
        let len_bytes = tensor.extent_bytes();
        if len_bytes > 0 {
            let align_bytes = tensor.element.size_bytes();
            list.push(Access { align_bytes, ..operand(what, tensor.at, len_bytes, tensor.access) });
        }
    };
    for (i, arg) in args.iter().enumerate() {
        match arg {
            Arg::Tensor(tensor) => add(tensor, format!("argument {i}")),
            Arg::Tensors(tensors) => {
                tensors
                    .iter()
                    .enumerate()
                    .for_each(|(j, tensor)| add(tensor, format!("tensor {j} of argument {i}")));
            }
            _ => {}
        }
    }
    list
}

fn operand(what: String, at: u64, len_bytes: u64, access: ascend::Access) -> Access {
    Access {
        what,
        at,
        len_bytes,
        reads: access.reads(),
        writes: access.writes(),
        align_bytes: OPERAND_ALIGN_BYTES,
    }
}

fn launch(kernel: u32, args: &[u64], kernels: &DeviceKernels) -> Result<Vec<Access>, String> {
    let Some(found) = kernels.kernels.get(kernel as usize) else {
        return Err(format!("there is no generated kernel {kernel}"));
    };
    if found.args.len() != args.len() {
        return Err(format!("a kernel of {} operands is given {}", found.args.len(), args.len()));
    }
    let operands = found.args.iter().zip(args).enumerate();
    Ok(operands
        .map(|(i, (arg, &at))| operand(format!("argument {i}"), at, arg.size_bytes(), arg.access))
        .collect())
}
