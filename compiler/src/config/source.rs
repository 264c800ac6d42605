//! Values as the user wrote them, with their place.

use super::value::Value;
use std::fmt;
use std::ops::Range;
use titan_ir::Span;
use toml::de::DeValue;

/// A text values are read from: a file, or one override.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// The span of these bytes.
    pub(super) fn span(&self, range: &Range<usize>) -> Span {
        Span::of_range(self.name, self.text, range.start, range.end)
    }
}

/// A value not yet held against a key.
#[derive(Debug, Clone)]
pub(super) struct Raw {
    pub(super) shape: Shape,
    pub(super) range: Range<usize>,
}

/// What was written.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// The word `None` on the command line.
    None,
    Bool(bool),
    Int(i64),
    /// An integer that needs more than 64 bits.
    HugeInt(String),
    Float(f64),
    Str(String),
    List(Vec<Raw>),
    Table,
    Date,
}

impl Raw {
    /// The value of a TOML file.
    pub(super) fn of_toml(value: &DeValue<'_>, range: Range<usize>) -> Self {
        let shape = match value {
            DeValue::String(text) => Shape::Str(text.to_string()),
            DeValue::Boolean(value) => Shape::Bool(*value),
            DeValue::Integer(text) => match i64::from_str_radix(text.as_str(), text.radix()) {
                Ok(value) => Shape::Int(value),
                Err(_) => Shape::HugeInt(text.to_string()),
            },
            DeValue::Float(text) => Shape::Float(text.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Array(items) => {
                Shape::List(items.iter().map(|item| Self::of_toml(item.get_ref(), item.span())).collect())
            }
            DeValue::Table(_) => Shape::Table,
            DeValue::Datetime(_) => Shape::Date,
        };
        Self { shape, range }
    }

    /// The value itself when it is a boolean, a number or a string.
    pub(super) fn scalar(&self) -> Option<Value> {
        match &self.shape {
            Shape::Bool(value) => Some(Value::Bool(*value)),
            Shape::Int(value) => Some(Value::Int(*value)),
            Shape::Float(value) => Some(Value::Float(*value)),
            Shape::Str(value) => Some(Value::Str(value.clone())),
            _ => None,
        }
    }
}

/// What was found, for a message.
impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::None => f.write_str("None"),
            Shape::Bool(value) => write!(f, "the boolean {value}"),
            Shape::Int(value) => write!(f, "the integer {value}"),
            Shape::HugeInt(text) => write!(f, "the integer {text}"),
            Shape::Float(value) => write!(f, "the float {}", Value::Float(*value)),
            Shape::Str(text) => write!(f, "the string {text:?}"),
            Shape::List(_) => f.write_str("a list"),
            Shape::Table => f.write_str("a table"),
            Shape::Date => f.write_str("a date"),
        }
    }
}
