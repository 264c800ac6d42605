//! A seeded source of random kernels within the device compiler's subset, tame enough that bounds on their errors stay small.

use crate::operands::Rng;
use titan_ir::DType;
use titan_ir::kernel::row::Rank;
use titan_ir::kernel::{Access, BinaryFn, Cols, Expr, ExprId, Input, Output, RowKernel, Store, UnaryFn};

/// A random kernel and its number of rows or elements.
pub fn generate(seed: u64) -> (RowKernel, u64) {
    let rng = &mut Rng(seed);
    let width = 16 * rng.pick(&[1, 1, 2, 3, 4, 5, 8, 16, 20]);
    let (cols, rows) = match rng.below(5) {
        0 => (Cols::Flat { chunk: width }, width * (1 + rng.below(6))),
        _ => (Cols::Static(width), rng.pick(&[1, 2, 4, 7, 8, 12, 16, 33])),
    };
    let mut kernel = RowKernel { cols, inputs: vec![], exprs: vec![], outputs: vec![] };
    let period = rng.pick(&[1, 2, 4]);
    for _ in 0..1 + rng.below(4) {
        let access = match (cols, rng.below(8)) {
            (Cols::Static(_), 0) => Access::Row,
            (Cols::Static(_), 1) => Access::Col,
            (Cols::Static(cols), 2) if rows % period == 0 && period > 1 => Access::Table {
                row_div: 1,
                row_mod: period,
                width: if cols % 32 == 0 { cols / 2 } else { cols },
            },
            (_, 3) => Access::Scalar,
            _ => Access::Full,
        };
        let dtype = rng.pick(&[DType::F32, DType::F32, DType::Bf16]);
        kernel.inputs.push(Input { dtype, access });
    }
    kernel.exprs = (0..kernel.inputs.len() as u32).map(Expr::Load).collect();
    let sums_columns = matches!(cols, Cols::Static(_)) && rng.below(4) == 0;
    for _ in 0..2 + rng.below(8) {
        push(rng, &mut kernel, !sums_columns);
    }
    outputs(rng, &mut kernel, sums_columns, rows);
    (kernel, rows)
}

/// Appends an expression; those that are not defined everywhere get a positive operand.
fn push(rng: &mut Rng, kernel: &mut RowKernel, may_reduce: bool) {
    let num = kernel.exprs.len() as u64;
    let mut any = || ExprId(rng.below(num) as u32);
    let (a, b, c, d) = (any(), any(), any(), any());
    use BinaryFn::{Add, Div, Max, Min, Mul, Sub};
    let expr = match rng.below(15) {
        0 => Expr::Const((rng.unit() as f32).to_bits()),
        1 => Expr::Unary(rng.pick(&[UnaryFn::Neg, UnaryFn::RoundBf16, UnaryFn::Sigmoid]), a),
        2 => {
            let root = rng.pick(&[UnaryFn::Sqrt, UnaryFn::Rsqrt, UnaryFn::Log]);
            Expr::Unary(root, positive(kernel, a))
        }
        3 => Expr::Unary(UnaryFn::Exp, bounded(kernel, a)),
        4 => Expr::Binary(Div, a, positive(kernel, b)),
        5..=8 => Expr::Binary(rng.pick(&[Add, Sub, Mul]), a, b),
        9 => Expr::Binary(rng.pick(&[Max, Min]), a, b),
        10 => Expr::Fma(a, b, c),
        11 => Expr::SelectLt(a, b, c, d),
        12 if matches!(kernel.cols, Cols::Static(_)) => Expr::SelectEq(a, ExprId(num as u32 - 1), c, d),
        13 if may_reduce => Expr::RowMax(a),
        14 if may_reduce => Expr::RowSum(a),
        _ => Expr::Binary(Add, a, b),
    };
    kernel.exprs.push(expr);
}

fn constant(kernel: &mut RowKernel, x: f32) -> ExprId {
    kernel.exprs.push(Expr::Const(x.to_bits()));
    ExprId(kernel.exprs.len() as u32 - 1)
}

/// `a * a + 1/2`.
fn positive(kernel: &mut RowKernel, a: ExprId) -> ExprId {
    let half = constant(kernel, 0.5);
    kernel.exprs.push(Expr::Binary(BinaryFn::Mul, a, a));
    kernel.exprs.push(Expr::Binary(BinaryFn::Add, ExprId(half.0 + 1), half));
    ExprId(half.0 + 2)
}

/// `min(a, 1)`.
fn bounded(kernel: &mut RowKernel, a: ExprId) -> ExprId {
    let one = constant(kernel, 1.0);
    kernel.exprs.push(Expr::Binary(BinaryFn::Min, a, one));
    ExprId(one.0 + 1)
}

fn outputs(rng: &mut Rng, kernel: &mut RowKernel, sums_columns: bool, rows: u64) {
    let ranks = kernel.ranks();
    let block_rows = rng.pick(&[1, 2, 4, 1 << 20]);
    let block_rows = if rows.is_multiple_of(block_rows) || block_rows > rows { block_rows } else { 1 << 20 };
    let last = ranks.len() - 1;
    for k in 0..1 + rng.below(2) as usize {
        let value = ExprId(last.saturating_sub(k) as u32);
        let store = match ranks[value.index()] {
            _ if sums_columns => Store::ColSum { block_rows },
            Rank::Row if rng.below(2) == 0 => Store::Row,
            _ => Store::Full,
        };
        let dtype = if sums_columns { DType::F32 } else { rng.pick(&[DType::F32, DType::Bf16]) };
        kernel.outputs.push(Output { dtype, store, value });
    }
}
