//! The generated kernels of configurations.

use std::path::Path;
use titan_ir::ascend::{DeviceKernel, Soc};
use titan_ir::kernel::{Access, Cols, RowKernel};
use titanc::driver::{Lowered, PassFlags, Planner, Source, resolve};
use titanc::model::Registry;
use titanc::target::Target;

/// Elements of a domain that is still small.
const MAX_ELEMENTS: u64 = 1 << 21;

/// What programs for these numbers of ranks launch, and what of their kernels goes to operators.
///
/// # Errors
/// Why there is no program.
pub fn kernels(toml: &Path, soc: &'static Soc, ranks: &[u64]) -> Result<Lowered, String> {
    let source = Source { file: Some(toml.to_path_buf()), overrides: vec![] };
    let (config, _) = source.load().map_err(|e| format!("{e:?}"))?;
    let registry = Registry::builtin();
    let model = resolve(&registry, &config).map_err(|e| format!("{e:?}"))?;
    let flags = PassFlags::default();
    let mut planner = Planner::new(&config, &model, Target::Ascend(soc), &flags);
    for &ranks in ranks {
        let dims = config.parallel_dims(ranks).map_err(|e| format!("{e:?}"))?;
        planner.plan(&dims).map_err(|e| format!("{e:?}"))?;
    }
    Ok(planner.into_kernels().lowered)
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

/// Those kernels on small domains, each once, but for those that have none.
pub fn small(kernels: &[DeviceKernel]) -> Vec<(RowKernel, u64)> {
    let mut small: Vec<(RowKernel, u64)> = Vec::new();
    for kernel in kernels {
        let domain = (kernel.kernel.clone(), small_rows(&kernel.kernel, kernel.rows));
        let num_elements = match kernel.kernel.cols {
            Cols::Static(cols) => domain.1 * cols,
            Cols::Flat { .. } => domain.1,
        };
        if num_elements <= MAX_ELEMENTS && !small.contains(&domain) {
            small.push(domain);
        }
    }
    small
}
