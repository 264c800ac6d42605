//! The functions of ACL. `build.rs` finds every `pub(crate) fn` whose name is in the table.

mod version;

pub(crate) use crate::hccl::exports::*;
pub(crate) use crate::nnopbase::exports::*;
pub(crate) use version::*;
