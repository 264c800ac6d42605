//! A seeded source of random kernels and operands.

use super::image::Case;
use titan_ir::DType;
use titan_ir::kernel::row::Rank;
use titan_ir::kernel::{Access, BinaryFn, Cols, Expr, ExprId, Input, Output, RowKernel, Store, UnaryFn};

/// SplitMix64. Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// Uniform in `-1..1`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

/// A random kernel. Its values are correctly rounded at every step or, below the outputs listed in `loose`, one function away from such.
pub(crate) struct Generated {
    pub(crate) case: Case,
    /// Whether each output is a polynomial of ours: right only to some ulp.
    pub(crate) is_loose: Vec<bool>,
}

const COLS: [u64; 19] = [1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 128, 130, 200];

/// A random kernel with random operands, from a seed.
pub(crate) fn generate(seed: u64) -> Generated {
    let rng = &mut Rng(seed);
    let is_flat = rng.below(6) == 0;
    let cols =
        if is_flat { Cols::Flat { chunk: 64 * (1 + rng.below(3)) } } else { Cols::Static(rng.pick(&COLS)) };
    let inputs = random_inputs(rng, cols);
    let mut kernel = RowKernel { cols, inputs, exprs: vec![], outputs: vec![] };
    random_exprs(rng, &mut kernel);
    let is_loose = random_outputs(rng, &mut kernel);
    let extent = if is_flat { rng.pick(&[0, 1, 63, 64, 200, 500]) } else { rng.pick(&[0, 1, 2, 7, 13]) };
    let in_place = random_places(rng, &kernel);
    let inputs = (0..kernel.inputs.len()).map(|k| operand(rng, &kernel, k, extent)).collect();
    Generated { case: Case { kernel, extent, inputs, in_place }, is_loose }
}

fn random_inputs(rng: &mut Rng, cols: Cols) -> Vec<Input> {
    let mut inputs = vec![Input { dtype: DType::I32, access: rng.pick(&[Access::Row, Access::Scalar]) }];
    for _ in 0..1 + rng.below(5) {
        let access = match (cols, rng.below(8)) {
            (_, 0..=1) => Access::Full,
            (_, 2) => Access::Row,
            (_, 3) => Access::Col,
            (_, 4) => Access::Scalar,
            (Cols::Static(cols), 5) => {
                let widths: Vec<u64> = (1..=cols).filter(|w| cols % w == 0).collect();
                let (row_div, row_mod) = (1 + rng.below(3), 1 + rng.below(4));
                Access::Table { row_div, row_mod, width: rng.pick(&widths) }
            }
            (Cols::Static(_), 6) => Access::Gather { ids: 0, num: 1 + rng.below(5) },
            (Cols::Static(_), 7) => Access::Tile,
            _ => Access::Full,
        };
        let dtype = match access {
            Access::Tile => DType::F32,
            _ => rng.pick(&[DType::F32, DType::Bf16, DType::Bf16, DType::I32]),
        };
        inputs.push(Input { dtype, access });
    }
    inputs
}

fn random_exprs(rng: &mut Rng, kernel: &mut RowKernel) {
    kernel.exprs = (0..kernel.inputs.len() as u32).map(Expr::Load).collect();
    let is_even = matches!(kernel.cols, Cols::Static(cols) if cols % 2 == 0);
    for _ in 0..2 + rng.below(14) {
        let num = kernel.exprs.len() as u64;
        let mut any = || ExprId(rng.below(num) as u32);
        let (a, b, c, d) = (any(), any(), any(), any());
        let expr = match rng.below(15) {
            0 => Expr::Const((rng.unit() as f32).to_bits()),
            1 => Expr::ColIndex,
            2..=3 => {
                let f = [UnaryFn::Neg, UnaryFn::Sqrt, UnaryFn::Rsqrt, UnaryFn::RoundBf16];
                Expr::Unary(rng.pick(&f), a)
            }
            4..=8 => {
                use BinaryFn::{Add, Div, Max, Min, Mul, Sub};
                Expr::Binary(rng.pick(&[Add, Sub, Mul, Div, Max, Min]), a, b)
            }
            9 => Expr::Fma(a, b, c),
            10 => Expr::SelectEq(a, b, c, d),
            11 => Expr::SelectLt(a, b, c, d),
            12 if is_even => Expr::SwapPairs(a),
            13 => Expr::RowMax(a),
            14 => Expr::RowSum(small_integers(rng, kernel, a)),
            _ => Expr::Unary(UnaryFn::Neg, a),
        };
        kernel.exprs.push(expr);
    }
}

