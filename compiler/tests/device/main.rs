//! Programs for Ascend devices: what the checkers of a build find in mutants of a real one.
#![expect(clippy::unwrap_used, reason = "tests")]

mod mutants;
mod sample;
