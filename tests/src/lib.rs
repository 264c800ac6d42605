//! Tests of the whole workspace, and what they share.

pub mod ascend;
pub mod decoder;
pub mod programs;
pub mod run;
pub mod state;
pub mod tensors;
