//! Collectives.

pub(crate) mod exports;
