//! The op table: every op, and the rules each must state.

use crate::attrs::{AttrReader, Attrs};
use crate::eval::Tensor;
use crate::id::{AxisId, ValueId};
use crate::kernel::{CollectiveKind, Fragment, Native};
use crate::shard::ShardRule;
use crate::{DiagResult, Func, TensorType, Types, ops};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// What every op says about itself. There are no default bodies: a forgotten rule does not compile.
pub trait OpRules: fmt::Debug {
    /// The mnemonic in the text form.
    fn name(&self) -> &'static str;

    /// Attributes, in printing order.
    fn attrs(&self) -> Attrs;

    /// The op of these attributes.
    ///
    /// # Errors
    /// T0004 for a missing, unknown or ill-typed attribute.
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self>
    where
        Self: Sized;

    /// Element types and dimensions of the results; layouts are left replicate. The only way a node gets its types.
    ///
    /// # Errors
    /// T01xx when the operands do not fit.
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types>;

    /// The cotangents of the operands.
    ///
    /// # Errors
    /// What building the backward nodes finds.
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp>;

    /// Which dimensions of operands and results are one factor, and what sharding a factor means.
    fn shard(&self, ins: &[&TensorType]) -> ShardRule;

    /// The same op for per-rank results of these types: attributes that hold dimensions are cut.
    fn localize(&self, outs: &[TensorType]) -> Op;

    /// How a backend computes it, for operands and results of these (per-rank) types.
    fn lower(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Lowering;

    /// Arithmetic and memory traffic.
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost;

    /// The results in f64, slow and obvious: the oracle. Never rounds; the evaluator rounds if asked.
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]>;

    /// How far an implementation may be from [`OpRules::eval`].
    fn numerics(&self) -> Numerics;

    /// Operands on which the generic tests run, with attributes: at least one, small, with odd sizes.
    fn samples() -> Vec<(Self, Vec<TensorType>)>
    where
        Self: Sized;
}

/// What [`OpRules::vjp`] sees. New nodes go to `func`.
#[derive(Debug)]
pub struct VjpCx<'a> {
    /// Where to build.
    pub func: &'a mut Func,
    /// Operands of the node.
    pub ins: &'a [ValueId],
    /// Results of the node.
    pub outs: &'a [ValueId],
    /// Cotangent of each result, `None` where nothing depends on it. At least one is given.
    pub cts: &'a [Option<ValueId>],
}

/// What a vjp rule answers.
#[derive(Debug)]
pub enum Vjp {
    /// A cotangent per operand; `None` where the result does not depend differentiably on it. A cotangent has its
    /// operand's dimensions, and its element type or f32.
    Grads(SmallVec<[Option<ValueId>; 4]>),
    /// The op cannot be on a path from a weight to the loss.
    NotDifferentiable(&'static str),
}

impl Vjp {
    /// No operand has a gradient, which is right for this op.
    pub fn zero(num_operands: usize) -> Self {
        Self::Grads(std::iter::repeat_n(None, num_operands).collect())
    }

    /// The only operand's cotangent.
    pub fn one(ct: ValueId) -> Self {
        Self::Grads(SmallVec::from_slice(&[Some(ct)]))
    }
}

/// How a backend computes an op.
#[derive(Debug, Clone, PartialEq)]
pub enum Lowering {
    /// Part of a generated kernel.
    Fragment(Fragment),
    /// A kernel of its own.
    Native(Native),
    /// A collective over a mesh axis; dimension 0 is the one gathered or scattered.
    Collective(CollectiveKind, AxisId),
    /// The result is the first bytes of operand 0: nothing runs.
    View,
    /// As [`Lowering::View`]; the step stops if any operand is not finite.
    Guard,
    /// This rank's part of operand 0 along an axis, cut at dimension 0: a copy from a rank-dependent offset.
    RankSlice(AxisId),
    /// Operand 0 followed by zero rows: a copy and a fill.
    Pad,
    /// Already a kernel.
    Launch(Arc<crate::kernel::KernelSpec>),
    /// Gone before this stage.
    None,
}

/// Arithmetic and traffic of an op.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

impl Cost {
    /// `flops_per_element` operations per element of the largest result, every operand read and every result written once.
    pub fn elementwise(flops_per_element: u64, ins: &[&TensorType], outs: &[&TensorType]) -> Self {
        let largest = ins.iter().chain(outs).map(|t| t.num_elements()).max().unwrap_or(0);
        Self::of(flops_per_element * largest, ins, outs)
    }

    /// `flops` operations, every operand read and every result written once.
    pub fn of(flops: u64, ins: &[&TensorType], outs: &[&TensorType]) -> Self {
        Self {
            flops,
            read_bytes: ins.iter().map(|t| t.size_bytes()).sum(),
            write_bytes: outs.iter().map(|t| t.size_bytes()).sum(),
        }
    }
}

/// How far an implementation may be from the f64 value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numerics {
    /// Bitwise, after rounding to the result's element type.
    Exact,
    /// A few roundings.
    Rounding,
    /// Draws numbers.
    Random,
}

