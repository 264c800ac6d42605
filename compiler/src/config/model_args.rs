//! `[titan.model_args]`: arguments of the model, by the names of the model's own code.

use super::value::Value;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use titan_ir::Span;

/// The section `[titan.model_args]`.
pub(super) const SECTION: &str = "titan.model_args";

/// One argument. The model knows whether its name and value make sense.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelArg {
    /// A boolean, a number or a string.
    pub value: Value,
    /// Where it is set.
    pub span: Span,
}

/// Arguments that replace those of the flavor, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelArgs(BTreeMap<String, ModelArg>);

impl ModelArgs {
    /// The argument of that name.
    pub fn get(&self, name: &str) -> Option<&ModelArg> {
        self.0.get(name)
    }

    /// All arguments, by name in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ModelArg)> {
        self.0.iter().map(|(name, arg)| (name.as_str(), arg))
    }

    pub(super) fn set(&mut self, name: &str, arg: ModelArg) {
        self.0.insert(name.to_string(), arg);
    }
}

impl Serialize for ModelArgs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, arg) in self.iter() {
            map.serialize_entry(name, &arg.value)?;
        }
        map.end()
    }
}
