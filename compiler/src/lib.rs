//! Compiler.

pub mod config;
