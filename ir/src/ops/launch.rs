//! `launch`: a kernel, after fusion.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::eval::eval_row;
use crate::kernel::{
    Access, Attention, BinaryFn, Cols, Contract, Expr, ExprId, Input, KernelSpec, Native, Output, RowKernel,
    Store,
};
use crate::ops::attention::Heads;
use crate::ops::einsum::matmul;
use crate::ops::embedding::scatter_add;
use crate::ops::util::{AFTER_AUTODIFF, tensor};
use crate::shard::{ShardRule, letter};
use crate::{Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::SmallVec;
use std::sync::Arc;

/// A kernel on per-rank tensors. Operands and results are the kernel's inputs and outputs, in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The kernel.
    pub spec: Arc<KernelSpec>,
    /// Rows of the domain of a kernel of static columns; 1 for the others.
    pub rows: u64,
    /// Elements of the domain of a flat kernel.
    pub len: Option<u64>,
    /// Types of the results.
    pub results: Vec<TensorType>,
}

impl Launch {
    /// The results in f64. With `round` generated kernels round every expression as a backend does, and products are rounded to f32
    /// before an epilogue.
    pub fn run(&self, ins: &[&[f64]], round: bool) -> Vec<Vec<f64>> {
        match &*self.spec {
            KernelSpec::Row(kernel) => eval_row(kernel, self.rows, self.len, ins, round),
            KernelSpec::Native(Native::Contract(spec)) => contract(spec, ins, round),
            KernelSpec::Native(Native::Attention(spec)) => heads(spec).forward(ins[0], ins[1], ins[2]).into(),
            KernelSpec::Native(Native::AttentionGrad(spec)) => heads(spec).backward(ins).into(),
            KernelSpec::Native(Native::ScatterAdd(spec)) => {
                vec![scatter_add(spec.num, spec.cols, ins[0], ins[1])]
            }
        }
    }

    fn flops(&self) -> u64 {
        let elements = match &*self.spec {
            KernelSpec::Row(kernel) => kernel.signature(self.rows, self.len).outs.iter().map(|o| o.1).max(),
            KernelSpec::Native(_) => None,
        };
        let attention = |spec: &Attention, products: u64| {
            let pairs = if spec.causal {
                (0..spec.q_tokens).map(|i| (i + 1).min(spec.kv_tokens)).sum::<u64>()
            } else {
                spec.q_tokens * spec.kv_tokens
            };
            2 * products * spec.batch * spec.heads * pairs * spec.head_dim
        };
        match &*self.spec {
            KernelSpec::Row(kernel) => elements.unwrap_or(0) * num_operations(kernel),
            KernelSpec::Native(Native::Contract(spec)) => {
                let epilogue = spec.epilogue.as_ref().map_or(0, num_operations);
                spec.m * spec.n * (2 * spec.k + epilogue)
            }
            KernelSpec::Native(Native::Attention(spec)) => attention(spec, 2),
            KernelSpec::Native(Native::AttentionGrad(spec)) => attention(spec, 5),
            KernelSpec::Native(Native::ScatterAdd(spec)) => spec.tokens * spec.cols,
        }
    }
}

/// Expressions that compute.
fn num_operations(kernel: &RowKernel) -> u64 {
    kernel.exprs.iter().filter(|e| e.operands().next().is_some()).count() as u64
}

fn heads(spec: &Attention) -> Heads {
    let q = [spec.batch, spec.q_tokens, spec.heads, spec.head_dim];
    let k = [spec.batch, spec.kv_tokens, spec.kv_heads, spec.head_dim];
    Heads::new(spec.causal, f64::from(f32::from_bits(spec.scale_bits)), &q, &k)
}

fn contract(spec: &Contract, ins: &[&[f64]], round: bool) -> Vec<Vec<f64>> {
    let mut c = matmul(spec, ins[0], ins[1]);
    let Some(epilogue) = &spec.epilogue else { return vec![c] };
    if round {
        c.iter_mut().for_each(|x| *x = DType::F32.round(*x));
    }
    let operands: Vec<&[f64]> = std::iter::once(c.as_slice()).chain(ins[2..].iter().copied()).collect();
    eval_row(epilogue, spec.m, None, &operands, round)
}

