//! What an action reads and writes.

use crate::emit_plan::KernelTable;
use titan_ir::kernel::signature::{Buffer, Signature};
use titan_ir::kernel::{self, CollectiveKind, Contract, KernelSpec, Native, RowKernel, Store};
use titan_ir::plan::{Action, Address, CollectivePart, Domain};
use titan_ir::{DType, Mesh};

/// One operand or result of an action.
#[derive(Debug, Clone)]
pub(in crate::check) struct Access {
    /// `operand 0`, `result 1`.
    pub(in crate::check) what: String,
    pub(in crate::check) address: Address,
    pub(in crate::check) len_bytes: u64,
    pub(in crate::check) writes: bool,
    /// Whether it is touched element by element, by the call that also touches the same element of all others that are.
    elementwise: bool,
    /// Bytes of an element.
    element_bytes: u64,
    /// Whether the address need not be aligned.
    pub(super) unaligned: bool,
}

impl Access {
    /// Whether two accesses have a byte in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.address.offset_bytes, other.address.offset_bytes);
        self.address.arena == other.address.arena && a < b + other.len_bytes && b < a + self.len_bytes
    }

    /// Whether a result may be written over an operand: the same elements one by one.
    pub(super) fn may_share(&self, operand: &Self) -> bool {
        !operand.writes
            && self.elementwise
            && operand.elementwise
            && self.address == operand.address
            && self.len_bytes == operand.len_bytes
            && self.element_bytes == operand.element_bytes
    }
}

/// Operands in the order of the node's, then results.
pub(in crate::check) fn accesses(
    action: &Action,
    mesh: &Mesh,
    kernels: &KernelTable,
) -> Result<Vec<Access>, String> {
    let kernel = |index: u32| kernels.get(index).ok_or_else(|| format!("there is no kernel {index}"));
    match action {
        Action::Launch { kernel: index, args, domain } => launch(kernel(*index)?, args, domain),
        Action::Contract { spec, a, b, c, epilogue } => {
            let epilogue = match epilogue {
                Some((index, args)) => Some((kernel(*index)?, args)),
                None => None,
            };
            contract(spec, [*a, *b], *c, epilogue)
        }
        Action::Attention { spec, args } => native(&Native::Attention(spec.clone()), args),
        Action::AttentionGrad { spec, args } => native(&Native::AttentionGrad(spec.clone()), args),
        Action::ScatterAdd { spec, args } => native(&Native::ScatterAdd(spec.clone()), args),
        Action::Collective { kind, axis, dtype, parts } => {
            Ok(collective(*kind, mesh.size(*axis), *dtype, parts))
        }
        Action::Copy { src, dst, size_bytes } => {
            Ok(vec![bytes("source", *src, *size_bytes, false), bytes("copy", *dst, *size_bytes, true)])
        }
        Action::RankSlice { src, src_bytes, dst, size_bytes, .. } => {
            Ok(vec![bytes("source", *src, *src_bytes, false), bytes("slice", *dst, *size_bytes, true)])
        }
        Action::Zero { dst, size_bytes } => Ok(vec![bytes("zeros", *dst, *size_bytes, true)]),
        Action::Guard { scalars } => {
            Ok(scalars.iter().map(|(name, address)| bytes(name, *address, 4, false)).collect())
        }
        Action::Record { .. } | Action::Wait { .. } => Ok(Vec::new()),
    }
}

fn bytes(what: &str, address: Address, len_bytes: u64, writes: bool) -> Access {
    let unaligned = what == "zeros";
    let what = what.to_owned();
    Access { what, address, len_bytes, writes, elementwise: false, element_bytes: 1, unaligned }
}

/// Accesses of buffers in the order of a signature; `elementwise` flags operands, then results.
fn by_signature(
    signature: &Signature,
    args: &[Address],
    elementwise: &[bool],
) -> Result<Vec<Access>, String> {
    let num_ins = signature.ins.len();
    let buffers: Vec<&Buffer> = signature.ins.iter().chain(&signature.outs).collect();
    if buffers.len() != args.len() {
        return Err(format!("a kernel of {} buffers is given {}", buffers.len(), args.len()));
    }
    let access = |(i, (&&(dtype, len), &address)): (usize, (&&Buffer, &Address))| {
        let writes = i >= num_ins;
        let element_bytes = dtype.size_bytes() as u64;
        let what = if writes { format!("result {}", i - num_ins) } else { format!("operand {i}") };
        let elementwise = elementwise.get(i).copied().unwrap_or(false);
        Access {
            what,
            address,
            len_bytes: len * element_bytes,
            writes,
            elementwise,
            element_bytes,
            unaligned: false,
        }
    };
    Ok(buffers.iter().zip(args).enumerate().map(access).collect())
}

fn elementwise(kernel: &RowKernel) -> impl Iterator<Item = bool> + '_ {
    let ins = kernel.inputs.iter().map(|i| i.access == kernel::Access::Full);
    ins.chain(kernel.outputs.iter().map(|o| o.store == Store::Full))
}

fn launch(kernel: &RowKernel, args: &[Address], domain: &Domain) -> Result<Vec<Access>, String> {
    let signature = match *domain {
        Domain::Rows { rows, .. } => kernel.signature(rows, None),
        Domain::Flat { len, .. } => kernel.signature(1, Some(len)),
    };
    by_signature(&signature, args, &elementwise(kernel).collect::<Vec<_>>())
}

fn contract(
    spec: &Contract,
    operands: [Address; 2],
    c: Option<Address>,
    epilogue: Option<(&RowKernel, &Vec<Address>)>,
) -> Result<Vec<Access>, String> {
    let signature = KernelSpec::Native(Native::Contract(spec.clone())).signature(1, None);
    let rest: Vec<Address> = epilogue.map_or_else(|| c.into_iter().collect(), |(_, args)| args.clone());
    if epilogue.map(|(kernel, _)| kernel) != spec.epilogue.as_ref() {
        return Err("the epilogue is another kernel than the product says".to_owned());
    }
    let tile = epilogue.into_iter().flat_map(|(kernel, _)| elementwise(kernel).skip(1));
    let elementwise: Vec<bool> = [false, false].into_iter().chain(tile).collect();
    let args: Vec<Address> = operands.into_iter().chain(rest).collect();
    by_signature(&signature, &args, &elementwise)
}

fn native(spec: &Native, args: &[Address]) -> Result<Vec<Access>, String> {
    by_signature(&KernelSpec::Native(spec.clone()).signature(1, None), args, &[])
}

/// Reads, then writes.
fn collective(kind: CollectiveKind, ranks: u64, dtype: DType, parts: &[CollectivePart]) -> Vec<Access> {
    let element_bytes = dtype.size_bytes() as u64;
    let received = |len: u64| match kind {
        CollectiveKind::AllGather => len * ranks,
        CollectiveKind::ReduceScatter(_) => len / ranks,
        CollectiveKind::AllReduce(_) | CollectiveKind::AllToAll => len,
    };
    let reads = parts.iter().map(|p| bytes("contribution", p.src, p.src_len * element_bytes, false));
    reads
        .chain(parts.iter().map(|p| bytes("result", p.dst, received(p.src_len) * element_bytes, true)))
        .collect()
}
