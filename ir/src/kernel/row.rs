//! Generated kernels: a loop nest over rows and columns with a scalar expression DAG.
//!
//! A kernel runs over a domain of `rows x cols` elements, row by row. Expressions are f32 lanes; each has a
//! *rank*: `Full` (a value per element), `Row` (one per row), `Col` (one per column) or `Scalar`, the join of
//! its operands' ranks. A row reduction turns a `Full` value into a `Row` value with a fixed tree, so no result
//! depends on how rows are split among threads.
//!
//! Two shapes of domain:
//! * `Cols::Static(n)`: rows of `n` columns. Work is split by rows.
//! * `Cols::Flat { chunk }`: one long vector, cut in chunks of `chunk` elements; "row" `i` is chunk `i`, its columns
//!   are the elements `[i * chunk, min(n, (i + 1) * chunk))` and the length is a launch argument. So one kernel
//!   serves every length.
//!
//! # Launch ABI (CPU)
//! `extern "C" fn(args: *const *mut u8, i0: i64, i1: i64, j0: i64, j1: i64)`: `args` holds one pointer per input,
//! then one per output. The call computes rows `i0..i1`, columns `j0..j1`. A static kernel with a row reduction, a
//! [`Store::ColSum`] or a [`Store::Row`] is always called with `j0 = 0, j1 = cols`; any other with `j0` a multiple of 16 and `j1` too or `cols`. A flat kernel is called for one chunk (`i1 = i0 + 1`) with the
//! absolute element range `j0..j1` of that chunk. A [`Store::ColSum`] kernel is called for one block of `block_rows` rows
//! (`i0` a multiple of it). Inputs and outputs at the same address with the same access are allowed (in place).

use crate::DType;
use serde::{Deserialize, Serialize};

/// Index of an expression in [`RowKernel::exprs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExprId(pub u32);

impl ExprId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The columns of the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cols {
    /// This many columns in every row.
    Static(u64),
    /// One vector of any length, in chunks of this many elements.
    Flat {
        /// Elements of a chunk.
        chunk: u64,
    },
}

/// How an operand is addressed at row `i`, column `j`; in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Access {
    /// `i * cols + j`; in a flat domain `j`.
    Full,
    /// `i`.
    Row,
    /// `j`.
    Col,
    /// `0`.
    Scalar,
    /// `((i / row_div) % row_mod) * width + j % width`: a table shared by rows and repeated along columns (RoPE). `width` divides `cols`.
    Table {
        /// Consecutive rows that share a table row.
        row_div: u64,
        /// Rows of the table.
        row_mod: u64,
        /// Columns of the table.
        width: u64,
    },
    /// `ids[i] * cols + j` with `ids` another input, of type i32 and access [`Access::Row`] or [`Access::Scalar`] (embedding). Ids out of
    /// `0..num` read row 0: the runtime checks ids where they enter.
    Gather {
        /// The input that holds the row numbers.
        ids: u32,
        /// Rows of the table.
        num: u64,
    },
    /// `(i - i0) * TILE_LD + (j - j0)`: the f32 accumulator tile of a GEMM, in an epilogue only.
    Tile,
}

/// An input of a kernel. Loads convert to f32 exactly (i32 up to 2^24).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Input {
    /// Element type in memory.
    pub dtype: DType,
    /// Addressing.
    pub access: Access,
}

/// How an output is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Store {
    /// A value per element, at `i * cols + j`; flat: at `j`.
    Full,
    /// A `Row` value at `i`.
    Row,
    /// The sum over the rows `i0..i1` of the call, f32, at `(i0 / block_rows) * cols + j`; rows are added in order.
    ColSum {
        /// Rows of one block.
        block_rows: u64,
    },
}

/// An output of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Output {
    /// Element type in memory; stores round to nearest, ties to even.
    pub dtype: DType,
    /// Addressing.
    pub store: Store,
    /// The value.
    pub value: ExprId,
}

/// Functions of one f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum UnaryFn {
    /// `-x`.
    Neg,
    /// `e^x`, own polynomial, at most 2 ulp.
    Exp,
    /// Natural logarithm, own polynomial, at most 2 ulp; -inf at 0, NaN below.
    Log,
    /// Square root, correctly rounded.
    Sqrt,
    /// `1 / sqrt(x)` as a division by a square root, both correctly rounded.
    Rsqrt,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// Round to bf16 and back: an intermediate whose IR type is bf16.
    RoundBf16,
}

/// Functions of two f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BinaryFn {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`, correctly rounded.
    Div,
    /// The larger, the second if equal; NaN if either is NaN.
    Max,
    /// The smaller, the second if equal; NaN if either is NaN.
    Min,
}

