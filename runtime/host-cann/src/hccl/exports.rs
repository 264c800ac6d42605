//! The functions of HCCL.

pub(crate) use super::all_to_all::{HcclAlltoAll, HcclAlltoAllV};
pub(crate) use super::collectives::*;
pub(crate) use super::initialization::*;
pub(crate) use super::point_to_point::*;
pub(crate) use super::queries::*;
