//! The generated kernels of configurations.

use std::path::Path;
use titan_ir::ascend::{DeviceKernel, Soc};
use titan_ir::kernel::{Access, Cols, RowKernel};
use titan_ir::plan::{Action, Domain};
use titanc::codegen::ascend::kernel::{Unfit, emit, split};
use titanc::driver::{PassFlags, Planner, Source, resolve};
use titanc::model::Registry;

/// A kernel and the rows, or elements, of its domain.
pub type Launch = (RowKernel, u64);

/// What a plan for `ranks` ranks launches, each once, cut to one reduction axis each.
///
/// # Errors
/// Why there is no plan.
pub fn launches(toml: &Path, ranks: u64) -> Result<Vec<Launch>, String> {
    let source = Source { file: Some(toml.to_path_buf()), overrides: vec![] };
    let (config, _) = source.load().map_err(|e| format!("{e:?}"))?;
    let registry = Registry::builtin();
    let model = resolve(&registry, &config).map_err(|e| format!("{e:?}"))?;
    let dims = config.parallel_dims(ranks).map_err(|e| format!("{e:?}"))?;
    let flags = PassFlags::default();
    let mut planner = Planner::new(&config, &model, &flags);
    let planned = planner.plan(&dims).map_err(|e| format!("{e:?}"))?;
    let kernels = planner.kernels();
    let mut launches: Vec<Launch> = Vec::new();
    for instr in planned.plan.segments.iter().flat_map(|s| &s.instrs) {
        let (kernel, rows) = match &instr.action {
            Action::Launch { kernel, domain: Domain::Rows { rows, .. }, .. } => (*kernel, *rows),
            Action::Launch { kernel, domain: Domain::Flat { len, .. }, .. } => (*kernel, *len),
            _ => continue,
        };
        for piece in split(&kernels[kernel as usize]) {
            let launch = (piece.kernel, rows);
            if !launches.contains(&launch) {
                launches.push(launch);
            }
        }
    }
    Ok(launches)
}

/// The smallest domain on which a kernel does all it does on a large one.
pub fn small_rows(kernel: &RowKernel, rows: u64) -> u64 {
    let small = match kernel.cols {
        Cols::Flat { chunk } if kernel.has_row_reduction() => rows % chunk + 2 * chunk,
        Cols::Flat { .. } => rows % 4096 + 4096,
        Cols::Static(_) => {
            let tables = kernel.inputs.iter().map(|i| match i.access {
                Access::Table { row_div, row_mod, .. } => row_div * row_mod,
                _ => 1,
            });
            let period = tables.chain(kernel.block_rows()).filter(|p| rows.is_multiple_of(*p)).max();
            let period = period.unwrap_or(1);
            if period == 1 { 8 } else { 2 * period }
        }
    };
    small.min(rows)
}

/// Kernels for a device, and those that are not, with the reason.
pub fn emit_all(launches: &[Launch], soc: &Soc) -> (Vec<DeviceKernel>, Vec<(Launch, Unfit)>) {
    let (mut fit, mut unfit) = (Vec::new(), Vec::new());
    for launch in launches {
        match emit(&launch.0, launch.1, soc) {
            Ok(kernel) => fit.push(kernel),
            Err(reason) => unfit.push((launch.clone(), reason)),
        }
    }
    (fit, unfit)
}
