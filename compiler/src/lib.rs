//! Compiler.

pub mod codegen;
pub mod config;
pub mod model;
pub mod nn;
