//! Programs for Ascend devices.

pub mod kernel;
