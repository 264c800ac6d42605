//! The hand-written kernels against slow, obvious f64 loops.

mod contract;
mod support;
