//! Titan's runtime: loads an artifact and replays its plan. It decides nothing.

pub mod cli;
pub mod comm;
pub mod data;
pub mod diagnose;
pub mod exec;
mod host;
pub mod image;
pub mod interrupt;
pub mod kernels;
pub mod load;
pub mod memory;
pub mod metrics;
pub mod outputs;
pub mod placement;
pub mod pool;
pub mod profile;
pub mod state;
pub mod train;
pub mod weights;
