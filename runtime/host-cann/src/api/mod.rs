//! The functions of ACL. `build.rs` finds every `pub(crate) fn` whose name is in the table.

mod capture;
mod context;
mod copy;
mod device;
mod event;
mod graph;
mod init;
mod kernel;
mod limits;
mod memory;
mod physical;
mod stream;
mod version;

pub(crate) use crate::hccl::exports::*;
pub(crate) use crate::nnopbase::exports::*;
pub(crate) use capture::*;
pub(crate) use context::*;
pub(crate) use copy::*;
pub(crate) use device::*;
pub(crate) use event::*;
pub(crate) use graph::*;
pub(crate) use init::*;
pub(crate) use kernel::*;
pub(crate) use limits::*;
pub(crate) use memory::*;
pub(crate) use physical::*;
pub(crate) use stream::*;
pub(crate) use version::*;
