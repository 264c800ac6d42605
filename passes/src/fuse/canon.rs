//! Kernels in a canonical form: equal computations give equal [`RowKernel`]s, whatever values they run on.

use indexmap::IndexMap;
use titan_ir::kernel::{Access, Cols, Expr, ExprId, Input, Output, RowKernel, Store, UnaryFn};
use titan_ir::{DType, ValueId, ice};

/// What an input of a draft reads; `None` is the tile of a contraction.
type Operand = (Option<ValueId>, Input);

/// A kernel under construction over values of a function.
#[derive(Debug, Default)]
pub(super) struct Draft {
    inputs: IndexMap<Operand, ()>,
    exprs: IndexMap<Expr, ()>,
    outputs: Vec<(ValueId, Output)>,
}

/// A kernel and the values it runs on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound {
    /// The kernel.
    pub(super) kernel: RowKernel,
    /// The value of each input; the tile has none.
    pub(super) ins: Vec<ValueId>,
    /// The value of each output.
    pub(super) outs: Vec<ValueId>,
}

fn dense<K: std::hash::Hash + Eq>(map: &mut IndexMap<K, ()>, key: K) -> u32 {
    u32::try_from(map.insert_full(key, ()).0).expect("a kernel is small")
}

impl Draft {
    /// Declares an operand. One that [`Access::Gather`]s names the number [`Draft::input`] gave for its ids.
    pub(super) fn input(&mut self, value: Option<ValueId>, dtype: DType, access: Access) -> u32 {
        dense(&mut self.inputs, (value, Input { dtype, access }))
    }

    /// Adds an expression, unless it is there or does nothing.
    pub(super) fn expr(&mut self, expr: Expr) -> ExprId {
        if let Expr::Unary(UnaryFn::RoundBf16, x) = expr
            && self.is_bf16(x)
        {
            return x;
        }
        ExprId(dense(&mut self.exprs, expr))
    }

    /// `x` rounded to an element type.
    pub(super) fn rounded(&mut self, x: ExprId, dtype: DType) -> ExprId {
        match dtype {
            DType::Bf16 => self.expr(Expr::Unary(UnaryFn::RoundBf16, x)),
            DType::F32 | DType::I32 => x,
        }
    }

    /// Declares an output.
    pub(super) fn output(&mut self, value: ValueId, dtype: DType, store: Store, expr: ExprId) {
        self.outputs.push((value, Output { dtype, store, value: expr }));
    }

    /// Whether anything comes out.
    pub(super) fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    fn at(&self, id: ExprId) -> Expr {
        *self.exprs.get_index(id.index()).expect("an expression of this draft").0
    }

    /// Whether rounding `x` to bf16 changes nothing.
    fn is_bf16(&self, x: ExprId) -> bool {
        match self.at(x) {
            Expr::Load(k) => {
                self.inputs.get_index(k as usize).is_some_and(|((_, i), ())| i.dtype == DType::Bf16)
            }
            Expr::Unary(f, a) => f == UnaryFn::RoundBf16 || (f == UnaryFn::Neg && self.is_bf16(a)),
            Expr::SwapPairs(a) => self.is_bf16(a),
            Expr::Const(bits) => {
                DType::Bf16.round(f64::from(f32::from_bits(bits))) == f64::from(f32::from_bits(bits))
            }
            _ => false,
        }
    }

    /// The kernel: expressions and inputs numbered in the order in which the outputs reach them. An epilogue has the tile
    /// as its first input, used or not.
    pub(super) fn finish(self, cols: Cols, epilogue: bool) -> Bound {
        let mut canon = Canon {
            draft: &self,
            kernel: RowKernel { cols, inputs: Vec::new(), exprs: Vec::new(), outputs: Vec::new() },
            ins: Vec::new(),
            inputs: vec![None; self.inputs.len()],
            exprs: vec![None; self.exprs.len()],
        };
        if epilogue {
            let tile =
                self.inputs.get_index_of(&(None, TILE)).unwrap_or_else(|| ice!("an epilogue without a tile"));
            canon.input(tile);
        }
        for (_, output) in &self.outputs {
            // The store rounds.
            let value = match self.at(output.value) {
                Expr::Unary(UnaryFn::RoundBf16, x) if output.dtype == DType::Bf16 => x,
                _ => output.value,
            };
            let value = canon.expr(value);
            canon.kernel.outputs.push(Output { value, ..output.clone() });
        }
        Bound { kernel: canon.kernel, ins: canon.ins, outs: self.outputs.iter().map(|o| o.0).collect() }
    }
}

/// The input every epilogue starts with.
pub(super) const TILE: Input = Input { dtype: DType::F32, access: Access::Tile };

struct Canon<'a> {
    draft: &'a Draft,
    kernel: RowKernel,
    ins: Vec<ValueId>,
    /// New number of each input and expression of the draft.
    inputs: Vec<Option<u32>>,
    exprs: Vec<Option<ExprId>>,
}

impl Canon<'_> {
    fn input(&mut self, old: usize) -> u32 {
        if let Some(new) = self.inputs[old] {
            return new;
        }
        let ((value, input), ()) = self.draft.inputs.get_index(old).expect("an input of this draft");
        let access = match input.access {
            Access::Gather { ids, num } => Access::Gather { ids: self.input(ids as usize), num },
            access => access,
        };
        let new = u32::try_from(self.kernel.inputs.len()).expect("a kernel is small");
        self.kernel.inputs.push(Input { dtype: input.dtype, access });
        self.ins.extend(value);
        self.inputs[old] = Some(new);
        new
    }

    fn expr(&mut self, old: ExprId) -> ExprId {
        if let Some(new) = self.exprs[old.index()] {
            return new;
        }
        let new = match self.draft.at(old) {
            Expr::Load(k) => Expr::Load(self.input(k as usize)),
            expr => expr.map(|e| self.expr(e)),
        };
        self.kernel.exprs.push(new);
        let id = ExprId(u32::try_from(self.kernel.exprs.len() - 1).expect("a kernel is small"));
        self.exprs[old.index()] = Some(id);
        id
    }
}
