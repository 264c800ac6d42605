//! The expressions of one window.

use super::{Cut, Window, pairs, table};
use crate::codegen::ascend::emitter::Emitter;
use crate::codegen::ascend::launch::Launch;
use crate::codegen::ascend::native::{cast, dense};
use crate::codegen::ascend::operators;
use titan_ir::ascend::{Arg, Element, TableFill, TensorArg};
use titan_ir::kernel::{Access, BinaryFn, Expr, ExprId, Store, UnaryFn};
use titan_ir::{DType, Diag, DiagResult, ice};

/// The value of an expression in a window.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// The same everywhere.
    Const(f32),
    /// `[rows or 1, cols or 1]`, of the type it has in memory.
    Tensor(TensorArg),
}

/// A value, its copy in f32 and the scratch it owns.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) value: Value,
    wide: Option<TensorArg>,
    owned: Vec<TensorArg>,
}

/// The operators of one window.
pub(super) struct Sequence<'a, 'b, 'c> {
    pub(super) e: &'a mut Emitter<'b>,
    pub(super) launch: &'a Launch<'c>,
    pub(super) cut: Cut,
    pub(super) window: Window,
    pub(super) held: Vec<Option<Held>>,
    /// Per expression the last one that reads it; all of them count as reading outputs that are stored late.
    last_use: Vec<usize>,
    /// Per expression the one whose tensor it shares.
    same_as: Vec<Option<usize>>,
    /// Per output whether it must wait until all of the window has been read.
    late: Vec<bool>,
    /// Outputs already written.
    pub(super) stored: Vec<bool>,
}

impl<'a, 'b, 'c> Sequence<'a, 'b, 'c> {
    pub(super) fn new(e: &'a mut Emitter<'b>, launch: &'a Launch<'c>, cut: Cut, window: Window) -> Self {
        let kernel = launch.kernel;
        let num = kernel.exprs.len();
        let late = late(launch);
        let mut last_use: Vec<usize> = (0..num).collect();
        for (k, expr) in kernel.exprs.iter().enumerate() {
            expr.operands().for_each(|a| last_use[a.index()] = k);
        }
        for (output, &late) in kernel.outputs.iter().zip(&late) {
            if late {
                last_use[output.value.index()] = num;
            }
        }
        let stored = vec![false; kernel.outputs.len()];
        Self {
            e,
            launch,
            cut,
            window,
            held: vec![None; num],
            last_use,
            same_as: vec![None; num],
            late,
            stored,
        }
    }

    /// Emits everything. `sums` are column sums over several windows, as far as they are.
    ///
    /// # Errors
    /// T0530.
    pub(super) fn run(mut self, sums: &mut Vec<Option<TensorArg>>) -> DiagResult<()> {
        sums.resize(self.launch.kernel.outputs.len(), None);
        for k in 0..self.launch.kernel.exprs.len() {
            let held = self.expr(k)?;
            self.held[k] = Some(held);
            for o in 0..self.late.len() {
                if !self.late[o] && self.launch.kernel.outputs[o].value.index() == k {
                    self.store(o, sums);
                }
            }
            let operands: Vec<usize> =
                self.launch.kernel.exprs[k].operands().map(ExprId::index).chain([k]).collect();
            for a in operands {
                if self.last_use[a] <= k {
                    self.release(a);
                }
            }
        }
        self.store_late(sums);
        (0..self.held.len()).for_each(|a| self.release(a));
        Ok(())
    }

    fn release(&mut self, a: usize) {
        if let Some(held) = self.held[a].take() {
            held.owned.iter().for_each(|t| self.e.free(t));
        }
    }

    /// A tensor for the value of expression `k`: the output it is stored to, if that is all there is to do, else scratch.
    fn result(&mut self, k: usize, element: Element, dims: &[u64]) -> Held {
        let outputs = &self.launch.kernel.outputs;
        let direct = (0..outputs.len()).find(|&o| {
            outputs[o].value.index() == k
                && !self.late[o]
                && Element::from(outputs[o].dtype) == element
                && !matches!(outputs[o].store, Store::ColSum { .. })
                && self.output_view(o).dims == dims
        });
        let Some(o) = direct else {
            let tensor = self.e.temp(element, dims);
            return Held { value: Value::Tensor(tensor.clone()), wide: None, owned: vec![tensor] };
        };
        self.stored[o] = true;
        Held { value: Value::Tensor(self.output_view(o)), wide: None, owned: Vec::new() }
    }

    /// Gives an expression the same value at another place, in scratch it owns.
    pub(super) fn replace(&mut self, id: ExprId, kept: TensorArg) {
        if let Some(held) = &mut self.held[id.index()] {
            held.value = Value::Tensor(kept.clone());
            held.owned.push(kept);
        }
    }

