//! `einsum`: contraction of two tensors, one matrix product.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::{Contract, Native};
use crate::ops::util::{ct_as, operands, tensor, want_dtype, want_float, want_rank};
use crate::shard::{Linear, ShardRule};
use crate::{
    Cost, DType, Diag, DiagResult, Dims, Lowering, Numerics, Op, OpRules, TensorType, Types, ValueId, Vjp,
    VjpCx,
};
use smallvec::{SmallVec, smallvec};

/// Contraction `A,B->C` accumulated in f32, e.g. `"bsk,nk->bsn"`.
///
/// Every letter is in exactly two of the three tensors: letters of A and C are rows, of B and C columns, of A and B are summed.
/// In each tensor the letters of a kind are contiguous and in one order, and C lists its rows first, so that the contraction is one
/// matrix product of operands stored as they are or transposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Einsum {
    /// The letters of both operands and the result.
    pub spec: String,
    /// Element type of the result.
    pub out: DType,
}

/// The parts of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Letters of the left operand, the right operand and the result.
    pub tensors: [Vec<char>; 3],
    /// Letters of rows, columns and the sum.
    pub m: Vec<char>,
    /// See `m`.
    pub n: Vec<char>,
    /// See `m`.
    pub k: Vec<char>,
    /// The left operand is stored summed letters first.
    pub trans_a: bool,
    /// The right operand is stored columns first.
    pub trans_b: bool,
}

impl Spec {
    /// Takes a spec apart.
    ///
    /// # Errors
    /// T0105 when it is not one matrix product.
    pub fn parse(spec: &str) -> DiagResult<Self> {
        let bad = |why: &str| Diag::new("T0105", format!("`einsum` spec \"{spec}\" {why}"));
        let parts = spec.split_once("->").and_then(|(ins, c)| ins.split_once(',').map(|(a, b)| [a, b, c]));
        let parts =
            parts.ok_or_else(|| bad("is not of the form A,B->C").help("for example \"bsk,nk->bsn\""))?;
        let tensors = parts.map(|t| t.chars().collect::<Vec<char>>());
        for (i, tensor) in tensors.iter().enumerate() {
            for (at, letter) in tensor.iter().enumerate() {
                if !letter.is_ascii_lowercase() {
                    return Err(bad(&format!("has `{letter}`, expected letters a to z")));
                }
                if tensor[..at].contains(letter) {
                    return Err(bad(&format!("has `{letter}` twice in one tensor")));
                }
                let others = (0..3).filter(|&j| j != i && tensors[j].contains(letter)).count();
                if others != 1 {
                    let count = others + 1;
                    return Err(bad(&format!("has `{letter}` in {count} of the 3 tensors, expected in 2")));
                }
            }
        }
        let [a, b, c] = &tensors;
        let common =
            |x: &[char], y: &[char]| x.iter().copied().filter(|l| y.contains(l)).collect::<Vec<char>>();
        let (m, n, k) = (common(c, a), common(c, b), common(a, b));
        let is = |t: &[char], first: &[char], second: &[char]| t == [first, second].concat();
        let (trans_a, trans_b) = (!is(a, &m, &k), !is(b, &k, &n));
        let one_product = is(c, &m, &n) && (!trans_a || is(a, &k, &m)) && (!trans_b || is(b, &n, &k));
        if !one_product {
            let why = "is not one matrix product: the result lists the left operand's letters, then the right operand's, \
                       and in every tensor the letters shared with another one are contiguous and in the same order";
            return Err(bad(why));
        }
        Ok(Self { tensors, m, n, k, trans_a, trans_b })
    }
}

impl Einsum {
    /// The contraction of a spec, e.g. `"bsk,nk->bsn"`.
    pub fn new(spec: &str, out: DType) -> Self {
        Self { spec: spec.to_owned(), out }
    }

    /// The parts of the spec.
    ///
    /// # Errors
    /// T0105 when it is not one matrix product.
    pub fn parse(&self) -> DiagResult<Spec> {
        Spec::parse(&self.spec)
    }

    /// The matrix product that computes it on operands of these types.
    ///
    /// # Errors
    /// T0105 when the spec is not one matrix product.
    pub fn contract(&self, ins: &[&TensorType]) -> DiagResult<Contract> {
        let spec = self.parse()?;
        let size = |letters: &[char], tensor: usize| -> u64 {
            let sizes = spec.tensors[tensor].iter().zip(&ins[tensor].dims);
            sizes.filter(|(l, _)| letters.contains(l)).map(|(_, &n)| n).product()
        };
        Ok(Contract {
            dtype: ins[0].dtype,
            out: self.out,
            m: size(&spec.m, 0),
            n: size(&spec.n, 1),
            k: size(&spec.k, 0),
            trans_a: spec.trans_a,
            trans_b: spec.trans_b,
            epilogue: None,
        })
    }

    fn contract_checked(&self, ins: &[&TensorType]) -> Contract {
        self.contract(ins).expect("`infer` accepted the spec")
    }
}

