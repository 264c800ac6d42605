//! The `titanc` command with the models of this crate.

use std::process::ExitCode;
use titanc::model::Registry;

fn main() -> ExitCode {
    titanc::cli::main_with(Registry::builtin())
}
