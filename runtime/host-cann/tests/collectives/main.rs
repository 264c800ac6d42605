//! HCCL through the shared library, among threads and among processes.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod faults;
mod processes;
mod ranks;
mod results;
