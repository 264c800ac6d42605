//! The language of Titan: types, ops, text form, verifier, reference evaluator, and the plan and artifact formats.

pub mod artifact;
pub mod ascend;
pub mod attrs;
pub mod codes;
pub mod diag;
pub mod dtype;
pub mod eval;
mod fill;
pub mod func;
pub mod id;
pub mod init;
pub mod kernel;
pub mod mesh;
pub mod op;
pub mod ops;
pub mod plan;
pub mod random;
pub mod shard;
pub mod text;
pub mod types;
pub mod verify;

pub use diag::{Diag, DiagResult, Diags, Severity, Span};
pub use dtype::DType;
pub use eval::{EvalMode, Tensor};
pub use func::{Func, FuncResult, Module, Node, Param, Phase, ResultKind, Role, Stage, Values};
pub use id::{AxisId, LocId, ValueId};
pub use init::{Decay, Init, LrSchedule, RopeScaling};
pub use mesh::{Axis, Layout, Mesh, Placement};
pub use op::{Cost, Lowering, Numerics, Op, OpRules, Vjp, VjpCx};
pub use plan::Plan;
pub use types::{Dims, TensorType, Types};
