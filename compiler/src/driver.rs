//! From a configuration to an artifact: resolve the model, trace it, run the passes for every number of ranks, compile the
//! kernels they share, write one file.

mod artifact;
mod device;
mod fit;
mod options;
mod planner;
mod resolve;

pub use artifact::{Built, encode, manifest, write_file};
pub use device::{DevicePlanner, Lowered, Unfit, compile_kernels};
pub use fit::{Change, Limit, cheapest_change};
pub use planner::{Kernels, PassFlags, Planned, Planner, Stopped};
pub use resolve::{ResolvedModel, resolve};

use crate::config::{self, Config, Loaded};
use std::path::PathBuf;
use titan_ir::Diags;

/// Where a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The TOML file.
    pub file: Option<PathBuf>,
    /// `--section.key value` arguments.
    pub overrides: Vec<String>,
}

impl Source {
    /// Reads the configuration.
    ///
    /// # Errors
    /// As [`config::load`].
    pub fn load(&self) -> Loaded {
        config::load(self.file.as_deref(), &self.overrides)
    }

    /// The same with further overrides.
    pub fn with(&self, overrides: &[String]) -> Self {
        let overrides = self.overrides.iter().chain(overrides).cloned().collect();
        Self { file: self.file.clone(), overrides }
    }

    /// The file, given as argument or as override.
    pub fn path(&self) -> Option<PathBuf> {
        self.file.clone().or_else(|| config::config_file(&self.overrides).map(PathBuf::from))
    }

    /// The name of the file without its folder.
    pub fn file_name(&self) -> Option<String> {
        self.path().and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
    }
}

/// Plans for every number of ranks the configuration asks for.
///
/// # Errors
/// What the first plan that cannot be made finds.
pub fn plan_all(
    planner: &mut Planner<'_>,
    config: &Config,
    mut progress: impl FnMut(u64),
) -> Result<Vec<Planned>, Diags> {
    let mut plans = Vec::new();
    for dims in config.planned_dims()? {
        progress(dims.world());
        plans.push(planner.plan(&dims)?);
    }
    Ok(plans)
}
