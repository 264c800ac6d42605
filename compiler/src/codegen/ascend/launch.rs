//! Launches of generated kernels: a kernel for the device compiler, one operator of the vendor, or a sequence of operators.

use super::{KernelStyle, Lowering, fallback, kernel, recognise};
use titan_ir::ascend::Call;
use titan_ir::kernel::RowKernel;
use titan_ir::plan::Domain;
use titan_ir::{DiagResult, ice};

/// A generated kernel on operands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launch<'a> {
    /// The kernel.
    pub(super) kernel: &'a RowKernel,
    /// Rows of a static domain; 1 for a flat one.
    pub(super) rows: u64,
    /// Elements of a flat domain.
    pub(super) len: Option<u64>,
    /// One address per input, then per output.
    pub(super) args: &'a [u64],
}

/// Emits the calls of a launch.
///
/// # Errors
/// T0530 if no operators compute it.
pub(super) fn launch(
    lowering: &mut Lowering<'_, '_>,
    index: u32,
    args: &[u64],
    domain: Domain,
) -> DiagResult<()> {
    let Some(kernel) = lowering.kernels.get(index as usize) else { ice!("no kernel {index}") };
    let (rows, len) = match domain {
        Domain::Rows { rows, .. } => (rows, None),
        Domain::Flat { len, .. } => (1, Some(len)),
    };
    let launch = Launch { kernel, rows, len, args };
    if lowering.options.style == KernelStyle::Fused && generated(lowering, &launch) {
        return Ok(());
    }
    if recognise::recognise(&mut lowering.emitter, &launch, &mut lowering.known) {
        return Ok(());
    }
    fallback::fallback(&mut lowering.emitter, &launch)
}

/// Emits generated kernels, if the device compiler's subset holds all pieces of the launch.
fn generated(lowering: &mut Lowering<'_, '_>, launch: &Launch<'_>) -> bool {
    let rows = launch.len.unwrap_or(launch.rows);
    let pieces = kernel::split(launch.kernel);
    let mut calls = Vec::with_capacity(pieces.len());
    for piece in &pieces {
        let Some(index) = lowering.table.index_of(&piece.kernel, rows, lowering.options.soc) else {
            return false;
        };
        let operands: Vec<u64> = piece.args.iter().map(|&i| launch.args[i]).collect();
        let (ins, outs) = operands.split_at(piece.kernel.inputs.len());
        let tables: Vec<u64> = lowering
            .table
            .get(index)
            .tables
            .iter()
            .map(|fill| lowering.emitter.table(fill.clone()))
            .collect();
        let args = ins.iter().copied().chain(tables).chain(outs.iter().copied()).collect();
        calls.push(Call::Kernel { kernel: index, args });
    }
    calls.into_iter().for_each(|call| lowering.emitter.push(call));
    true
}
