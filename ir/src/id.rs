//! Dense ids.

use std::fmt;

macro_rules! define_ids {
    ($($(#[$doc:meta])* $name:ident, $prefix:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// The id of an arena's entry `index`.
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 entries"))
            }

            /// The arena index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )* };
}

define_ids! {
    /// A value of a function.
    ValueId, "%";
    /// A module path a message can name, interned in its function.
    LocId, "loc";
    /// A mesh axis, outermost first.
    AxisId, "axis";
}
