//! The configuration: a torchtitan v0.2.x TOML file and `--section.key value` overrides, read with the names, defaults and
//! meanings of v0.2.2, and `[titan]` for Titan's own keys.
//!
//! [`table`] knows every key; everything else reads it. A key is used, at rest (accepted, of no effect here), only observes
//! (warned about when set), or is refused when it asks for something that changes the training and does not exist yet.

mod batch;
mod choices;
mod fit;
mod listing;
mod lr_schedule;
mod model_args;
mod overrides;
mod parallel_dims;
mod read_toml;
mod rules;
mod schema;
mod source;
mod suggest;
mod support;
mod table;
mod value;
mod values;

pub use batch::Batch;
pub use choices::{
    AcMode, AscendKernels, DecayType, OptimizerName, Precision, ReducePrecision, ReshardPolicy, SelectiveAc,
};
pub use listing::list_keys;
pub use model_args::{ModelArg, ModelArgs};
pub use overrides::{config_file, split_overrides};
pub use parallel_dims::ParallelDims;
pub use schema::{Check, Key, Support};
pub use table::*;
pub use value::{Kind, Value};

pub(crate) use suggest::nearest;

use serde::{Serialize, Serializer};
use source::Source;
use std::path::Path;
use titan_ir::{Diag, Diags, Span};
use values::Values;

/// A configuration and what to warn about.
///
/// # Errors
/// All errors and warnings of the file and the overrides.
pub type Loaded = Result<(Config, Diags), Diags>;

/// Reads `file`, or else the file `--job.config_file` names, or else nothing but defaults; then the overrides.
///
/// # Errors
/// As [`parse`], and `T0400` when the file cannot be read.
pub fn load(file: Option<&Path>, overrides: &[String]) -> Loaded {
    let Some(path) = file.or_else(|| config_file(overrides).map(Path::new)) else {
        return parse("defaults", "", overrides);
    };
    let name = path.display().to_string();
    let text = std::fs::read(path).map_err(|e| e.to_string());
    match text.and_then(|bytes| String::from_utf8(bytes).map_err(|e| e.to_string())) {
        Ok(text) => parse(&name, &text, overrides),
        Err(reason) => {
            let diag = Diag::new("T0400", format!("cannot read the configuration file {name}: {reason}"));
            Err(diag.help("relative paths start at the current folder").into())
        }
    }
}

/// Reads the TOML text `text`, called `name` in messages, then the overrides.
///
/// # Errors
/// Everything wrong with either, in the order of the text, overrides last.
pub fn parse(name: &str, text: &str, overrides: &[String]) -> Loaded {
    let mut values = Values::defaults();
    let mut diags = Diags::default();
    read_toml::read_toml(Source { name, text }, &mut values, &mut diags);
    overrides::read_overrides(overrides, &mut values, &mut diags);
    support::judge(&values, &mut diags);
    rules::apply(&mut values, &mut diags);
    // Overrides keep the order of the arguments.
    diags.0.sort_by_key(|diag| match &diag.span {
        Some(span) if *span.file == *name => (0, span.line, span.column),
        _ => (1, 0, 0),
    });
    if diags.has_errors() { Err(diags) } else { Ok((Config::from_values(values), diags)) }
}

impl Default for Config {
    fn default() -> Self {
        Self::from_values(Values::defaults())
    }
}

impl Config {
    /// Where the key at `path`, such as `training.seq_len`, is set; nothing when it has its default.
    pub fn span(&self, path: &str) -> Option<&Span> {
        self.values().at(path).span.as_ref()
    }

    /// The value of the key at `path`, as it is written.
    pub fn value(&self, path: &str) -> &Value {
        &self.values().at(path).value
    }

    /// `[titan.model_args]`: arguments of the model that replace those of its flavor.
    pub fn model_args(&self) -> &ModelArgs {
        &self.values().model_args
    }

    /// An error about the value of the key at `path`, with its place if the user set it.
    pub fn error(&self, path: &str, code: &'static str, message: impl Into<String>) -> Diag {
        let diag = Diag::new(code, message);
        match self.span(path) {
            Some(span) => diag.span(span.clone()),
            None => diag.note(format!("{path} = {} is the default", self.value(path))),
        }
    }
}

/// Every key of every section in the order of the table, `[titan.model_args]` last. Equal settings give equal text, wherever
/// and however they were set.
impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values().serialize(serializer)
    }
}

#[cfg(test)]
mod tests;