    pub(super) fn held(&self, id: ExprId) -> &Held {
        self.held[id.index()].as_ref().unwrap_or_else(|| ice!("expression {} is gone", id.0))
    }

    /// The value as it is in memory.
    fn native(&mut self, id: ExprId) -> TensorArg {
        match self.held(id).value.clone() {
            Value::Tensor(tensor) => tensor,
            Value::Const(value) => self.e.constant(value, 2),
        }
    }

    /// The value in f32.
    pub(super) fn wide(&mut self, id: ExprId) -> TensorArg {
        let native = self.native(id);
        if native.element == Element::F32 {
            return native;
        }
        if let Some(wide) = &self.held(id).wide {
            return wide.clone();
        }
        let wide = self.e.temp(Element::F32, &native.dims);
        cast(self.e, native, &wide);
        if let Some(held) = &mut self.held[id.index()] {
            held.wide = Some(wide.clone());
            held.owned.push(wide.clone());
        }
        wide
    }

    /// The value in a type that reductions read: f32 or bf16.
    pub(super) fn real(&mut self, id: ExprId) -> TensorArg {
        let native = self.native(id);
        if native.element == Element::I32 { self.wide(id) } else { native }
    }

    fn constant(&self, id: ExprId) -> Option<f32> {
        match self.held(id).value {
            Value::Const(value) => Some(value),
            Value::Tensor(_) => None,
        }
    }

    fn expr(&mut self, k: usize) -> DiagResult<Held> {
        let plain = |value| Held { value, wide: None, owned: Vec::new() };
        Ok(match self.launch.kernel.exprs[k] {
            Expr::Load(input) => return self.load(k, input as usize),
            Expr::Const(bits) => plain(Value::Const(f32::from_bits(bits))),
            Expr::ColIndex => self.col_index(k),
            Expr::Unary(f, a) => self.unary(k, f, a),
            Expr::Binary(f, a, b) => self.binary(k, f, a, b),
            Expr::Fma(a, b, c) => self.fma(k, a, b, c),
            Expr::SelectEq(a, b, then, other) => self.select(k, "aclnnEqTensor", [a, b, then, other]),
            Expr::SelectLt(a, b, then, other) => self.select(k, "aclnnLtTensor", [a, b, then, other]),
            Expr::SwapPairs(a) => {
                let x = self.native(a);
                if x.dims[1] == 1 { self.same(k, a) } else { self.swap_pairs(k, x) }
            }
            Expr::RowSum(a) => self.row_sum(k, a),
            Expr::RowMax(a) => {
                let x = self.real(a);
                if x.dims[1] == 1 { self.same(k, a) } else { self.row_max(k, x) }
            }
        })
    }

    /// The value of another expression.
    fn same(&mut self, k: usize, a: ExprId) -> Held {
        self.same_as[k] = Some(a.index());
        let mut owner = Some(a.index());
        while let Some(a) = owner {
            self.last_use[a] = self.last_use[a].max(self.last_use[k]);
            owner = self.same_as[a];
        }
        Held { owned: Vec::new(), ..self.held(a).clone() }
    }

    /// An input, without moving anything where its addresses are a view.
    fn load(&mut self, k: usize, input: usize) -> DiagResult<Held> {
        let Window { first, rows, cols, at, .. } = self.window;
        let spec = &self.launch.kernel.inputs[input];
        let size = spec.dtype.size_bytes() as u64;
        let base = self.launch.args[input];
        let flat = !matches!(self.cut, Cut::Rows { .. });
        let view = |dims: [u64; 2], skip: u64| dense(spec.dtype, &dims, base + skip * size);
        let view = match spec.access {
            Access::Full => view([rows, cols], at),
            Access::Col | Access::Gather { .. } if flat => view([rows, cols], at),
            Access::Col => view([1, cols], 0),
            Access::Row => view([rows, 1], first),
            Access::Scalar => view([1, 1], 0),
            Access::Gather { ids, num } => return Ok(self.gather(k, base, spec.dtype, ids as usize, num)),
            Access::Table { .. } if flat => {
                let message = "a kernel reads a table of rows over a flat domain";
                return Err(Diag::new("T0530", message));
            }
            Access::Table { row_div, row_mod, width } => {
                let held = self.result(k, spec.dtype.into(), &[rows, cols]);
                if let Value::Tensor(to) = &held.value {
                    let table = dense(spec.dtype, &[row_mod, width], base);
                    table::expand(self.e, &table, row_div, first, to);
                }
                return Ok(held);
            }
            Access::Tile => ice!("a tile outside of a contraction"),
        };
        Ok(Held { value: Value::Tensor(view), wide: None, owned: Vec::new() })
    }

