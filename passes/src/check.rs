//! Independent checkers: they share no code with the pass they judge.

pub mod gradients;
pub mod spmd;
