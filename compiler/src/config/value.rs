//! Values a key can take, and the Rust types they are read as.

use serde::{Serialize, Serializer};
use std::fmt;

/// A value of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing: the rest of an optional key.
    None,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(String),
    /// A list.
    List(Vec<Value>),
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Self::None
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Str(value.to_string())
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(values: [T; N]) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

/// The value as it is written in TOML.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => f.write_str(&float_text(*value)),
            Self::Str(value) => write!(f, "{value:?}"),
            Self::List(values) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A float as a person writes it: `0.1`, `3e-4`.
fn float_text(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || !value.is_finite() || (1e-3..1e6).contains(&magnitude) {
        format!("{value:?}")
    } else {
        format!("{value:e}")
    }
}

/// Non-finite floats become the strings `inf`, `-inf` and `NaN`, which JSON has no numbers for.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_none(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) if value.is_finite() => serializer.serialize_f64(*value),
            Self::Float(value) => serializer.collect_str(value),
            Self::Str(value) => serializer.serialize_str(value),
            Self::List(values) => values.serialize(serializer),
        }
    }
}

/// The type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A boolean.
    Bool,
    /// An integer of either sign.
    Int,
    /// An integer that is not negative.
    Count,
    /// A float; an integer is accepted for it.
    Float,
    /// A string.
    Str,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list.
    List(&'static Kind),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("a boolean"),
            Self::Int | Self::Count => f.write_str("an integer"),
            Self::Float => f.write_str("a float"),
            Self::Str | Self::Choice(_) => f.write_str("a string"),
            Self::List(Kind::List(_)) => f.write_str("a list of lists of strings"),
            Self::List(Kind::Count | Kind::Int) => f.write_str("a list of integers"),
            Self::List(_) => f.write_str("a list of strings"),
        }
    }
}

/// A Rust type a key is read as.
pub(super) trait KeyType: Sized {
    /// Its type in the file.
    const KIND: Kind;
    /// Whether `None` is a value of it.
    const OPTIONAL: bool = false;
    /// The value, or nothing when it is not one of [`Self::KIND`].
    fn read(value: &Value) -> Option<Self>;
}

impl KeyType for bool {
    const KIND: Kind = Kind::Bool;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Bool(value) = value { Some(*value) } else { None }
    }
}

impl KeyType for i64 {
    const KIND: Kind = Kind::Int;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Int(value) = value { Some(*value) } else { None }
    }
}

impl KeyType for u64 {
    const KIND: Kind = Kind::Count;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Int(value) = value { u64::try_from(*value).ok() } else { None }
    }
}

impl KeyType for f64 {
    const KIND: Kind = Kind::Float;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Float(value) = value { Some(*value) } else { None }
    }
}

impl KeyType for String {
    const KIND: Kind = Kind::Str;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Str(value) = value { Some(value.clone()) } else { None }
    }
}

impl<T: KeyType> KeyType for Vec<T> {
    const KIND: Kind = Kind::List(&T::KIND);
    fn read(value: &Value) -> Option<Self> {
        if let Value::List(values) = value { values.iter().map(T::read).collect() } else { None }
    }
}

impl<T: KeyType> KeyType for Option<T> {
    const KIND: Kind = T::KIND;
    const OPTIONAL: bool = true;
    fn read(value: &Value) -> Option<Self> {
        if *value == Value::None { Some(None) } else { T::read(value).map(Some) }
    }
}
