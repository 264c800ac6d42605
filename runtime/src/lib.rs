//! Runtime.

pub mod kernels;
pub mod pool;
