//! Models: what a `[model] name` in the TOML may say.

pub mod llama3;
mod registry;

pub use llama3::Llama3;
pub use registry::{AnyModel, Model, ModelArgs, Registry};
pub use titan_ir::artifact::HfName;
pub use titan_ir::{Diag, DiagResult};