impl OpRules for Launch {
    fn name(&self) -> &'static str {
        "launch"
    }
    fn attrs(&self) -> Attrs {
        let len = self.len.map(|n| ("len", Attr::Int(n as i64)));
        [("spec", Attr::Kernel(self.spec.clone())), ("rows", Attr::Int(self.rows as i64))]
            .into_iter()
            .chain(len)
            .chain([("results", Attr::Types(self.results.clone()))])
            .collect()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let op = Self {
            spec: attrs.kernel("spec")?,
            rows: attrs.uint("rows")?,
            len: if attrs.has("len") { Some(attrs.uint("len")?) } else { None },
            results: attrs.types("results")?,
        };
        attrs.finish().map(|()| op)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        if let KernelSpec::Row(kernel) = &*self.spec
            && matches!(kernel.cols, Cols::Flat { .. }) != self.len.is_some()
        {
            let message = "`launch` of a flat kernel has a length, of a kernel of static columns it has none";
            return Err(Diag::new("T0105", message));
        }
        let signature = self.spec.signature(self.rows, self.len);
        let results: Vec<&TensorType> = self.results.iter().collect();
        for (what, types, buffers) in
            [("operand", ins, &signature.ins), ("result", &results, &signature.outs)]
        {
            if types.len() != buffers.len() {
                let message =
                    format!("`launch` of a kernel with {} {what}s, got {}", buffers.len(), types.len());
                return Err(Diag::new("T0101", message));
            }
            for (i, (ty, &(dtype, num_elements))) in types.iter().zip(buffers).enumerate() {
                if ty.dtype != dtype {
                    let message =
                        format!("`launch`: element type of {what} {i} is {}, expected {dtype}", ty.dtype);
                    return Err(Diag::new("T0102", message));
                }
                if ty.num_elements() != num_elements {
                    let message = format!(
                        "`launch`: {what} {i} has {} elements {:?}, expected {num_elements}",
                        ty.num_elements(),
                        ty.dims
                    );
                    return Err(Diag::new("T0103", message));
                }
            }
        }
        Ok(self.results.iter().map(|ty| TensorType::new(ty.dtype, &ty.dims)).collect())
    }
    fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::NotDifferentiable(AFTER_AUTODIFF))
    }
    /// Nothing may be sharded: the kernel is written for these sizes.
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let mut num_letters = 0;
        let mut factors = |rank: usize| {
            num_letters += rank;
            (num_letters - rank..num_letters).map(|i| SmallVec::from_slice(&[letter(i)])).collect()
        };
        let mut rule = ShardRule::pointwise(0, 0);
        rule.ins = ins.iter().map(|ty| factors(ty.rank())).collect();
        rule.outs = self.results.iter().map(|ty| factors(ty.rank())).collect();
        rule.replicated = (0..num_letters).map(letter).collect();
        rule
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, _: &[&TensorType], _: &[&TensorType]) -> Lowering {
        Lowering::Launch(self.spec.clone())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::of(self.flops(), ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let operands: Vec<&[f64]> = ins.iter().map(|t| t.data.as_slice()).collect();
        self.run(&operands, false).into_iter().zip(outs).map(|(data, ty)| tensor(ty, data)).collect()
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let t = |dims: &[u64]| TensorType::new(DType::F32, dims);
        let input = |access| Input { dtype: DType::F32, access };
        let twice = |access| RowKernel {
            cols: Cols::Static(5),
            inputs: vec![input(access)],
            exprs: vec![Expr::Load(0), Expr::Binary(BinaryFn::Add, ExprId(0), ExprId(0))],
            outputs: vec![Output { dtype: DType::F32, store: Store::Full, value: ExprId(1) }],
        };
        let flat = RowKernel { cols: Cols::Flat { chunk: 4 }, ..twice(Access::Full) };
        let product = Contract {
            dtype: DType::F32,
            out: DType::F32,
            m: 3,
            n: 5,
            k: 2,
            trans_a: false,
            trans_b: true,
            epilogue: Some(twice(Access::Tile)),
        };
        let launch =
            |spec, rows, len, out: &[u64]| Self { spec: Arc::new(spec), rows, len, results: vec![t(out)] };
        vec![
            (launch(KernelSpec::Row(twice(Access::Full)), 3, None, &[3, 5]), vec![t(&[15])]),
            (launch(KernelSpec::Row(flat), 1, Some(6), &[6]), vec![t(&[2, 3])]),
            (
                launch(KernelSpec::Native(Native::Contract(product)), 1, None, &[3, 5]),
                vec![t(&[3, 2]), t(&[5, 2])],
            ),
        ]
    }
}
