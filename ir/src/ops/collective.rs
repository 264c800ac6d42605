//! Communication along a mesh axis, on per-rank tensors.
//!
//! A gather, reduce-scatter or all-reduce takes any number of tensors of one element type and gives as many: the ranks meet once for
//! all of them, and each is treated alone (result `i` is that of operand `i`). A plan has one collective with a part per tensor.
//!
//! [`OpRules::eval`] gives what rank 0 gets when all ranks hold the same operand; the evaluator of ranks knows better.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::{CollectiveKind, ReduceKind};
use crate::ops::util::{
    AFTER_AUTODIFF, letters, map, operands, tensor, want_dtype, want_float, want_not_scalar,
};
use crate::shard::{Factors, ShardRule, letter};
use crate::{
    AxisId, Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx,
};
use smallvec::SmallVec;

/// The ranks' operands, one after the other along dimension 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllGather {
    /// Mesh axis.
    pub axis: AxisId,
    /// Ranks along it.
    pub ranks: u64,
}

/// The reduction of the ranks' operands, of which each rank gets its part of dimension 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReduceScatter {
    /// Mesh axis.
    pub axis: AxisId,
    /// Ranks along it.
    pub ranks: u64,
    /// How values combine.
    pub reduce: ReduceKind,
}

/// The reduction of the ranks' operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllReduce {
    /// Mesh axis.
    pub axis: AxisId,
    /// Ranks along it.
    pub ranks: u64,
    /// How values combine.
    pub reduce: ReduceKind,
}

/// The rank's part of dimension 0: `ceil(n / ranks)` rows, zero rows where there are no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankSlice {
    /// Mesh axis.
    pub axis: AxisId,
    /// Ranks along it.
    pub ranks: u64,
}

/// Shards of the operands mean nothing here: all factors are replicated.
fn closed_rule(ins: &[&TensorType]) -> ShardRule {
    let tensors: Vec<Factors> = ins.iter().map(|ty| letters(ty.rank())).collect();
    let rank = ins.iter().map(|ty| ty.rank()).max().unwrap_or(0);
    let mut rule = ShardRule::pointwise(rank, 0);
    rule.replicated = (0..rank).map(letter).collect();
    ShardRule { ins: tensors.clone(), outs: tensors, ..rule }
}

/// Checks that there is one tensor, or where `is_many` several of one element type.
fn check_operands(name: &str, is_many: bool, ins: &[&TensorType]) -> DiagResult<()> {
    if !is_many {
        return operands::<1>(name, ins).map(|_| ());
    }
    let Some((first, rest)) = ins.split_first() else {
        return Err(Diag::new("T0101", format!("`{name}` takes 1 operand or more, got 0")));
    };
    rest.iter().try_for_each(|x| want_dtype(name, "every operand", x, first.dtype))
}

fn check_ranks(name: &str, ranks: u64) -> DiagResult<()> {
    if ranks > 0 {
        return Ok(());
    }
    Err(Diag::new("T0105", format!("`{name}` over 0 ranks, expected at least 1")))
}

/// `x` with dimension 0 set to `rows`.
fn with_rows(x: &TensorType, rows: u64) -> TensorType {
    let mut ty = TensorType::new(x.dtype, &x.dims);
    ty.dims[0] = rows;
    ty
}

impl ReduceKind {
    /// The reduction of two values.
    pub fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Max if a.is_nan() || a > b => a,
            Self::Max => b,
        }
    }

    /// The reduction of `ranks` copies of a value.
    fn of_copies(self, x: f64, ranks: u64) -> f64 {
        match self {
            Self::Sum => x * ranks as f64,
            Self::Max => x,
        }
    }
}

fn sample(dims: &[u64]) -> Vec<TensorType> {
    vec![TensorType::new(DType::F32, dims)]
}

