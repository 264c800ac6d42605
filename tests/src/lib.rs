//! Tests of the whole workspace, and what they share.

pub mod decoder;
pub mod run;
pub mod state;
