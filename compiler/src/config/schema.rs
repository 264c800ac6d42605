//! What the table says of a key, and the macro the table is written with.

use super::value::{Kind, Value};

/// One key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// Section and name, with a dot between.
    pub path: &'static str,
    /// The section, such as `training.dataloader`.
    pub section: &'static str,
    /// The name inside the section.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// Whether `None` is a value.
    pub optional: bool,
    /// The value when nothing sets the key.
    pub default: fn() -> Value,
    /// Which values of the type are accepted.
    pub check: Check,
    /// What happens to it.
    pub support: Support,
    /// One line of documentation.
    pub doc: &'static str,
}

/// Which values of a type are accepted.
#[derive(Debug, Clone, Copy)]
pub enum Check {
    /// All.
    Any,
    /// Integers from here on.
    Min(i64),
    /// Integers from here to there.
    Within(i64, i64),
    /// -1, or integers from here on.
    MinusOneOr(i64),
    /// Floats above zero, infinity included.
    Positive,
    /// Finite floats from zero on.
    NotNegative,
    /// Floats from zero to one.
    Fraction,
    /// Floats from zero to one, without one.
    BelowOne,
    /// One of these strings, or a list of them.
    OneOf(&'static [&'static str]),
    /// One of these names, in any case.
    NameOf(&'static [&'static str]),
    /// Strings the function accepts, which are described by the text.
    Text(fn(&str) -> bool, &'static str),
}

/// What happens to a key. Features are named in the words of a message; advice says what to do instead.
#[derive(Debug, Clone, Copy)]
pub enum Support {
    /// It does what torchtitan says.
    Used,
    /// Every value is accepted: it makes no difference here.
    AtRest,
    /// Another value than the default asks for a feature that only observes: a warning. (feature, advice)
    Observes(&'static str, &'static str),
    /// Another value than the default asks for a feature that changes the training: an error. (feature, advice)
    Refused(&'static str, &'static str),
    /// This string asks for a feature that changes the training: an error. (value, feature, advice)
    RefusedValue(&'static str, &'static str, &'static str),
}

/// Defines a struct per section, [`Config`](super::Config) with all of them, and the constant `KEYS`, from one table. A row is
/// `name: Type = default, check, support, "documentation";`.
macro_rules! sections {
    ($($(#[$meta:meta])* $field:ident: $Section:ident = $path:literal {
        $($key:ident: $ty:ty = $default:expr, $check:expr, $support:expr, $doc:literal;)*
    })*) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, PartialEq)]
            pub struct $Section { $(#[doc = $doc] pub $key: $ty,)* }

            impl $Section {
                fn read(values: &Values) -> Self {
                    Self { $($key: values.read(concat!($path, ".", stringify!($key))),)* }
                }
            }
        )*

        /// The resolved configuration: every key of every section.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Config {
            $($(#[$meta])* pub $field: $Section,)*
            values: Values,
        }

        impl Config {
            /// Reads the sections from checked values.
            pub(super) fn from_values(values: Values) -> Self {
                Self { $($field: $Section::read(&values),)* values }
            }

            /// The values the sections were read from.
            pub(super) fn values(&self) -> &Values {
                &self.values
            }
        }

        /// Every key, section after section.
        pub const KEYS: &[Key] = &[$($(Key {
            path: concat!($path, ".", stringify!($key)),
            section: $path,
            name: stringify!($key),
            kind: <$ty as KeyType>::KIND,
            optional: <$ty as KeyType>::OPTIONAL,
            default: || Value::from($default),
            check: $check,
            support: $support,
            doc: $doc,
        },)*)*];
    };
}
pub(super) use sections;
