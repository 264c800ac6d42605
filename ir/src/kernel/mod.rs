//! Target-neutral kernels: what a backend implements. Ops lower to these; backends never see an op.

pub mod eval;
pub mod fragment;
pub mod native;
pub mod row;
pub mod signature;
pub mod text;
pub mod workspace;

pub use fragment::{Fragment, FragmentBuilder};
pub use native::{Attention, CollectiveKind, Contract, Native, ReduceKind, ScatterAdd};
pub use row::{Access, BinaryFn, Cols, Expr, ExprId, Input, Output, RowKernel, Store, UnaryFn};
pub use workspace::Workspace;

use serde::{Deserialize, Serialize};

/// A kernel: generated or native.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KernelSpec {
    /// Generated from a loop nest.
    Row(RowKernel),
    /// Written by hand or by the vendor.
    Native(Native),
}
