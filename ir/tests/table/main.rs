//! Properties of every op, driven by the op table: an op added to the table is tested here without another line.

#![expect(clippy::unwrap_used, reason = "a test stops at the first fault")]

mod common;
mod eval;
mod gradients;
mod lowering;
mod shapes;
mod sharding;
mod text;
mod verify;
