//! What one op contributes to a generated kernel: its expressions over its operands, before fusion.

use super::row::{Access, BinaryFn, Expr, ExprId, Input, UnaryFn};
use crate::DType;

/// How a result of a fragment comes out of the loop nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Result {
    /// A value per element.
    Full,
    /// A value per row.
    Row,
    /// The sum over all rows: a vector of `cols`.
    ColSum,
    /// The sum over all elements: a scalar.
    AllSum,
}

/// One op over a domain of `rows x cols`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// Rows of the domain.
    pub rows: u64,
    /// Columns of the domain.
    pub cols: u64,
    /// Whether any factorisation of `rows * cols` does: only [`Access::Full`] and [`Access::Scalar`] inputs, no row reduction, no column index.
    pub elastic: bool,
    /// One input per operand (same order).
    pub inputs: Vec<Input>,
    /// Expressions in dependency order.
    pub exprs: Vec<Expr>,
    /// One per result of the op: how, of what type, and the value.
    pub results: Vec<(Result, DType, ExprId)>,
}

/// Builds a [`Fragment`]; the methods append one expression each.
#[derive(Debug)]
pub struct FragmentBuilder {
    fragment: Fragment,
}

impl FragmentBuilder {
    /// An op on rows of a fixed width.
    pub fn rows(rows: u64, cols: u64) -> Self {
        Self {
            fragment: Fragment { rows, cols, elastic: false, inputs: vec![], exprs: vec![], results: vec![] },
        }
    }

    /// An op on any arrangement of `len` elements.
    pub fn elastic(len: u64) -> Self {
        let mut builder = Self::rows(1, len);
        builder.fragment.elastic = true;
        builder
    }

    fn push(&mut self, expr: Expr) -> ExprId {
        self.fragment.exprs.push(expr);
        ExprId(u32::try_from(self.fragment.exprs.len() - 1).expect("a kernel has few expressions"))
    }

    /// Declares the next operand and loads it.
    pub fn input(&mut self, dtype: DType, access: Access) -> ExprId {
        self.fragment.inputs.push(Input { dtype, access });
        self.push(Expr::Load(u32::try_from(self.fragment.inputs.len() - 1).expect("an op has few operands")))
    }

    /// A constant.
    pub fn constant(&mut self, value: f32) -> ExprId {
        self.push(Expr::Const(value.to_bits()))
    }

    /// The column number.
    pub fn col_index(&mut self) -> ExprId {
        self.push(Expr::ColIndex)
    }

    /// A function of one value.
    pub fn unary(&mut self, f: UnaryFn, a: ExprId) -> ExprId {
        self.push(Expr::Unary(f, a))
    }

    /// A function of two values.
    pub fn binary(&mut self, f: BinaryFn, a: ExprId, b: ExprId) -> ExprId {
        self.push(Expr::Binary(f, a, b))
    }

    /// `a + b`.
    pub fn add(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryFn::Add, a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryFn::Sub, a, b)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryFn::Mul, a, b)
    }

    /// `a / b`.
    pub fn div(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.binary(BinaryFn::Div, a, b)
    }

    /// `a * b + c`, rounded once.
    pub fn fma(&mut self, a: ExprId, b: ExprId, c: ExprId) -> ExprId {
        self.push(Expr::Fma(a, b, c))
    }

    /// `a == b ? then : other`.
    pub fn select_eq(&mut self, a: ExprId, b: ExprId, then: ExprId, other: ExprId) -> ExprId {
        self.push(Expr::SelectEq(a, b, then, other))
    }

    /// `a < b ? then : other`.
    pub fn select_lt(&mut self, a: ExprId, b: ExprId, then: ExprId, other: ExprId) -> ExprId {
        self.push(Expr::SelectLt(a, b, then, other))
    }

    /// The neighbour column's value.
    pub fn swap_pairs(&mut self, a: ExprId) -> ExprId {
        self.push(Expr::SwapPairs(a))
    }

    /// Sum over the row.
    pub fn row_sum(&mut self, a: ExprId) -> ExprId {
        self.push(Expr::RowSum(a))
    }

    /// Largest of the row.
    pub fn row_max(&mut self, a: ExprId) -> ExprId {
        self.push(Expr::RowMax(a))
    }

    /// Declares the next result of the op.
    pub fn result(&mut self, result: Result, dtype: DType, value: ExprId) {
        self.fragment.results.push((result, dtype, value));
    }

    /// The fragment.
    pub fn finish(self) -> Fragment {
        self.fragment
    }
}
