//! Expressions of a kernel as operations on tensors.

use super::Unfit;
use super::shape::Shape;
use super::text::{Body, Value};
use titan_ir::DType;
use titan_ir::kernel::row::Rank;
use titan_ir::kernel::{Access, BinaryFn, Expr, ExprId, Input, RowKernel, Store, UnaryFn};

const ONE: u32 = 1.0_f32.to_bits();
const ZERO: u32 = 0.0_f32.to_bits();
const MINUS_INFINITY: u32 = f32::NEG_INFINITY.to_bits();

/// Writes the expressions a kernel's outputs need.
pub(super) struct Writer<'a> {
    kernel: &'a RowKernel,
    shape: &'a Shape,
    ranks: Vec<Rank>,
    /// What each input points to, then the column numbers.
    args: &'a [Value],
    pub(super) body: Body,
    /// Per expression and rank it was broadcast to.
    values: Vec<[Option<Value>; 4]>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(kernel: &'a RowKernel, shape: &'a Shape, args: &'a [Value]) -> Self {
        let values = vec![const { [None, None, None, None] }; kernel.exprs.len()];
        Self { kernel, shape, ranks: kernel.ranks(), args, body: Body::default(), values }
    }

    /// The value of an output as it is stored.
    pub(super) fn output(&mut self, index: usize) -> Result<Value, Unfit> {
        let output = &self.kernel.outputs[index];
        let value = match output.store {
            Store::Full => self.at(output.value, Rank::Full)?,
            Store::Row => self.at(output.value, Rank::Row)?,
            Store::ColSum { .. } => {
                let full = self.at(output.value, Rank::Full)?;
                self.body.reduce("arith.addf", ZERO, &full, &self.shape.block_axes(self.kernel))
            }
        };
        match output.dtype {
            DType::F32 => Ok(value),
            DType::Bf16 => Ok(self.body.convert("arith.truncf", &value, "bf16")),
            DType::I32 => Err(Unfit("stores integers".to_owned())),
        }
    }

    /// An expression's value, broadcast to `rank`.
    fn at(&mut self, id: ExprId, rank: Rank) -> Result<Value, Unfit> {
        if let Some(value) = &self.values[id.index()][rank as usize] {
            return Ok(value.clone());
        }
        let own = self.ranks[id.index()];
        let value = match self.kernel.exprs[id.index()] {
            Expr::Const(bits) => self.body.splat(&self.shape.of_rank(rank), bits),
            _ if own == rank => self.compute(id, rank)?,
            // The compiler of Ascend950 loses the shape of a test per row whose result is broadcast.
            Expr::SelectEq(..) | Expr::SelectLt(..) if own == Rank::Row => self.compute(id, rank)?,
            _ => {
                let value = self.at(id, own)?;
                self.body.broadcast(&value, &self.shape.of_rank(rank), &self.shape.added(own, rank))
            }
        };
        self.values[id.index()][rank as usize] = Some(value.clone());
        Ok(value)
    }

    fn compute(&mut self, id: ExprId, rank: Rank) -> Result<Value, Unfit> {
        Ok(match self.kernel.exprs[id.index()] {
            Expr::Load(input) => self.load(input)?,
            Expr::Const(bits) => self.body.splat(&self.shape.of_rank(rank), bits),
            Expr::ColIndex => self.args[self.kernel.inputs.len()].clone(),
            Expr::Unary(f, a) => {
                let a = self.at(a, rank)?;
                self.unary(f, &a)
            }
            Expr::Binary(f, a, b) => {
                let (a, b) = (self.at(a, rank)?, self.at(b, rank)?);
                self.body.same(binary_operation(f), &[&a, &b])
            }
            Expr::Fma(a, b, c) => {
                let (a, b, c) = (self.at(a, rank)?, self.at(b, rank)?, self.at(c, rank)?);
                self.body.same("math.fma", &[&a, &b, &c])
            }
            Expr::SelectEq(a, b, t, o) => self.select("oeq", [a, b, t, o], rank)?,
            Expr::SelectLt(a, b, t, o) => self.select("olt", [a, b, t, o], rank)?,
            Expr::SwapPairs(a) => {
                let a = self.at(a, rank)?;
                if matches!(rank, Rank::Col | Rank::Full) { self.body.swap_pairs(&a) } else { a }
            }
            Expr::RowSum(a) => self.reduce("arith.addf", ZERO, a)?,
            Expr::RowMax(a) => self.reduce("arith.maximumf", MINUS_INFINITY, a)?,
        })
    }

    fn reduce(&mut self, combiner: &str, neutral: u32, a: ExprId) -> Result<Value, Unfit> {
        let a = self.at(a, Rank::Full)?;
        Ok(self.body.reduce(combiner, neutral, &a, &self.shape.col_axes()))
    }

    fn select(&mut self, predicate: &str, ids: [ExprId; 4], rank: Rank) -> Result<Value, Unfit> {
        let [a, b, t, o] = ids;
        let (a, b) = (self.at(a, rank)?, self.at(b, rank)?);
        let (t, o) = (self.at(t, rank)?, self.at(o, rank)?);
        Ok(self.body.select(predicate, [&a, &b, &t, &o]))
    }

    fn load(&mut self, input: u32) -> Result<Value, Unfit> {
        let arg = self.args[input as usize].clone();
        let Input { dtype, access } = self.kernel.inputs[input as usize];
        // A scalar is converted while it has a dimension: that of Ascend950 fails on integers without.
        let value = match dtype {
            DType::F32 => arg,
            DType::Bf16 => self.body.convert("arith.extf", &arg, "f32"),
            DType::I32 => self.body.convert("arith.sitofp", &arg, "f32"),
        };
        Ok(match access {
            Access::Scalar => self.body.scalar(&value),
            Access::Table { row_div, row_mod, width } => {
                let (_, added) = self.shape.table([row_div, row_mod, width]);
                self.body.broadcast(&value, &self.shape.full(), &added)
            }
            _ => value,
        })
    }

    fn unary(&mut self, f: UnaryFn, a: &Value) -> Value {
        let body = &mut self.body;
        match f {
            UnaryFn::Neg => body.same("arith.negf", &[a]),
            UnaryFn::Exp => body.same("math.exp", &[a]),
            UnaryFn::Log => body.same("math.log", &[a]),
            UnaryFn::Sqrt => body.same("math.sqrt", &[a]),
            UnaryFn::Rsqrt => {
                let root = body.same("math.sqrt", &[a]);
                let one = body.splat(&a.dims, ONE);
                body.same("arith.divf", &[&one, &root])
            }
            UnaryFn::Sigmoid => {
                let negative = body.same("arith.negf", &[a]);
                let power = body.same("math.exp", &[&negative]);
                let one = body.splat(&a.dims, ONE);
                let sum = body.same("arith.addf", &[&power, &one]);
                body.same("arith.divf", &[&one, &sum])
            }
            UnaryFn::RoundBf16 => {
                let rounded = body.convert("arith.truncf", a, "bf16");
                body.convert("arith.extf", &rounded, "f32")
            }
        }
    }
}

fn binary_operation(f: BinaryFn) -> &'static str {
    match f {
        BinaryFn::Add => "arith.addf",
        BinaryFn::Sub => "arith.subf",
        BinaryFn::Mul => "arith.mulf",
        BinaryFn::Div => "arith.divf",
        BinaryFn::Max => "arith.maximumf",
        BinaryFn::Min => "arith.minimumf",
    }
}
