//! Tests of the whole front end.

mod diagnostics;
mod fuzz;
mod mesh;
mod overrides;
mod presets;
mod table;

use crate::config::{Config, Diags, parse};

/// The configuration of a text that must be accepted without a warning, unless of data that is not given.
fn accepted(text: &str) -> Config {
    let (config, warnings) = parse("train.toml", text, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(warnings.0.iter().all(|diag| diag.code == "T0413"), "{warnings}");
    config
}

/// The findings of a text that must not be accepted.
fn refused(text: &str) -> Diags {
    match parse("train.toml", text, &[]) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(diags) => diags,
    }
}

/// Separate arguments of a command line without quotes.
fn args(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_string).collect()
}

/// The codes of findings.
fn codes(diags: &Diags) -> Vec<&'static str> {
    diags.0.iter().map(|diag| diag.code).collect()
}
