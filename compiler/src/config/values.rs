//! The value of every key and where it was set.

use super::model_args::ModelArgs;
use super::table::KEYS;
use super::value::{KeyType, Value};
use serde::ser::{Serialize, SerializeMap, Serializer};
use titan_ir::{Span, ice};

/// A value and the place that set it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) value: Value,
    /// Nothing for a default.
    pub(super) span: Option<Span>,
}

/// All settings.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Values {
    /// One per row of [`KEYS`], in its order.
    settings: Vec<Setting>,
    pub(super) model_args: ModelArgs,
}

impl Values {
    /// All defaults.
    pub(super) fn defaults() -> Self {
        Self {
            settings: KEYS.iter().map(|key| Setting { value: (key.default)(), span: None }).collect(),
            model_args: ModelArgs::default(),
        }
    }

    pub(super) fn set(&mut self, key_index: usize, value: Value, span: Span) {
        self.settings[key_index] = Setting { value, span: Some(span) };
    }

    pub(super) fn get(&self, key_index: usize) -> &Setting {
        &self.settings[key_index]
    }

    pub(super) fn get_mut(&mut self, key_index: usize) -> &mut Setting {
        &mut self.settings[key_index]
    }

    /// The setting of the key at `path`, which the table must have.
    pub(super) fn at(&self, path: &str) -> &Setting {
        match key_index(path) {
            Some(index) => self.get(index),
            None => ice!("the configuration table has no key {path}"),
        }
    }

    /// The value at `path` as its Rust type.
    pub(super) fn read<T: KeyType>(&self, path: &str) -> T {
        let value = &self.at(path).value;
        match T::read(value) {
            Some(value) => value,
            None => ice!("{path} holds {value}, which is not of its type"),
        }
    }
}

/// The row of the key at `path`.
pub(super) fn key_index(path: &str) -> Option<usize> {
    KEYS.iter().position(|key| key.path == path)
}

/// Nested maps in the order of the table, whatever map type serde_json was built with.
impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Section { values: self, prefix: "" }.serialize(serializer)
    }
}

/// The keys and sections below a prefix, which is empty or ends in a dot.
struct Section<'a> {
    values: &'a Values,
    prefix: &'static str,
}

impl Serialize for Section<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut last_section = "";
        for (key, setting) in KEYS.iter().zip(&self.values.settings) {
            let Some(rest) = key.path.strip_prefix(self.prefix) else { continue };
            match rest.split_once('.') {
                None => map.serialize_entry(rest, &setting.value)?,
                Some((section, _)) if section != last_section => {
                    last_section = section;
                    let prefix = &key.path[..self.prefix.len() + section.len() + 1];
                    map.serialize_entry(section, &Section { values: self.values, prefix })?;
                }
                Some(_) => {}
            }
        }
        if self.prefix == "titan." {
            map.serialize_entry("model_args", &self.values.model_args)?;
        }
        map.end()
    }
}
