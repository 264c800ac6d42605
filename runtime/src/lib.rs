//! Runtime.

pub mod data;
pub mod kernels;
pub mod pool;
pub mod weights;
