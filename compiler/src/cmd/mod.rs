//! The commands of `titanc`, one file each.

pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod explain;
pub(crate) mod inspect;
pub(crate) mod keys;
pub(crate) mod opt;

mod prepare;
