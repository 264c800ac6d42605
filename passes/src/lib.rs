//! Passes: module to module. Every optimisation of Titan is one, every user-guarding proof a check.
//!
//! [`pipeline`] lists them in order with reasons; [`registry`] names them for filetests and `titanc opt`.

pub mod check;
pub mod manager;
pub mod pass;
pub mod pipeline;
pub mod registry;

// Graph: global shapes.
pub mod accumulate;
pub mod autodiff;
pub mod optimizer;
pub mod simplify;

// Sharded: layouts.
pub mod insert_reshard;
mod layout_choice;
pub mod propagate;

// Local: per-rank shapes.
pub mod bucket_collectives;
pub mod collectives;
pub mod localize;
mod padding;
pub mod prefetch;
pub mod remat;
mod reshard_steps;

// Kernels and plan.
pub mod emit_plan;
pub mod fuse;
pub mod place;
pub mod schedule;
