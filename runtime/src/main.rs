//! `titan-run ARTIFACT`: trains what `titanc build` compiled.

use clap::Parser;
use std::process::ExitCode;
use titan_run::cli::Options;
use titan_run::train;

fn main() -> ExitCode {
    let options = Options::parse();
    match train::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(diag) => {
            eprintln!("{diag}");
            ExitCode::FAILURE
        }
    }
}
