//! Ranges of memory.

use std::ffi::c_void;
use std::fmt;

/// Bytes from an address on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Address of the first.
    pub(crate) start: usize,
    /// How many.
    pub(crate) len: usize,
}

impl Span {
    /// `len` bytes from `pointer` on.
    pub(crate) fn new(pointer: *const c_void, len: usize) -> Self {
        Self { start: pointer as usize, len }
    }

    /// The address after the last.
    pub(crate) fn end(self) -> usize {
        self.start.saturating_add(self.len)
    }

    /// Whether some byte is in both.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Whether every byte of `other` is in this.
    pub(crate) fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}+{}", self.start, self.len)
    }
}
