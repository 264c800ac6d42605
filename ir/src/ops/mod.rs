//! One file per op, or per op and its gradient.

pub mod binary;
