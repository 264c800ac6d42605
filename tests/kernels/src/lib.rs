//! Generated kernels against their meaning: what a kernel may differ by, operands to try it on, and ways to run it.

pub mod bound;
pub mod operands;
pub mod plans;
pub mod random;
pub mod run;