/// One expression. Operands come before it in [`RowKernel::exprs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Expr {
    /// An element of an input.
    Load(u32),
    /// A constant, as the bits of an f32.
    Const(u32),
    /// The column number `j`, as an f32; exact, since columns stay below 2^24.
    ColIndex,
    /// A function of one value.
    Unary(UnaryFn, ExprId),
    /// A function of two values.
    Binary(BinaryFn, ExprId, ExprId),
    /// `a * b + c`, rounded once.
    Fma(ExprId, ExprId, ExprId),
    /// `a == b ? then : other`.
    SelectEq(ExprId, ExprId, ExprId, ExprId),
    /// `a < b ? then : other`.
    SelectLt(ExprId, ExprId, ExprId, ExprId),
    /// The value of the neighbour column: `2i` and `2i + 1` swap (interleaved RoPE). The operand is a `Load`, or a
    /// lane-wise expression of loads; even `cols` and even `j0`.
    SwapPairs(ExprId),
    /// Sum over the columns of the row: a `Row` value, f32, fixed tree.
    RowSum(ExprId),
    /// Largest over the columns of the row: a `Row` value.
    RowMax(ExprId),
}

impl Expr {
    /// The operands.
    pub fn operands(&self) -> impl Iterator<Item = ExprId> {
        let list: [Option<ExprId>; 4] = match *self {
            Self::Load(_) | Self::Const(_) | Self::ColIndex => [None; 4],
            Self::Unary(_, a) | Self::SwapPairs(a) | Self::RowSum(a) | Self::RowMax(a) => {
                [Some(a), None, None, None]
            }
            Self::Binary(_, a, b) => [Some(a), Some(b), None, None],
            Self::Fma(a, b, c) => [Some(a), Some(b), Some(c), None],
            Self::SelectEq(a, b, c, d) | Self::SelectLt(a, b, c, d) => [Some(a), Some(b), Some(c), Some(d)],
        };
        list.into_iter().flatten()
    }

    /// The same expression with other operands.
    pub fn map(&self, mut to: impl FnMut(ExprId) -> ExprId) -> Self {
        match *self {
            Self::Load(_) | Self::Const(_) | Self::ColIndex => *self,
            Self::Unary(f, a) => Self::Unary(f, to(a)),
            Self::SwapPairs(a) => Self::SwapPairs(to(a)),
            Self::RowSum(a) => Self::RowSum(to(a)),
            Self::RowMax(a) => Self::RowMax(to(a)),
            Self::Binary(f, a, b) => Self::Binary(f, to(a), to(b)),
            Self::Fma(a, b, c) => Self::Fma(to(a), to(b), to(c)),
            Self::SelectEq(a, b, c, d) => Self::SelectEq(to(a), to(b), to(c), to(d)),
            Self::SelectLt(a, b, c, d) => Self::SelectLt(to(a), to(b), to(c), to(d)),
        }
    }
}

/// A generated kernel. Equal values mean equal code: this is the key by which kernels are shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowKernel {
    /// The columns of the domain; rows are a launch argument.
    pub cols: Cols,
    /// Inputs, in the order of the launch arguments.
    pub inputs: Vec<Input>,
    /// Expressions in dependency order.
    pub exprs: Vec<Expr>,
    /// Outputs, after the inputs in the launch arguments.
    pub outputs: Vec<Output>,
}

/// How a value varies over the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// One value.
    Scalar,
    /// One per row.
    Row,
    /// One per column.
    Col,
    /// One per element.
    Full,
}

impl Rank {
    /// The rank of a function of both.
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Scalar, x) | (x, Self::Scalar) => x,
            (a, b) if a == b => a,
            _ => Self::Full,
        }
    }
}

impl RowKernel {
    /// The rank of every expression.
    pub fn ranks(&self) -> Vec<Rank> {
        let mut ranks: Vec<Rank> = Vec::with_capacity(self.exprs.len());
        for expr in &self.exprs {
            let rank = match expr {
                Expr::Load(input) => match self.inputs[*input as usize].access {
                    Access::Full | Access::Table { .. } | Access::Gather { .. } | Access::Tile => Rank::Full,
                    Access::Row => Rank::Row,
                    Access::Col => Rank::Col,
                    Access::Scalar => Rank::Scalar,
                },
                Expr::Const(_) => Rank::Scalar,
                Expr::ColIndex => Rank::Col,
                Expr::RowSum(_) | Expr::RowMax(_) => Rank::Row,
                other => other.operands().map(|e| ranks[e.index()]).fold(Rank::Scalar, Rank::join),
            };
            ranks.push(rank);
        }
        ranks
    }

    /// Whether any expression reduces over the columns.
    pub fn has_row_reduction(&self) -> bool {
        self.exprs.iter().any(|e| matches!(e, Expr::RowSum(_) | Expr::RowMax(_)))
    }

    /// The rows of a [`Store::ColSum`] block, if there is one.
    pub fn block_rows(&self) -> Option<u64> {
        self.outputs.iter().find_map(|o| match o.store {
            Store::ColSum { block_rows } => Some(block_rows),
            Store::Full | Store::Row => None,
        })
    }
}
