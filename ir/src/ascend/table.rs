//! Constant tables.

use serde::{Deserialize, Serialize};

/// What a constant table holds; the runtime writes it once, at load.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TableFill {
    /// `rows x cols` bytes, 1 above the diagonal, else 0: the mask of causal attention.
    UpperTriangle {
        /// Rows.
        rows: u64,
        /// Columns.
        cols: u64,
    },
    /// f32 `0, 1, 2, ...`.
    Iota {
        /// How many.
        len: u64,
    },
    /// The same f32, as bits, over and over.
    Constant {
        /// Bits of the value.
        bits: u32,
        /// How many.
        len: u64,
    },
}

impl TableFill {
    /// Bytes of the table.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::UpperTriangle { rows, cols } => rows * cols,
            Self::Iota { len } | Self::Constant { len, .. } => len * 4,
        }
    }
}

/// A constant table in the arena.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// First byte.
    pub at: u64,
    /// What it holds.
    pub fill: TableFill,
}
