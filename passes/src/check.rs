//! Independent checkers: they share no code with the pass they judge.

pub mod buffers;
pub mod collectives;
pub mod gradients;
pub mod spmd;
