//! Titan's runtime: loads an artifact and replays its plan. It decides nothing.

pub mod cli;
pub mod comm;
pub mod data;
mod device;
mod diagnose;
pub mod exec;
mod host;
pub mod image;
pub mod interrupt;
pub mod kernels;
mod launch;
mod link;
pub mod load;
pub mod memory;
pub mod metrics;
pub mod outputs;
pub mod placement;
pub mod pool;
mod profile;
mod report;
mod state;
mod team;
pub mod train;
pub mod weights;
