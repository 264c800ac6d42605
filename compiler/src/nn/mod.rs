//! The module API: what a model definition is written in. Running one traces it.

mod layers;
mod tensor;
mod tracer;

pub use layers::{Embedding, Linear, RmsNorm, Rope, attention, cross_entropy};
pub use tensor::Tensor;
pub use titan_ir::{DType, Init, RopeScaling};
pub use tracer::{Scope, TraceOptions, Traced, trace};
