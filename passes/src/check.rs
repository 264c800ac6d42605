//! Independent checkers: they share no code with the pass they judge.

pub mod buffers;
pub mod capture;
pub mod collectives;
mod device;
pub mod device_races;
pub mod gradients;
pub mod spmd;