macro_rules! collective {
    ($($ty:ident, $name:literal { $($reduce:ident)? }, $is_many:literal, $lower:expr, $infer:expr, $eval:expr, $sample:expr, $numerics:ident;)*) => { $(
        impl OpRules for $ty {
            fn name(&self) -> &'static str {
                $name
            }
            fn attrs(&self) -> Attrs {
                vec![
                    ("axis", Attr::Axis(self.axis)),
                    ("ranks", Attr::Int(self.ranks as i64)),
                    $((stringify!($reduce), Attr::Reduce(self.$reduce)),)?
                ]
            }
            fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
                let op = Self {
                    axis: attrs.axis("axis")?,
                    ranks: attrs.uint("ranks")?,
                    $($reduce: attrs.reduce(stringify!($reduce))?,)?
                };
                attrs.finish().map(|()| op)
            }
            fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
                check_operands($name, $is_many, ins)?;
                check_ranks($name, self.ranks)?;
                let infer: fn(&Self, &TensorType) -> DiagResult<TensorType> = $infer;
                ins.iter().map(|x| infer(self, x)).collect()
            }
            fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
                Ok(Vjp::NotDifferentiable(AFTER_AUTODIFF))
            }
            fn shard(&self, ins: &[&TensorType]) -> ShardRule {
                closed_rule(ins)
            }
            fn localize(&self, _: &[TensorType]) -> Op {
                self.clone().into()
            }
            fn lower(&self, _: &[&TensorType], _: &[&TensorType]) -> Lowering {
                let lower: fn(&Self) -> Lowering = $lower;
                lower(self)
            }
            fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
                Cost::of(0, ins, outs)
            }
            fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
                let eval: fn(&Self, &Tensor, &TensorType) -> Tensor = $eval;
                ins.iter().zip(outs).map(|(x, out)| eval(self, x, out)).collect()
            }
            fn numerics(&self) -> Numerics {
                Numerics::$numerics
            }
            fn samples() -> Vec<(Self, Vec<TensorType>)> {
                $sample
            }
        }
    )* };
}

collective! {
    AllGather, "all_gather" {},
        true, |op| Lowering::Collective(CollectiveKind::AllGather, op.axis),
        |op, x| {
            want_not_scalar("all_gather", "the operand", x)?;
            Ok(with_rows(x, x.dims[0] * op.ranks))
        },
        |op, x, out| tensor(out, x.data.repeat(op.ranks as usize)),
        vec![
            (Self { axis: AxisId(0), ranks: 2 }, sample(&[3, 5])),
            (Self { axis: AxisId(0), ranks: 2 }, [sample(&[3, 5]), sample(&[1])].concat()),
        ],
        Exact;
    ReduceScatter, "reduce_scatter" { reduce },
        true, |op| Lowering::Collective(CollectiveKind::ReduceScatter(op.reduce), op.axis),
        |op, x| {
            want_float("reduce_scatter", "the operand", x)?;
            want_not_scalar("reduce_scatter", "the operand", x)?;
            if !x.dims[0].is_multiple_of(op.ranks) {
                let message = format!("`reduce_scatter`: {} rows do not divide into {} parts", x.dims[0], op.ranks);
                return Err(Diag::new("T0106", message).help("insert a `pad`"));
            }
            Ok(with_rows(x, x.dims[0] / op.ranks))
        },
        |op, x, out| {
            let part = &x.data[..out.num_elements() as usize];
            tensor(out, part.iter().map(|&x| op.reduce.of_copies(x, op.ranks)).collect())
        },
        vec![
            (Self { axis: AxisId(0), ranks: 2, reduce: ReduceKind::Sum }, sample(&[6, 5])),
            (Self { axis: AxisId(0), ranks: 2, reduce: ReduceKind::Sum }, [sample(&[2]), sample(&[4, 3])].concat()),
        ],
        Rounding;
    AllReduce, "all_reduce" { reduce },
        true, |op| Lowering::Collective(CollectiveKind::AllReduce(op.reduce), op.axis),
        |_, x| {
            want_float("all_reduce", "the operand", x)?;
            Ok(TensorType::new(x.dtype, &x.dims))
        },
        |op, x, _| map(x, |x| op.reduce.of_copies(x, op.ranks)),
        vec![
            (Self { axis: AxisId(0), ranks: 2, reduce: ReduceKind::Max }, sample(&[3, 5])),
            (Self { axis: AxisId(0), ranks: 2, reduce: ReduceKind::Sum }, sample(&[])),
        ],
        Rounding;
    RankSlice, "rank_slice" {},
        false, |op| Lowering::RankSlice(op.axis),
        |op, x| {
            want_not_scalar("rank_slice", "the operand", x)?;
            Ok(with_rows(x, x.dims[0].div_ceil(op.ranks)))
        },
        |_, x, out| tensor(out, x.data[..out.num_elements() as usize].to_vec()),
        vec![(Self { axis: AxisId(0), ranks: 2 }, sample(&[3, 5]))],
        Exact;
}