/// Makes the `Op` enum, its names, conversions and text constructor.
macro_rules! op_table {
    ($($(#[$doc:meta])* $name:literal => $module:ident :: $ty:ident,)*) => {
        /// An operation.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Op { $($(#[$doc])* $ty(ops::$module::$ty),)* }

        impl Op {
            /// Every mnemonic, in table order.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The rules of this op.
            pub fn rules(&self) -> &dyn DynRules {
                match self { $(Self::$ty(op) => op,)* }
            }

            /// The op of a mnemonic and attributes.
            ///
            /// # Errors
            /// T0003 for an unknown mnemonic, T0004 for a bad attribute.
            pub fn from_text(name: &str, attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
                match name {
                    $($name => Ok(Self::$ty(<ops::$module::$ty as OpRules>::from_attrs(attrs)?)),)*
                    _ => Err(crate::Diag::new("T0003", format!("unknown op `{name}`"))),
                }
            }

            /// Sample operands of every op, for tests driven by the table.
            pub fn samples() -> Vec<(Self, Vec<TensorType>)> {
                let mut all = Vec::new();
                $(all.extend(<ops::$module::$ty as OpRules>::samples().into_iter().map(|(op, tys)| (Self::$ty(op), tys)));)*
                all
            }
        }

        $(impl From<ops::$module::$ty> for Op {
            fn from(op: ops::$module::$ty) -> Self { Self::$ty(op) }
        })*
    };
}

op_table! {
    // Values from nothing.
    /// A tensor of one repeated value.
    "full" => full::Full,
    // Elementwise.
    /// Sum.
    "add" => binary::Add,
    /// Difference.
    "sub" => binary::Sub,
    /// Product.
    "mul" => binary::Mul,
    /// Quotient.
    "div" => binary::Div,
    /// The smaller.
    "min" => binary::Min,
    /// The larger.
    "max" => binary::Max,
    /// Negation.
    "neg" => unary::Neg,
    /// Square root.
    "sqrt" => unary::Sqrt,
    /// `x sigmoid(x)`.
    "silu" => silu::Silu,
    /// Gradient of `silu`.
    "silu_grad" => silu::SiluGrad,
    /// Change of element type.
    "cast" => cast::Cast,
    // Shape.
    /// The same elements in other dimensions.
    "reshape" => reshape::Reshape,
    /// Repetition along new leading dimensions.
    "broadcast" => broadcast::Broadcast,
    /// Sum over leading or over all dimensions.
    "reduce_sum" => reduce_sum::ReduceSum,
    /// One element of a table.
    "index" => index::Index,
    // Model.
    /// Contraction of two tensors.
    "einsum" => einsum::Einsum,
    /// Rows of a table.
    "embedding" => embedding::Embedding,
    /// Gradient of `embedding`.
    "embedding_grad" => embedding::EmbeddingGrad,
    /// Root mean square normalisation.
    "rms_norm" => rms_norm::RmsNorm,
    /// Gradient of `rms_norm`.
    "rms_norm_grad" => rms_norm::RmsNormGrad,
    /// Rotary position embedding.
    "rope" => rope::Rope,
    /// Scaled dot-product attention.
    "attention" => attention::Attention,
    /// Gradient of `attention`.
    "attention_grad" => attention::AttentionGrad,
    /// Negative log likelihood of labels.
    "cross_entropy" => cross_entropy::CrossEntropy,
    /// Gradient of `cross_entropy`.
    "cross_entropy_grad" => cross_entropy::CrossEntropyGrad,
    // Training.
    /// One AdamW (or Adam) update.
    "adamw" => adamw::AdamW,
    /// Stops the step when a value is not finite.
    "guard" => guard::Guard,
    // Distribution.
    /// Change of layout.
    "reshard" => reshard::Reshard,
    /// Gather along dimension 0.
    "all_gather" => collective::AllGather,
    /// Reduction, each rank keeping its part of dimension 0.
    "reduce_scatter" => collective::ReduceScatter,
    /// Reduction on every rank.
    "all_reduce" => collective::AllReduce,
    /// This rank's part of dimension 0.
    "rank_slice" => collective::RankSlice,
    /// Zero rows appended.
    "pad" => pad::Pad,
    /// Leading rows.
    "take_rows" => pad::TakeRows,
    // After fusion.
    /// A kernel.
    "launch" => launch::Launch,
}

/// [`OpRules`] without its constructors, for dynamic use through [`Op::rules`].
pub trait DynRules: fmt::Debug {
    /// See [`OpRules::name`].
    fn name(&self) -> &'static str;
    /// See [`OpRules::attrs`].
    fn attrs(&self) -> Attrs;
    /// See [`OpRules::infer`].
    ///
    /// # Errors
    /// T01xx when the operands do not fit.
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types>;
    /// See [`OpRules::vjp`].
    ///
    /// # Errors
    /// What building the backward nodes finds.
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp>;
    /// See [`OpRules::shard`].
    fn shard(&self, ins: &[&TensorType]) -> ShardRule;
    /// See [`OpRules::localize`].
    fn localize(&self, outs: &[TensorType]) -> Op;
    /// See [`OpRules::lower`].
    fn lower(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Lowering;
    /// See [`OpRules::cost`].
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost;
    /// See [`OpRules::eval`].
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]>;
    /// See [`OpRules::numerics`].
    fn numerics(&self) -> Numerics;
}

impl<T: OpRules> DynRules for T {
    fn name(&self) -> &'static str {
        OpRules::name(self)
    }
    fn attrs(&self) -> Attrs {
        OpRules::attrs(self)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        OpRules::infer(self, ins)
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        OpRules::vjp(self, cx)
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        OpRules::shard(self, ins)
    }
    fn localize(&self, outs: &[TensorType]) -> Op {
        OpRules::localize(self, outs)
    }
    fn lower(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Lowering {
        OpRules::lower(self, ins, outs)
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        OpRules::cost(self, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        OpRules::eval(self, ins, outs)
    }
    fn numerics(&self) -> Numerics {
        OpRules::numerics(self)
    }
}