    /// Rows of a table by number.
    fn gather(&mut self, k: usize, base: u64, dtype: DType, ids: usize, num: u64) -> Held {
        let Window { first, rows, cols, .. } = self.window;
        let (num_ids, skip) = match self.launch.kernel.inputs[ids].access {
            Access::Row => (rows, first),
            _ => (1, 0),
        };
        let ids_r = dense(DType::I32, &[num_ids], self.launch.args[ids] + skip * 4);
        let table_vc = dense(dtype, &[num, cols], base);
        let held = self.result(k, dtype.into(), &[num_ids, cols]);
        self.operator("aclnnEmbedding", vec![Arg::Tensor(table_vc), Arg::Tensor(ids_r)], &held);
        held
    }

    fn col_index(&mut self, k: usize) -> Held {
        let Window { rows, cols, at, .. } = self.window;
        if matches!(self.cut, Cut::Rows { .. }) {
            let at = self.e.table(TableFill::Iota { len: cols });
            let value = Value::Tensor(dense(Element::F32, &[1, cols], at));
            return Held { value, wide: None, owned: Vec::new() };
        }
        let table = self.e.table(TableFill::Iota { len: rows * cols });
        let iota = dense(Element::F32, &[rows, cols], table);
        let held = self.result(k, Element::F32, &[rows, cols]);
        self.with_scalar("aclnnAdds", iota, at as f32, &held);
        held
    }

    /// Appends an operator whose last argument is the result.
    pub(super) fn operator(&mut self, name: &str, mut args: Vec<Arg>, result: &Held) {
        let Value::Tensor(tensor) = &result.value else { ice!("an operator gives a tensor") };
        args.push(Arg::Tensor(tensor.clone()));
        self.e.operator(name, args);
    }

    /// `x + s`, `x * s` or `x / s`.
    fn with_scalar(&mut self, name: &str, x: TensorArg, scalar: f32, result: &Held) {
        let number = |x: f32| Arg::Scalar(Element::F32, f64::from(x));
        let mut args = vec![Arg::Tensor(x), number(scalar)];
        args.extend((name == "aclnnAdds").then(|| number(1.0)));
        self.operator(name, args, result);
    }

    fn unary(&mut self, k: usize, f: UnaryFn, a: ExprId) -> Held {
        let name = match f {
            UnaryFn::Neg => "aclnnNeg",
            UnaryFn::Exp => "aclnnExp",
            UnaryFn::Log => "aclnnLog",
            UnaryFn::Sqrt => "aclnnSqrt",
            UnaryFn::Rsqrt => "aclnnRsqrt",
            UnaryFn::Sigmoid => "aclnnSigmoid",
            UnaryFn::RoundBf16 => return self.round(k, a),
        };
        let x = self.wide(a);
        let held = self.result(k, Element::F32, &x.dims);
        self.operator(name, vec![Arg::Tensor(x)], &held);
        held
    }

    fn round(&mut self, k: usize, a: ExprId) -> Held {
        if let Some(value) = self.constant(a) {
            let rounded = DType::Bf16.round(f64::from(value)) as f32;
            return Held { value: Value::Const(rounded), wide: None, owned: Vec::new() };
        }
        let x = self.native(a);
        if x.element == Element::Bf16 {
            return self.same(k, a);
        }
        let held = self.result(k, Element::Bf16, &x.dims);
        self.operator("aclnnCast", vec![Arg::Tensor(x), Arg::Type(Element::Bf16)], &held);
        held
    }

    fn binary(&mut self, k: usize, f: BinaryFn, a: ExprId, b: ExprId) -> Held {
        let scalar = match (f, self.constant(a), self.constant(b)) {
            (_, Some(_), Some(_)) => None,
            (BinaryFn::Add, None, Some(c)) => Some(("aclnnAdds", a, c)),
            (BinaryFn::Add, Some(c), None) => Some(("aclnnAdds", b, c)),
            (BinaryFn::Sub, None, Some(c)) => Some(("aclnnAdds", a, -c)),
            (BinaryFn::Mul, None, Some(c)) => Some(("aclnnMuls", a, c)),
            (BinaryFn::Mul, Some(c), None) => Some(("aclnnMuls", b, c)),
            (BinaryFn::Div, None, Some(c)) => Some(("aclnnDivs", a, c)),
            _ => None,
        };
        if let Some((name, x, c)) = scalar {
            let x = self.wide(x);
            let held = self.result(k, Element::F32, &x.dims);
            self.with_scalar(name, x, c, &held);
            return held;
        }
        let (x, y) = (self.wide(a), self.wide(b));
        let held = self.result(k, Element::F32, &joined(&[&x, &y]));
        let mut args = vec![Arg::Tensor(x), Arg::Tensor(y)];
        if matches!(f, BinaryFn::Add | BinaryFn::Sub) {
            args.push(Arg::Scalar(Element::F32, 1.0));
        }
        self.operator(operators::binary(f), args, &held);
        held
    }

