//! The meaning of a [`RowKernel`], slow and obvious, in f64: the oracle of code generation and of fusion.

use super::row::{Access, BinaryFn, Cols, Expr, RowKernel, Store, UnaryFn};
use crate::{DType, ice};

/// Evaluates a kernel over its whole domain.
///
/// `rows` is the number of rows of a static domain, `len` the number of elements of a flat one (whose rows are its chunks;
/// `rows` is then not read). With `round` every expression is rounded to f32 and every output to its type, as a backend does, so that kernels
/// of correctly rounded functions agree bit for bit; without, only f64 rounding remains and [`UnaryFn::RoundBf16`] is the identity.
///
/// # Shapes
/// Inputs are dense: `Full` and `Tile` `[rows, cols]` or `[len]`, `Row` `[rows]`, `Col` `[cols]`, `Scalar` `[1]`, `Table`
/// `[row_mod, width]`, `Gather` `[num, cols]`. Outputs: `Full` as the inputs, `Row` `[rows]`, `ColSum` `[blocks, cols]`.
pub fn eval_row(
    kernel: &RowKernel,
    rows: u64,
    len: Option<u64>,
    inputs: &[&[f64]],
    round: bool,
) -> Vec<Vec<f64>> {
    if inputs.len() != kernel.inputs.len() {
        ice!("a kernel of {} inputs got {}", kernel.inputs.len(), inputs.len());
    }
    let rows = match (kernel.cols, len) {
        (Cols::Static(_), None) => rows,
        (Cols::Flat { chunk }, Some(len)) => len.div_ceil(chunk),
        _ => ice!("a flat kernel takes a length, a static one does not"),
    };
    let mut outputs: Vec<Vec<f64>> = kernel.outputs.iter().map(|_| Vec::new()).collect();
    for i in 0..rows {
        let (j0, j1) = match kernel.cols {
            Cols::Static(cols) => (0, cols),
            Cols::Flat { chunk } => (i * chunk, len.unwrap_or(0).min((i + 1) * chunk)),
        };
        let values = eval_one_row(kernel, i, j0..j1, inputs, round);
        for (output, data) in kernel.outputs.iter().zip(&mut outputs) {
            let value = &values[output.value.index()];
            let stored = |x: f64| if round { output.dtype.round(x) } else { x };
            match output.store {
                Store::Full => data.extend(value.iter().map(|&x| stored(x))),
                Store::Row => data.push(value.first().map_or(0.0, |&x| stored(x))),
                Store::ColSum { block_rows } => {
                    if i % block_rows == 0 {
                        data.resize(data.len() + value.len(), 0.0);
                    }
                    let start = data.len() - value.len();
                    for (sum, x) in data[start..].iter_mut().zip(value) {
                        *sum = stored(*sum + x);
                    }
                }
            }
        }
    }
    outputs
}

/// The values of every expression at every column of one row.
fn eval_one_row(
    kernel: &RowKernel,
    i: u64,
    columns: std::ops::Range<u64>,
    inputs: &[&[f64]],
    round: bool,
) -> Vec<Vec<f64>> {
    let width = (columns.end - columns.start) as usize;
    let mut values: Vec<Vec<f64>> = Vec::with_capacity(kernel.exprs.len());
    for expr in &kernel.exprs {
        let per_column = |f: &dyn Fn(usize) -> f64| (0..width).map(f).collect::<Vec<f64>>();
        let of = |id: super::ExprId, c: usize| values[id.index()][c];
        let mut value = match *expr {
            Expr::Load(input) => per_column(&|c| {
                inputs[input as usize][element(kernel, inputs, input, i, columns.start + c as u64)]
            }),
            Expr::Const(bits) => vec![f64::from(f32::from_bits(bits)); width],
            Expr::ColIndex => per_column(&|c| (columns.start + c as u64) as f64),
            Expr::Unary(f, a) => per_column(&|c| unary(f, of(a, c), round)),
            Expr::Binary(f, a, b) => per_column(&|c| binary(f, of(a, c), of(b, c))),
            // One f32 rounding: rounding an f64 result again could differ.
            Expr::Fma(a, b, d) if round => {
                per_column(&|c| f64::from((of(a, c) as f32).mul_add(of(b, c) as f32, of(d, c) as f32)))
            }
            Expr::Fma(a, b, d) => per_column(&|c| of(a, c).mul_add(of(b, c), of(d, c))),
            Expr::SelectEq(a, b, t, o) => {
                per_column(&|c| if of(a, c) == of(b, c) { of(t, c) } else { of(o, c) })
            }
            Expr::SelectLt(a, b, t, o) => {
                per_column(&|c| if of(a, c) < of(b, c) { of(t, c) } else { of(o, c) })
            }
            Expr::SwapPairs(a) => per_column(&|c| of(a, c ^ 1)),
            Expr::RowSum(a) => vec![values[a.index()].iter().sum(); width],
            Expr::RowMax(a) => {
                let largest =
                    values[a.index()].iter().fold(f64::NEG_INFINITY, |m, &x| binary(BinaryFn::Max, m, x));
                vec![largest; width]
            }
        };
        if round {
            value.iter_mut().for_each(|x| *x = DType::F32.round(*x));
        }
        values.push(value);
    }
    values
}

