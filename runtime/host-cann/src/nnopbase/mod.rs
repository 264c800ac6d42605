//! Descriptors and executors of operators.

pub(crate) mod exports;
