//! A compiler for a model of one's own: `titanc` with one more entry in its registry.

mod pocket;

use pocket::Pocket;
use std::process::ExitCode;
use titanc::model::Registry;

fn main() -> ExitCode {
    titanc::cli::main_with(Registry::builtin().with::<Pocket>())
}
