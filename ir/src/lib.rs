//! The language of Titan: types, ops, text form, verifier, reference evaluator, and the plan and artifact formats.

pub mod codes;
pub mod diag;
pub mod dtype;
pub mod kernel;

pub use diag::{Diag, DiagResult, Diags, Severity, Span};
pub use dtype::DType;
