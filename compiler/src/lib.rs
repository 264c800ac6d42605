//! Compiler.

pub mod codegen;
pub mod config;