/// A function of `a` that is -1, 0 or 1, so that its sum is the same in any order.
fn small_integers(rng: &mut Rng, kernel: &mut RowKernel, a: ExprId) -> ExprId {
    let bound = rng.unit() as f32;
    let first = kernel.exprs.len() as u32;
    let constants = [bound, -1.0, 0.0, 1.0].map(|x| Expr::Const(x.to_bits()));
    kernel.exprs.extend(constants);
    let [bound, minus, zero, one] = [0, 1, 2, 3].map(|k| ExprId(first + k));
    kernel.exprs.push(Expr::SelectEq(a, a, one, minus));
    kernel.exprs.push(Expr::SelectLt(a, bound, ExprId(first + 4), zero));
    ExprId(first + 5)
}

fn random_outputs(rng: &mut Rng, kernel: &mut RowKernel) -> Vec<bool> {
    let mut is_loose = vec![];
    let has_rows = matches!(kernel.cols, Cols::Static(_));
    let block_rows = 1 + rng.below(4);
    let ranks = kernel.ranks();
    for _ in 0..1 + rng.below(4) {
        let mut value = ExprId(rng.below(ranks.len() as u64) as u32);
        let rank = ranks[value.index()];
        let loose = rng.below(4) == 0;
        if loose {
            let f = rng.pick(&[UnaryFn::Exp, UnaryFn::Log, UnaryFn::Sigmoid]);
            kernel.exprs.push(Expr::Unary(f, value));
            value = ExprId(kernel.exprs.len() as u32 - 1);
        }
        let is_fixed = matches!(rank, Rank::Row | Rank::Scalar);
        let store = match rng.below(4) {
            0 if has_rows && !loose => Store::ColSum { block_rows },
            1..=2 if is_fixed => Store::Row,
            _ => Store::Full,
        };
        let dtype = match store {
            Store::ColSum { .. } => DType::F32,
            Store::Full | Store::Row => rng.pick(&[DType::F32, DType::Bf16]),
        };
        kernel.outputs.push(Output { dtype, store, value });
        is_loose.push(loose);
    }
    is_loose
}

/// Puts some outputs over inputs of the same type and access, each input used once.
fn random_places(rng: &mut Rng, kernel: &RowKernel) -> Vec<Option<usize>> {
    let mut is_free: Vec<bool> = kernel.inputs.iter().map(|_| rng.below(3) > 0).collect();
    kernel
        .outputs
        .iter()
        .map(|output| {
            let access = match output.store {
                Store::Full => Access::Full,
                Store::Row => Access::Row,
                Store::ColSum { .. } => return None,
            };
            let wanted = Input { dtype: output.dtype, access };
            let k = (0..is_free.len()).find(|&k| is_free[k] && kernel.inputs[k] == wanted)?;
            is_free[k] = false;
            Some(k)
        })
        .collect()
}

/// Random values for an input, representable in its type, now and then special.
fn operand(rng: &mut Rng, kernel: &RowKernel, k: usize, extent: u64) -> Vec<f64> {
    let (rows, cols, full) = match kernel.cols {
        Cols::Static(cols) => (extent, cols, extent * cols),
        Cols::Flat { chunk } => (extent.div_ceil(chunk), extent, extent),
    };
    let len = match kernel.inputs[k].access {
        Access::Full | Access::Tile => full,
        Access::Row => rows,
        Access::Col => cols,
        Access::Scalar => 1,
        Access::Table { row_mod, width, .. } => row_mod * width,
        Access::Gather { num, .. } => num * cols,
    };
    let dtype = kernel.inputs[k].dtype;
    let value = |rng: &mut Rng| match (dtype, rng.below(40)) {
        (DType::I32, _) => rng.below(9) as f64 - 2.0,
        (_, 0) => rng.pick(&[0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-41, -1e-40, 3e38]),
        _ => rng.unit() * rng.pick(&[1.0, 1.0, 4.0, 100.0]),
    };
    (0..len).map(|_| dtype.round(value(rng))).collect()
}
