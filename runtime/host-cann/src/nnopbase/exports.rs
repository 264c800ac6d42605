//! The functions of nnopbase.

pub(crate) use super::addresses::*;
pub(crate) use super::arrays::*;
pub(crate) use super::executors::*;
pub(crate) use super::scalars::*;
pub(crate) use super::tensor_lists::*;
pub(crate) use super::tensors::*;
