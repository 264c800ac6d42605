//! The command as a user meets it: arguments in, text, files and exit codes out.
#![expect(clippy::unwrap_used, reason = "tests")]

mod ascend;
mod build;
mod device;
mod inspect;
mod mistakes;
mod passes;
mod support;
mod usage;
