//! The hand-written kernels against slow, obvious f64 loops.

mod attention;
mod contract;
mod scatter;
mod support;
