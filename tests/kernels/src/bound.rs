//! What a kernel should give and how far from that it may be.
//!
//! Every value carries a bound on the distance between what a device computes and the reference, carried through the expressions: the
//! operands' bounds, amplified as the function does, and the roundings of the function itself. Functions that IEEE 754 rounds correctly add nothing
//! while their operands are exact: then bits must agree.

use titan_ir::DType;
use titan_ir::kernel::eval::eval_row;
use titan_ir::kernel::{Access, BinaryFn, Cols, Expr, ExprId, RowKernel, Store, UnaryFn};

/// Half the distance between 1 and the next f32.
const UNIT: f64 = 1.0 / (1 << 24) as f64;

/// Absolute error of a result too small for a normal f32.
const TINY: f64 = 1.5e-45;

/// How a device computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Device {
    /// Whether `a * b + c` is rounded once.
    pub has_fma: bool,
    /// Roundings of an exponential or a logarithm.
    pub transcendental: f64,
    /// Whether values below the normal f32 and special values come out as IEEE 754 says.
    pub divides_exactly: bool,
}

impl Device {
    /// The host: IEEE 754, and a C library whose functions are right to one unit in the last place.
    pub const HOST: Self = Self { has_fma: true, transcendental: 2.0, divides_exactly: true };
    /// A vector core: products are rounded before they are added.
    pub const VECTOR_CORE: Self = Self { has_fma: false, transcendental: 4.0, divides_exactly: false };
}

/// A value and how far from it is right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded {
    /// The reference.
    pub value: f64,
    /// Distance that is allowed.
    pub error: f64,
}

impl Bounded {
    fn exact(value: f64) -> Self {
        Self { value, error: 0.0 }
    }

    /// Whether a device may give `x`.
    pub fn allows(self, x: f64) -> bool {
        if self.value.is_nan() {
            return x.is_nan();
        }
        self.value == x || (self.value - x).abs() <= self.error
    }
}

/// Every output of a kernel, element by element. Operands and sizes as for [`eval_row`], which gives the reference.
pub fn eval(
    kernel: &RowKernel,
    rows: u64,
    len: Option<u64>,
    inputs: &[&[f64]],
    device: Device,
) -> Vec<Vec<Bounded>> {
    let (num_rows, chunk) = match kernel.cols {
        Cols::Static(cols) => (rows, cols),
        Cols::Flat { chunk } => (len.unwrap_or(0).div_ceil(chunk), chunk),
    };
    let mut outputs: Vec<Vec<Bounded>> = kernel.outputs.iter().map(|_| Vec::new()).collect();
    for i in 0..num_rows {
        let columns = match kernel.cols {
            Cols::Static(_) => 0..chunk,
            Cols::Flat { .. } => i * chunk..len.unwrap_or(0).min((i + 1) * chunk),
        };
        let row = Row { kernel, i, columns, inputs, device };
        let values = row.values();
        for (output, data) in kernel.outputs.iter().zip(&mut outputs) {
            let value = &values[output.value.index()];
            match output.store {
                Store::Full => data.extend(value.iter().map(|&x| stored(output.dtype, x))),
                Store::Row => data.extend(value.first().map(|&x| stored(output.dtype, x))),
                Store::ColSum { block_rows } => {
                    if i % block_rows == 0 {
                        data.resize(data.len() + value.len(), Bounded::exact(0.0));
                    }
                    let start = data.len() - value.len();
                    for (sum, &x) in data[start..].iter_mut().zip(value) {
                        *sum = added(*sum, x, block_rows.min(num_rows));
                    }
                }
            }
        }
    }
    settle(&mut outputs, &eval_row(kernel, rows, len, inputs, true));
    outputs
}

/// The oracle's values, with the bounds found here.
fn settle(outputs: &mut [Vec<Bounded>], reference: &[Vec<f64>]) {
    for (output, reference) in outputs.iter_mut().zip(reference) {
        assert_eq!(output.len(), reference.len(), "the evaluators disagree on sizes");
        for (bounded, &value) in output.iter_mut().zip(reference) {
            assert!(
                bounded.allows(value),
                "the evaluators disagree: {} +- {} and {value}",
                bounded.value,
                bounded.error
            );
            // The oracle may be on either side of what is computed here.
            *bounded = Bounded { value, error: bounded.error + (bounded.value - value).abs() };
            if !bounded.error.is_finite() {
                bounded.error = 0.0;
            }
        }
    }
}