    /// `a * b + c`; with a constant factor one operator.
    fn fma(&mut self, k: usize, a: ExprId, b: ExprId, c: ExprId) -> Held {
        let factor = match (self.constant(a), self.constant(b)) {
            (Some(factor), None) => Some((b, factor)),
            (None, Some(factor)) => Some((a, factor)),
            _ => None,
        };
        if let (Some((x, factor)), None) = (factor, self.constant(c)) {
            let (x, y) = (self.wide(x), self.wide(c));
            let held = self.result(k, Element::F32, &joined(&[&x, &y]));
            let factor = Arg::Scalar(Element::F32, f64::from(factor));
            self.operator("aclnnAdd", vec![Arg::Tensor(y), Arg::Tensor(x), factor], &held);
            return held;
        }
        let (x, y) = (self.wide(a), self.wide(b));
        let product = self.e.temp(Element::F32, &joined(&[&x, &y]));
        let args = vec![Arg::Tensor(x), Arg::Tensor(y), Arg::Tensor(product.clone())];
        self.e.operator("aclnnMul", args);
        let held = if let Some(c) = self.constant(c) {
            let held = self.result(k, Element::F32, &product.dims);
            self.with_scalar("aclnnAdds", product.clone(), c, &held);
            held
        } else {
            let z = self.wide(c);
            let held = self.result(k, Element::F32, &joined(&[&product, &z]));
            let one = Arg::Scalar(Element::F32, 1.0);
            self.operator("aclnnAdd", vec![Arg::Tensor(product.clone()), Arg::Tensor(z), one], &held);
            held
        };
        self.e.free(&product);
        held
    }

    fn select(&mut self, k: usize, compare: &str, [a, b, then, other]: [ExprId; 4]) -> Held {
        let (x, y) = (self.wide(a), self.wide(b));
        let condition = self.e.temp(Element::Bool, &joined(&[&x, &y]));
        let args = vec![Arg::Tensor(x), Arg::Tensor(y), Arg::Tensor(condition.clone())];
        self.e.operator(compare, args);
        let (then, other) = (self.wide(then), self.wide(other));
        let held = self.result(k, Element::F32, &joined(&[&condition, &then, &other]));
        let args = vec![Arg::Tensor(condition.clone()), Arg::Tensor(then), Arg::Tensor(other)];
        self.operator("aclnnSWhere", args, &held);
        self.e.free(&condition);
        held
    }

    fn swap_pairs(&mut self, k: usize, x: TensorArg) -> Held {
        let held = self.result(k, x.element, &x.dims);
        if let Value::Tensor(to) = &held.value {
            pairs::swap(self.e, &x, to);
        }
        held
    }

    fn row_sum(&mut self, k: usize, a: ExprId) -> Held {
        let x = self.real(a);
        let held = self.result(k, Element::F32, &[x.dims[0], 1]);
        if x.dims[1] != self.window.cols {
            // A value per row, added up once per column.
            let x = self.wide(a);
            self.with_scalar("aclnnMuls", x, self.window.cols as f32, &held);
            return held;
        }
        let args = vec![Arg::Tensor(x), Arg::Ints(vec![1]), Arg::Bool(true), Arg::Type(Element::F32)];
        self.operator("aclnnReduceSum", args, &held);
        held
    }

    fn row_max(&mut self, k: usize, x: TensorArg) -> Held {
        let held = self.result(k, x.element, &[x.dims[0], 1]);
        self.operator("aclnnAmax", vec![Arg::Tensor(x), Arg::Ints(vec![1]), Arg::Bool(true)], &held);
        held
    }
}

/// The dimensions of a function of tensors of two dimensions.
fn joined(tensors: &[&TensorArg]) -> Vec<u64> {
    (0..2).map(|i| tensors.iter().map(|t| t.dims[i]).max().unwrap_or(1)).collect()
}

/// Per output whether it shares memory with an input.
fn late(launch: &Launch<'_>) -> Vec<bool> {
    let signature = launch.kernel.signature(launch.rows, launch.len);
    let range =
        |(&at, &(dtype, elements)): (&u64, &(DType, u64))| (at, at + elements * dtype.size_bytes() as u64);
    let (ins, outs) = launch.args.split_at(signature.ins.len());
    let ins: Vec<(u64, u64)> = ins.iter().zip(&signature.ins).map(range).collect();
    let overlaps = |out: (u64, u64)| ins.iter().any(|&(start, end)| start < out.1 && out.0 < end);
    outs.iter().zip(&signature.outs).map(range).map(overlaps).collect()
}