/// The product of row-major matrices `[m, k]` (or `[k, m]`) and `[k, n]` (or `[n, k]`) in f64.
pub(crate) fn matmul(c: &Contract, a: &[f64], b: &[f64]) -> Vec<f64> {
    let (m, n, k) = (c.m as usize, c.n as usize, c.k as usize);
    let transposed;
    let b = if c.trans_b {
        transposed = transpose(b, n, k);
        &transposed
    } else {
        b
    };
    let mut out = vec![0.0; m * n];
    for (i, row) in out.chunks_mut(n.max(1)).enumerate() {
        for l in 0..k {
            let x = a[if c.trans_a { l * m + i } else { i * k + l }];
            row.iter_mut().zip(&b[l * n..]).for_each(|(sum, y)| *sum += x * y);
        }
    }
    out
}

fn transpose(x: &[f64], rows: usize, cols: usize) -> Vec<f64> {
    (0..rows * cols).map(|i| x[i % rows * cols + i / rows]).collect()
}

impl OpRules for Einsum {
    fn name(&self) -> &'static str {
        "einsum"
    }
    fn attrs(&self) -> Attrs {
        vec![("spec", Attr::Str(self.spec.clone())), ("out", Attr::DType(self.out))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let op = Self { spec: attrs.str("spec")?, out: attrs.dtype("out")? };
        attrs.finish().map(|()| op)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [a, b] = operands("einsum", ins)?;
        want_float("einsum", "the left operand", a)?;
        want_dtype("einsum", "the right operand", b, a.dtype)?;
        if !self.out.is_float() {
            return Err(Diag::new("T0102", format!("`einsum` gives f32 or bf16, not {}", self.out)));
        }
        let spec = self.parse()?;
        want_rank("einsum", "the left operand", a, spec.tensors[0].len())?;
        want_rank("einsum", "the right operand", b, spec.tensors[1].len())?;
        let size = |t: usize, letter: char| {
            spec.tensors[t].iter().zip(&ins[t].dims).find(|(l, _)| **l == letter).map(|(_, &n)| n)
        };
        for &letter in &spec.k {
            if let (Some(x), Some(y)) = (size(0, letter), size(1, letter))
                && x != y
            {
                let message = format!(
                    "`einsum` \"{}\": `{letter}` is {x} in the left operand {:?} and {y} in the right operand {:?}",
                    self.spec, a.dims, b.dims
                );
                return Err(Diag::new("T0103", message));
            }
        }
        let dims: Dims = spec.tensors[2].iter().filter_map(|&l| size(0, l).or(size(1, l))).collect();
        Ok(smallvec![TensorType::new(self.out, &dims)])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(2)) };
        let dtype = cx.func.ty(cx.ins[0]).dtype;
        let ct = ct_as(cx, ct, dtype)?;
        let spec = self.parse()?;
        let [a, b, c] = spec.tensors.each_ref().map(|t| t.iter().collect::<String>());
        let mut grad = |left: (&str, ValueId), right: (&str, ValueId), of: &str, swap: bool| {
            let (left, right) = if swap { (right, left) } else { (left, right) };
            let op = Self { spec: format!("{},{}->{of}", left.0, right.0), out: dtype };
            cx.func.emit1(op, &[left.1, right.1])
        };
        // The operand that holds the result's first letters goes left: so nothing is transposed.
        let d_a = grad((&c, ct), (&b, cx.ins[1]), &a, spec.trans_a)?;
        let d_b = grad((&a, cx.ins[0]), (&c, ct), &b, spec.trans_b)?;
        Ok(Vjp::Grads(smallvec![Some(d_a), Some(d_b)]))
    }
    fn shard(&self, _: &[&TensorType]) -> ShardRule {
        ShardRule::einsum(&self.spec).linear(Linear::Each)
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        Lowering::Native(Native::Contract(self.contract_checked(ins)))
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        let c = self.contract_checked(ins);
        Cost::of(2 * c.m * c.n * c.k, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let types = [0, 1].map(|i| TensorType::new(self.out, &ins[i].dims));
        let c = self.contract_checked(&[&types[0], &types[1]]);
        smallvec![tensor(outs[0], matmul(&c, &ins[0].data, &ins[1].data))]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let sample = |spec: &str, dtype, a: &[u64], b: &[u64]| {
            (Self::new(spec, dtype), vec![TensorType::new(dtype, a), TensorType::new(dtype, b)])
        };
        vec![
            sample("bsk,nk->bsn", DType::F32, &[2, 3, 5], &[7, 5]),
            sample("mk,kn->mn", DType::F32, &[4, 6], &[6, 4]),
            sample("km,kn->mn", DType::F32, &[4, 6], &[4, 2]),
            sample("km,nk->mn", DType::Bf16, &[3, 5], &[7, 3]),
            sample("bsn,bsk->nk", DType::F32, &[2, 3, 5], &[2, 3, 4]),
        ]
    }
}
