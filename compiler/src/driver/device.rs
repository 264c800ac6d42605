//! From a plan to a program for an Ascend device: lowering, and the proofs that always follow it.

use crate::codegen::ascend::{KernelStyle, KernelTable, Options, lower};
use crate::config::{AscendKernels, Config};
use std::num::NonZero;
use titan_device_compiler::DeviceCompiler;
use titan_ir::ascend::{DeviceKernel, DeviceKernels, Program, Soc};
use titan_ir::kernel::RowKernel;
use titan_ir::{DiagResult, Diags, Plan, ice};
use titan_passes::check::{capture, device_races};
use titan_passes::emit_plan;

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

/// Lowers the plans of one build.
#[derive(Debug)]
pub struct DevicePlanner {
    soc: &'static Soc,
    style: KernelStyle,
    workspace_bytes: Option<u64>,
    table: KernelTable,
}

/// What the programs of a build share.
#[derive(Debug, Default)]
pub struct Lowered {
    /// Generated kernels by the index the programs use.
    pub kernels: DeviceKernels,
    /// Kernels that became operators, with the reason.
    pub unfit: Vec<Unfit>,
}

/// A kernel that the device compiler's subset does not hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Unfit {
    /// What it computes.
    pub kernel: RowKernel,
    /// Over how many rows, or elements of a flat domain.
    pub rows: u64,
    /// Why it is not generated.
    pub reason: String,
}

impl DevicePlanner {
    /// Nothing lowered yet.
    pub fn new(config: &Config, soc: &'static Soc) -> Self {
        let workspace_bytes = config.titan.ascend_workspace_mib.map(|mib| mib * MIB);
        Self { workspace_bytes, ..Self::of_word(config.titan.ascend_kernels.word(), soc) }
    }

    /// With the style that `titan.ascend_kernels` calls `word`.
    pub fn of_word(word: &str, soc: &'static Soc) -> Self {
        let is_fused = word == AscendKernels::Fused.word();
        let style = if is_fused { KernelStyle::Fused } else { KernelStyle::Aclnn };
        Self { soc, style, workspace_bytes: None, table: KernelTable::new() }
    }

    /// Kernels of a plan that become operators.
    ///
    /// # Errors
    /// As [`lower`].
    pub fn unfit(mut self, plan: &Plan, kernels: &[RowKernel]) -> DiagResult<Vec<Unfit>> {
        let options = Options { soc: self.soc, style: self.style, workspace_bytes: self.workspace_bytes };
        lower(plan, kernels, &options, &mut self.table)?;
        Ok(self.finish().unfit)
    }

    /// The program of a plan, proven.
    ///
    /// # Errors
    /// As [`lower`], [`capture::check`] and [`device_races::check`].
    pub fn lower(&mut self, plan: &Plan, kernels: &emit_plan::KernelTable) -> Result<Program, Diags> {
        let rows: Vec<RowKernel> = kernels.kernels().cloned().collect();
        let options = Options { soc: self.soc, style: self.style, workspace_bytes: self.workspace_bytes };
        let program = lower(plan, &rows, &options, &mut self.table)?;
        capture::check(plan, &program, self.soc)?;
        device_races::check(plan, &program, self.table.kernels(), kernels)?;
        Ok(program)
    }

    /// The kernels of all programs.
    pub fn finish(self) -> Lowered {
        let unfit = self.table.unfit();
        let unfit = unfit.map(|(kernel, rows, reason)| Unfit {
            kernel: kernel.clone(),
            rows,
            reason: reason.to_owned(),
        });
        let unfit = unfit.collect();
        Lowered { kernels: self.table.into_kernels(), unfit }
    }
}

/// Compiles generated kernels where this machine has the device compiler; gives its version, first to `announce`. Without it they travel as
/// source.
///
/// # Errors
/// What the device compiler says of the first kernel it does not take.
pub fn compile_kernels(
    kernels: &mut DeviceKernels,
    soc: &Soc,
    announce: impl FnOnce(&str),
) -> DiagResult<Option<String>> {
    if kernels.kernels.is_empty() {
        return Ok(None);
    }
    let Some(compiler) = DeviceCompiler::find() else { return Ok(None) };
    let compiler = compiler?;
    announce(compiler.version());
    // Kernels are independent: a share of them for each core.
    let num_threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = kernels.kernels.len().div_ceil(num_threads);
    std::thread::scope(|scope| {
        let shares = kernels.kernels.chunks_mut(share);
        let threads: Vec<_> =
            shares.map(|share| scope.spawn(|| compile_all(&compiler, share, soc))).collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| ice!("a compiling thread panicked")));
        joined.collect::<Vec<_>>().into_iter().collect::<DiagResult<()>>()
    })?;
    Ok(Some(compiler.version().to_owned()))
}

fn compile_all(compiler: &DeviceCompiler, kernels: &mut [DeviceKernel], soc: &Soc) -> DiagResult<()> {
    for kernel in kernels {
        kernel.object = compiler.compile(kernel, soc)?;
    }
    Ok(())
}
