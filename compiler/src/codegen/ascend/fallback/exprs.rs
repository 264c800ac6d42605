//! The expressions of one window.

use super::{Cut, Window};
use crate::codegen::ascend::emitter::Emitter;
use crate::codegen::ascend::launch::Launch;
use crate::codegen::ascend::native::cast;
use titan_ir::ascend::{Arg, Element, TensorArg};
use titan_ir::kernel::{Expr, ExprId, Store};
use titan_ir::{DType, DiagResult, ice};

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
    pub(super) wide: Option<TensorArg>,
    pub(super) owned: Vec<TensorArg>,
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
    pub(super) fn result(&mut self, k: usize, element: Element, dims: &[u64]) -> Held {
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
    pub(super) fn native(&mut self, id: ExprId) -> TensorArg {
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

    pub(super) fn constant(&self, id: ExprId) -> Option<f32> {
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
    pub(super) fn same(&mut self, k: usize, a: ExprId) -> Held {
        self.same_as[k] = Some(a.index());
        let mut owner = Some(a.index());
        while let Some(a) = owner {
            self.last_use[a] = self.last_use[a].max(self.last_use[k]);
            owner = self.same_as[a];
        }
        Held { owned: Vec::new(), ..self.held(a).clone() }
    }

    /// Appends an operator whose last argument is the result.
    pub(super) fn operator(&mut self, name: &str, mut args: Vec<Arg>, result: &Held) {
        let Value::Tensor(tensor) = &result.value else { ice!("an operator gives a tensor") };
        args.push(Arg::Tensor(tensor.clone()));
        self.e.operator(name, args);
    }

    /// `x + s`, `x * s` or `x / s`.
    pub(super) fn with_scalar(&mut self, name: &str, x: TensorArg, scalar: f32, result: &Held) {
        let number = |x: f32| Arg::Scalar(Element::F32, f64::from(x));
        let mut args = vec![Arg::Tensor(x), number(scalar)];
        args.extend((name == "aclnnAdds").then(|| number(1.0)));
        self.operator(name, args, result);
    }
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
