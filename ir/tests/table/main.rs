//! Properties of every op, driven by the op table: an op added to the table is tested here without another line.

mod common;
mod text;
mod verify;
