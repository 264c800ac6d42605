//! The Titan compiler: configuration and model to one artifact. `titanc` is this library with the models it ships; a crate with models
//! of its own calls [`cli::main_with`].

pub mod cli;
mod cmd;
pub mod codegen;
pub mod config;
pub mod driver;
pub mod fingerprint;
pub mod model;
pub mod nn;
pub mod report;
pub mod roofline;
pub mod target;