/// A running sum that may be added in any order: each of `num` roundings is relative to a partial sum, no larger than the sum of magnitudes.
fn added(sum: Bounded, x: Bounded, num: u64) -> Bounded {
    let value = DType::F32.round(sum.value + x.value);
    Bounded { value, error: sum.error + x.error + 2.0 * num as f64 * UNIT * (x.value.abs() + x.error) }
}

fn stored(dtype: DType, x: Bounded) -> Bounded {
    let value = dtype.round(x.value);
    let [low, high] = [x.value - x.error, x.value + x.error].map(|end| (dtype.round(end) - value).abs());
    Bounded { value, error: if x.error > 0.0 { low.max(high) } else { 0.0 } }
}

struct Row<'a> {
    kernel: &'a RowKernel,
    i: u64,
    columns: std::ops::Range<u64>,
    inputs: &'a [&'a [f64]],
    device: Device,
}

impl Row<'_> {
    /// The values of every expression at every column.
    fn values(&self) -> Vec<Vec<Bounded>> {
        let width = (self.columns.end - self.columns.start) as usize;
        let mut values: Vec<Vec<Bounded>> = Vec::with_capacity(self.kernel.exprs.len());
        for expr in &self.kernel.exprs {
            let value = match *expr {
                Expr::RowSum(a) => vec![self.sum(&values[a.index()]); width],
                Expr::RowMax(a) => vec![largest(&values[a.index()]); width],
                Expr::SwapPairs(a) => (0..width).map(|c| values[a.index()][c ^ 1]).collect(),
                _ => (0..width).map(|c| self.value(expr, c, &|id| values[id.index()][c])).collect(),
            };
            values.push(value);
        }
        values
    }

    fn sum(&self, values: &[Bounded]) -> Bounded {
        let exact: f64 = values.iter().map(|x| x.value).sum();
        let magnitude: f64 = values.iter().map(|x| x.value.abs() + x.error).sum();
        let carried: f64 = values.iter().map(|x| x.error).sum();
        let error = carried + values.len() as f64 * UNIT * magnitude;
        Bounded { value: DType::F32.round(exact), error }
    }

    fn value(&self, expr: &Expr, c: usize, of: &dyn Fn(ExprId) -> Bounded) -> Bounded {
        match *expr {
            Expr::Load(input) => Bounded::exact(self.load(input, self.columns.start + c as u64)),
            Expr::Const(bits) => Bounded::exact(f64::from(f32::from_bits(bits))),
            Expr::ColIndex => Bounded::exact((self.columns.start + c as u64) as f64),
            Expr::Unary(f, a) => self.unary(f, of(a)),
            Expr::Binary(f, a, b) => self.binary(f, of(a), of(b)),
            Expr::Fma(a, b, d) => self.fma(of(a), of(b), of(d)),
            Expr::SelectEq(a, b, t, o) => select(of(a), of(b), of(t), of(o), |a, b| a == b),
            Expr::SelectLt(a, b, t, o) => select(of(a), of(b), of(t), of(o), |a, b| a < b),
            Expr::SwapPairs(_) | Expr::RowSum(_) | Expr::RowMax(_) => {
                unreachable!("these read other columns")
            }
        }
    }

    fn load(&self, input: u32, j: u64) -> f64 {
        let (i, data) = (self.i, self.inputs[input as usize]);
        let row = |i: u64| match self.kernel.cols {
            Cols::Static(cols) => i * cols,
            Cols::Flat { .. } => 0,
        };
        let element = match self.kernel.inputs[input as usize].access {
            Access::Full | Access::Tile => row(i) + j,
            Access::Row => i,
            Access::Col => j,
            Access::Scalar => 0,
            Access::Table { row_div, row_mod, width } => ((i / row_div) % row_mod) * width + j % width,
            Access::Gather { ids, num } => {
                let id = self.load(ids, 0);
                row(if (0.0..num as f64).contains(&id) { id as u64 } else { 0 }) + j
            }
        };
        data[element as usize]
    }

    /// A result whose operands' errors amount to `carried`, rounded `roundings` times; `IEEE 754` rounds it right if that is 1.
    fn rounded(exact: f64, carried: f64, roundings: f64) -> Bounded {
        let value = DType::F32.round(exact);
        if carried == 0.0 && roundings == 1.0 {
            return Bounded::exact(value);
        }
        let error = carried + (2.0 * roundings + 1.0) * UNIT * (exact.abs() + carried) + TINY;
        Bounded { value, error }
    }

    fn unary(&self, f: UnaryFn, a: Bounded) -> Bounded {
        let (x, e) = (a.value, a.error);
        let sloppy = self.device.transcendental;
        // What dividing costs: once rounded, or not quite.
        let division = if self.device.divides_exactly { 1.0 } else { 2.0 };
        match f {
            UnaryFn::Neg => Bounded { value: -x, error: e },
            UnaryFn::Exp => Self::rounded(x.exp(), (x + e).exp() - x.exp(), sloppy),
            UnaryFn::Log => Self::rounded(x.ln(), if e == 0.0 { 0.0 } else { x.ln() - (x - e).ln() }, sloppy),
            UnaryFn::Sqrt => Self::rounded(x.sqrt(), root_error(x, e), division),
            UnaryFn::Rsqrt => {
                let root = Self::rounded(x.sqrt(), root_error(x, e), division);
                self.binary(BinaryFn::Div, Bounded::exact(1.0), root)
            }
            UnaryFn::Sigmoid => {
                let power = Self::rounded((-x).exp(), (e - x).exp() - (-x).exp(), sloppy);
                let sum = self.binary(BinaryFn::Add, Bounded::exact(1.0), power);
                let quotient = self.binary(BinaryFn::Div, Bounded::exact(1.0), sum);
                // The oracle rounds the whole once.
                Bounded { error: quotient.error + 4.0 * UNIT * quotient.value.abs(), ..quotient }
            }
            UnaryFn::RoundBf16 => stored(DType::Bf16, a),
        }
    }

    fn binary(&self, f: BinaryFn, a: Bounded, b: Bounded) -> Bounded {
        let (x, y) = (a.value, b.value);
        match f {
            BinaryFn::Add => Self::rounded(x + y, a.error + b.error, 1.0),
            BinaryFn::Sub => Self::rounded(x - y, a.error + b.error, 1.0),
            BinaryFn::Mul => Self::rounded(x * y, product_error(a, b), 1.0),
            BinaryFn::Div => {
                let carried = if a.error == 0.0 && b.error == 0.0 {
                    0.0
                } else {
                    (a.error + b.error * (x / y).abs()) / (y.abs() - b.error)
                };
                let carried = if carried < 0.0 { f64::INFINITY } else { carried };
                Self::rounded(x / y, carried, if self.device.divides_exactly { 1.0 } else { 2.0 })
            }
            BinaryFn::Max | BinaryFn::Min => {
                let value = match f {
                    _ if x.is_nan() || y.is_nan() => f64::NAN,
                    BinaryFn::Max => x.max(y),
                    _ => x.min(y),
                };
                Bounded { value, error: a.error.max(b.error) }
            }
        }
    }

    fn fma(&self, a: Bounded, b: Bounded, c: Bounded) -> Bounded {
        if !self.device.has_fma {
            let product = Self::rounded(a.value * b.value, product_error(a, b), 1.0);
            let sum = self.binary(BinaryFn::Add, product, c);
            // Rounded twice instead of once.
            let distance = UNIT * ((a.value * b.value).abs() + sum.value.abs());
            return Bounded { error: sum.error + 3.0 * distance + TINY, ..sum };
        }
        let exact = f64::from((a.value as f32).mul_add(b.value as f32, c.value as f32));
        Self::rounded(exact, product_error(a, b) + c.error, 1.0)
    }
}

fn root_error(x: f64, e: f64) -> f64 {
    if e == 0.0 { 0.0 } else { x.sqrt() - (x - e).max(0.0).sqrt() }
}

fn product_error(a: Bounded, b: Bounded) -> f64 {
    a.error * b.value.abs() + b.error * a.value.abs() + a.error * b.error
}

fn select(
    a: Bounded,
    b: Bounded,
    then: Bounded,
    other: Bounded,
    holds: impl Fn(f64, f64) -> bool,
) -> Bounded {
    let (chosen, left) = if holds(a.value, b.value) { (then, other) } else { (other, then) };
    let is_sure = (a.error == 0.0 && b.error == 0.0) || (a.value - b.value).abs() > a.error + b.error;
    let doubt = if is_sure { 0.0 } else { (chosen.value - left.value).abs() + left.error };
    Bounded { value: chosen.value, error: chosen.error.max(doubt) }
}

fn largest(values: &[Bounded]) -> Bounded {
    let fold = |m: Bounded, x: &Bounded| Bounded {
        value: if m.value.is_nan() || x.value.is_nan() { f64::NAN } else { m.value.max(x.value) },
        error: m.error.max(x.error),
    };
    values.iter().fold(Bounded::exact(f64::NEG_INFINITY), fold)
}