/// The element of an input that row `i`, column `j` reads.
fn element(kernel: &RowKernel, inputs: &[&[f64]], input: u32, i: u64, j: u64) -> usize {
    let row_base = |row: u64| match kernel.cols {
        Cols::Static(cols) => row * cols,
        Cols::Flat { .. } => 0,
    };
    let element = match kernel.inputs[input as usize].access {
        Access::Full | Access::Tile => row_base(i) + j,
        Access::Row => i,
        Access::Col => j,
        Access::Scalar => 0,
        Access::Table { row_div, row_mod, width } => ((i / row_div) % row_mod) * width + j % width,
        Access::Gather { ids, num } => {
            let id = inputs[ids as usize][element(kernel, inputs, ids, i, 0)];
            row_base(if (0.0..num as f64).contains(&id) { id as u64 } else { 0 }) + j
        }
    };
    element as usize
}

fn unary(f: UnaryFn, x: f64, round: bool) -> f64 {
    match f {
        UnaryFn::Neg => -x,
        UnaryFn::Exp => x.exp(),
        UnaryFn::Log => x.ln(),
        UnaryFn::Sqrt => x.sqrt(),
        UnaryFn::Rsqrt if round => 1.0 / DType::F32.round(x.sqrt()),
        UnaryFn::Rsqrt => 1.0 / x.sqrt(),
        UnaryFn::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        UnaryFn::RoundBf16 if round => DType::Bf16.round(x),
        UnaryFn::RoundBf16 => x,
    }
}

fn binary(f: BinaryFn, a: f64, b: f64) -> f64 {
    match f {
        BinaryFn::Add => a + b,
        BinaryFn::Sub => a - b,
        BinaryFn::Mul => a * b,
        BinaryFn::Div => a / b,
        BinaryFn::Max | BinaryFn::Min if a.is_nan() || b.is_nan() => f64::NAN,
        BinaryFn::Max => {
            if a > b {
                a
            } else {
                b
            }
        }
        BinaryFn::Min => {
            if a < b {
                a
            } else {
                b
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{ExprId, Input, Output};

    #[test]
    fn rms_norm_rows_by_hand() {
        let kernel = RowKernel {
            cols: Cols::Static(2),
            inputs: vec![Input { dtype: DType::F32, access: Access::Full }],
            exprs: vec![
                Expr::Load(0),
                Expr::Binary(BinaryFn::Mul, ExprId(0), ExprId(0)),
                Expr::RowSum(ExprId(1)),
                Expr::Unary(UnaryFn::Rsqrt, ExprId(2)),
                Expr::Binary(BinaryFn::Mul, ExprId(0), ExprId(3)),
            ],
            outputs: vec![
                Output { dtype: DType::F32, store: Store::Full, value: ExprId(4) },
                Output { dtype: DType::F32, store: Store::Row, value: ExprId(2) },
                Output { dtype: DType::F32, store: Store::ColSum { block_rows: 2 }, value: ExprId(0) },
            ],
        };
        let x: [f64; 6] = [3.0, 4.0, 0.0, 2.0, 1.0, 0.0];
        let outputs = eval_row(&kernel, 3, None, &[&x], false);
        assert_eq!(outputs[0], [0.6000000000000001, 0.8, 0.0, 1.0, 1.0, 0.0]);
        assert_eq!(outputs[1], [25.0, 4.0, 1.0]);
        assert_eq!(outputs[2], [3.0, 6.0, 1.0, 0.0]);
    }

    #[test]
    fn accesses_by_hand() {
        let load = |access| Input { dtype: DType::F32, access };
        let sum = |a, b| Expr::Binary(BinaryFn::Add, ExprId(a), ExprId(b));
        let kernel = RowKernel {
            cols: Cols::Static(4),
            inputs: vec![
                Input { dtype: DType::I32, access: Access::Row },
                load(Access::Gather { ids: 0, num: 2 }),
                load(Access::Table { row_div: 2, row_mod: 1, width: 2 }),
            ],
            exprs: vec![
                Expr::Load(1),
                Expr::Load(2),
                sum(0, 1),
                Expr::SwapPairs(ExprId(2)),
                Expr::ColIndex,
                sum(3, 4),
            ],
            outputs: vec![Output { dtype: DType::F32, store: Store::Full, value: ExprId(5) }],
        };
        let table = [0.0, 0.0, 0.0, 0.0, 10.0, 20.0, 30.0, 40.0];
        let outputs = eval_row(&kernel, 2, None, &[&[1.0, 7.0], &table, &[0.5, 0.25]], true);
        assert_eq!(outputs[0], [20.25, 11.5, 42.25, 33.5, 0.25, 1.5, 2.25, 3.5]);
    }

    #[test]
    fn flat_rows_are_chunks() {
        let kernel = RowKernel {
            cols: Cols::Flat { chunk: 3 },
            inputs: vec![Input { dtype: DType::F32, access: Access::Full }],
            exprs: vec![Expr::Load(0), Expr::RowSum(ExprId(0)), Expr::RowMax(ExprId(0))],
            outputs: vec![
                Output { dtype: DType::F32, store: Store::Row, value: ExprId(1) },
                Output { dtype: DType::F32, store: Store::Row, value: ExprId(2) },
            ],
        };
        let outputs = eval_row(&kernel, 0, Some(5), &[&[1.0, 2.0, 3.0, 4.0, f64::NAN]], true);
        assert_eq!(outputs[0][0], 6.0);
        assert_eq!(outputs[1][0], 3.0);
        assert!(outputs[0][1].is_nan() && outputs[1][1].is_nan());
    }
}
