//! After a step met a value that is not finite: run it again, one instruction at a time, and name the first such value.
//!
//! Nothing of the state has been written when a guard stops a step, so the second run computes what the first did.

use super::Cpu;
use crate::device::{Inputs, RankError};
use crate::diagnose::{Bad, Finding, Stop, describe, stored_value};
use crate::exec::Rank;
use titan_ir::artifact::KernelTable;
use titan_ir::kernel::{CollectiveKind, RowKernel, Store};
use titan_ir::plan::{Action, Address, Domain, Instr};
use titan_ir::{DType, Plan};

/// A buffer an instruction writes.
struct Written {
    address: Address,
    dtype: DType,
    len: u64,
}

/// Runs the step again and gives this rank's first value that is not finite.
pub(super) fn find(
    device: &Cpu<'_>,
    plan: &Plan,
    kernels: &KernelTable,
    inputs: &Inputs<'_>,
    at: Stop,
) -> Result<Option<Finding>, RankError> {
    device.ports.begin(inputs);
    let rank = &device.rank;
    let mut found = stored_value(device, plan)?;
    for (index, segment) in plan.segments.iter().enumerate().take(at.segment + 1) {
        let end = if index == at.segment { at.instr } else { segment.instrs.len() };
        for microbatch in 0..segment.repeat {
            device.ports.load(inputs, microbatch as usize);
            for (i, instr) in segment.instrs[..end].iter().enumerate() {
                // A rank that fails here ends the search for all.
                if rank.run_instr(index, i).is_err() {
                    return Ok(found);
                }
                if found.is_none() {
                    let what = first_bad(rank, kernels, instr).map(|bad| describe(plan, instr, &bad));
                    found = what.map(|what| Finding { order: (index, microbatch, i + 1), what });
                }
            }
        }
    }
    Ok(found)
}

fn first_bad(rank: &Rank, kernels: &KernelTable, instr: &Instr) -> Option<Bad> {
    written(rank, kernels, &instr.action)
        .iter()
        .enumerate()
        .find_map(|(result, w)| scan(rank, w).map(|(element, value)| Bad { result, element, value }))
}

fn written(rank: &Rank, kernels: &KernelTable, action: &Action) -> Vec<Written> {
    match action {
        Action::Launch { kernel, args, domain } => {
            let kernel = &kernels.kernels[*kernel as usize];
            row_outputs(kernel, &args[kernel.inputs.len()..], *domain)
        }
        Action::Contract { spec, epilogue: Some((kernel, args)), .. } => {
            let kernel = &kernels.kernels[*kernel as usize];
            let domain = Domain::Rows { rows: spec.m, cols: spec.n, grain: spec.m };
            row_outputs(kernel, &args[kernel.inputs.len() - 1..], domain)
        }
        Action::Contract { spec, c, .. } => {
            c.iter().map(|&address| Written { address, dtype: spec.out, len: spec.m * spec.n }).collect()
        }
        Action::Attention { spec, args } => {
            let queries = spec.batch * spec.q_tokens * spec.heads;
            vec![
                Written { address: args[3], dtype: spec.dtype, len: queries * spec.head_dim },
                Written { address: args[4], dtype: DType::F32, len: queries },
            ]
        }
        Action::AttentionGrad { spec, args } => {
            let queries = spec.batch * spec.q_tokens * spec.heads * spec.head_dim;
            let keys = spec.batch * spec.kv_tokens * spec.kv_heads * spec.head_dim;
            let result = |(&address, len)| Written { address, dtype: spec.dtype, len };
            args[6..].iter().zip([queries, keys, keys]).map(result).collect()
        }
        Action::ScatterAdd { spec, args } => {
            vec![Written { address: args[2], dtype: spec.out, len: spec.num * spec.cols }]
        }
        Action::Collective { kind, axis, dtype, parts } => {
            let ranks = rank.comm.group(*axis).num_ranks() as u64;
            let len = |src_len: u64| match kind {
                CollectiveKind::AllGather => src_len * ranks,
                CollectiveKind::ReduceScatter(_) => src_len / ranks,
                CollectiveKind::AllReduce(_) | CollectiveKind::AllToAll => src_len,
            };
            parts.iter().map(|p| Written { address: p.dst, dtype: *dtype, len: len(p.src_len) }).collect()
        }
        _ => Vec::new(),
    }
}

fn row_outputs(kernel: &RowKernel, addresses: &[Address], domain: Domain) -> Vec<Written> {
    let (rows, all) = match domain {
        Domain::Rows { rows, cols, .. } => (rows, rows * cols),
        Domain::Flat { len, chunk } => (len.div_ceil(chunk), len),
    };
    let len = |store: Store| match store {
        Store::Full => all,
        Store::Row => rows,
        Store::ColSum { block_rows } => rows.div_ceil(block_rows) * (all / rows.max(1)),
    };
    let outputs = kernel.outputs.iter().zip(addresses);
    outputs.map(|(o, &address)| Written { address, dtype: o.dtype, len: len(o.store) }).collect()
}

/// The first element that is not finite, and its value.
fn scan(rank: &Rank, written: &Written) -> Option<(u64, f32)> {
    let at = rank.memory.at(written.address, written.len * written.dtype.size_bytes() as u64);
    let len = written.len as usize;
    let bad = |(i, value): (usize, f32)| (!value.is_finite()).then_some((i as u64, value));
    // SAFETY: the buffer is this rank's, aligned, and no kernel runs.
    unsafe {
        match written.dtype {
            DType::F32 => {
                let values = std::slice::from_raw_parts(at.cast::<f32>(), len);
                values.iter().copied().enumerate().find_map(bad)
            }
            DType::Bf16 => {
                let values = std::slice::from_raw_parts(at.cast::<u16>(), len);
                values.iter().map(|&v| crate::kernels::bf16::widen(v)).enumerate().find_map(bad)
            }
            DType::I32 => None,
        }
    }
}
