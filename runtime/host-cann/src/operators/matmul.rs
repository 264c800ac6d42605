//! Products of matrices. Transposed operands are views with swapped strides; nothing is copied for them.

use super::args::Args;
use super::check::{FLOATS, broadcast, ensure};
use super::compute::{DType, View, map, matmul, matmul_hf32};
use super::launch::Tensor;
use super::plan::Plan;
use super::{Operator, Table};
use crate::fault::Fault;
use crate::nnopbase::Scalar;
use crate::soc::Family;

/// Room of the cube's own kernels.
const SYSTEM_BYTES: usize = 16 << 20;

pub(super) const OPERATORS: Table = &[
    ("aclnnMm", (|args| product(args, 2..=2)) as Operator),
    ("aclnnMatmul", |args| product(args, 1..=6)),
    ("aclnnBatchMatMul", |args| product(args, 3..=3)),
    ("aclnnAddmm", |args| addmm(args, false)),
    ("aclnnInplaceAddmm", |args| addmm(args, true)),
    ("aclnnBaddbmm", baddbmm),
];

/// Types: both operands alike on A2 and A3; a result of another type only where the cube can store it.
fn check_types(args: &Args, a: &Tensor, b: &Tensor, out: &Tensor) -> Result<(), Fault> {
    [a, b, out].into_iter().try_for_each(|tensor| tensor.is_of(FLOATS))?;
    b.is_typed_as(a)?;
    let widens = out.dtype() == DType::F32 && a.dtype() != DType::F32;
    if widens && args.family == Family::A5 {
        return Ok(());
    }
    out.is_typed_as(a)
}

/// `cubeMathType` 0 keeps types; 1 lets f32 be computed in HF32; 3 demands it; 4 adds long sums in groups.
///
/// Gives whether the operands are rounded to HF32.
fn takes_hf32(args: &mut Args, a: &Tensor) -> Result<bool, Fault> {
    let code = args.i8();
    let allowed: &[i8] = if a.dtype() == DType::F32 { &[0, 1, 3, 4] } else { &[0, 1] };
    ensure(allowed.contains(&code), || {
        format!("cubeMathType is {code}; for {} allowed: {allowed:?}", a.dtype())
    })?;
    Ok(a.dtype() == DType::F32 && matches!(code, 1 | 3))
}

/// `out = self @ mat2` of `ranks`; with vectors and broadcast batches where those are allowed.
fn product(args: &mut Args, ranks: std::ops::RangeInclusive<usize>) -> Result<Plan, Fault> {
    let (a, b, out) = (args.input("self")?, args.input("mat2")?, args.output("out")?);
    check_types(args, &a, &b, &out)?;
    let hf32 = takes_hf32(args, &a)?;
    [&a, &b].into_iter().try_for_each(|tensor| tensor.has_rank(ranks.clone()))?;
    let shape = Shape::of(&a, &b, hf32)?;
    out.has_dims(&shape.out, "the product")?;
    out.is_contiguous()?;
    args.plan_as_is(SYSTEM_BYTES, move |launch| {
        shape.multiply(&launch[&a], &launch[&b], &launch[&out], |product, out| out.assign(product));
    })
}

/// The operands as matrices in a joint batch.
#[derive(Debug, Clone)]
struct Shape {
    batch: Vec<usize>,
    /// Whether the operands are vectors.
    vectors: [bool; 2],
    out: Vec<usize>,
    hf32: bool,
}

impl Shape {
    fn of(a: &Tensor, b: &Tensor, hf32: bool) -> Result<Self, Fault> {
        let vectors = [a.rank() == 1, b.rank() == 1];
        let k_of_b = b.dims()[b.rank().saturating_sub(2)];
        let k_of_a = *a.dims().last().expect("ranks were checked");
        ensure(k_of_a == k_of_b, || {
            format!(
                "{} has shape {:?} and {} has {:?}: {k_of_a} and {k_of_b} differ",
                a.name,
                a.dims(),
                b.name,
                b.dims()
            )
        })?;
        let lead = |tensor: &Tensor| tensor.rank().saturating_sub(2);
        let batch_of = |tensor: &Tensor| {
            let mut batch = tensor.clone();
            batch.view.dims.truncate(lead(tensor));
            batch.view.strides.truncate(lead(tensor));
            batch
        };
        let batch = broadcast(&[&batch_of(a), &batch_of(b)])?;
        let mut out = batch.clone();
        if !vectors[0] {
            out.push(a.dims()[a.rank() - 2]);
        }
        if !vectors[1] {
            out.push(b.dims()[b.rank() - 1]);
        }
        Ok(Self { batch, vectors, out, hf32 })
    }

    /// Multiplies every pair of matrices and gives each product with the piece of the output it is for.
    fn multiply(&self, a: &View, b: &View, out: &View, mut store: impl FnMut(&[f32], &View)) {
        let (a, b) = (as_matrices(a, self.vectors[0], 0), as_matrices(b, self.vectors[1], 1));
        let mut c = out.clone();
        if self.vectors[0] {
            c.dims.insert(self.batch.len(), 1);
            c.strides.insert(self.batch.len(), 1);
        }
        if self.vectors[1] {
            c.dims.push(1);
            c.strides.push(1);
        }
        let stack = |view: &View| {
            let dims = [&self.batch[..], &view.dims[view.rank() - 2..]].concat();
            view.broadcast(&dims)
        };
        let (a, b) = (stack(&a), stack(&b));
        let (a_at, b_at, c_at) = (matrices(&a), matrices(&b), matrices(&c));
        let mut result = vec![0.0; c.dims[c.rank() - 2] * c.dims[c.rank() - 1]];
        for ((a, b), c) in a_at.zip(b_at).zip(c_at) {
            let multiply = if self.hf32 { matmul_hf32 } else { matmul };
            multiply(&a, &b, &mut result);
            store(&result, &c);
        }
    }
}

/// A vector as a matrix: a row if it stands left, a column if right.
fn as_matrices(view: &View, is_vector: bool, side: usize) -> View {
    let mut view = view.clone();
    if is_vector {
        view.dims.insert(side, 1);
        view.strides.insert(side, 1);
    }
    view
}

/// The matrices of the last two dimensions.
fn matrices(view: &View) -> impl Iterator<Item = View> {
    let lead = view.rank() - 2;
    let mut batch = view.clone();
    batch.dims.truncate(lead);
    batch.strides.truncate(lead);
    let (dims, strides) = (view.dims[lead..].to_vec(), view.strides[lead..].to_vec());
    let offsets: Vec<usize> = batch.offsets().collect();
    offsets.into_iter().map(move |at| View {
        dtype: batch.dtype,
        dims: dims.clone(),
        strides: strides.clone(),
        address: batch.address + at * batch.dtype.size_bytes(),
    })
}

/// `out = beta * self + alpha * mat1 @ mat2`.
fn addmm(args: &mut Args, in_place: bool) -> Result<Plan, Fault> {
    let bias = if in_place { args.updated("selfRef")? } else { args.input("self")? };
    let (a, b) = (args.input("mat1")?, args.input("mat2")?);
    let (beta, alpha) = (args.scalar("beta")?, args.scalar("alpha")?);
    let out = if in_place { bias.clone() } else { args.output("out")? };
    [&a, &b].into_iter().try_for_each(|tensor| tensor.has_rank(2..=2))?;
    scaled_sum(args, [bias, a, b, out], beta, alpha)
}

/// As [`addmm`], of batches.
fn baddbmm(args: &mut Args) -> Result<Plan, Fault> {
    let (bias, a, b) = (args.input("self")?, args.input("batch1")?, args.input("batch2")?);
    let (beta, alpha, out) = (args.scalar("beta")?, args.scalar("alpha")?, args.output("out")?);
    [&a, &b].into_iter().try_for_each(|tensor| tensor.has_rank(3..=3))?;
    scaled_sum(args, [bias, a, b, out], beta, alpha)
}

fn scaled_sum(
    args: &mut Args,
    [bias, a, b, out]: [Tensor; 4],
    beta: Scalar,
    alpha: Scalar,
) -> Result<Plan, Fault> {
    check_types(args, &a, &b, &out)?;
    bias.is_of(FLOATS)?;
    let hf32 = takes_hf32(args, &a)?;
    let shape = Shape::of(&a, &b, hf32)?;
    out.has_dims(&shape.out, "the product")?;
    out.is_contiguous()?;
    broadcast(&[&bias, &out])?;
    let (beta, alpha) = (beta.float as f32, alpha.float as f32);
    args.allow_in_place();
    args.plan_as_is(SYSTEM_BYTES, move |launch| {
        let (bias, out) = (launch[&bias].broadcast(&shape.out), &launch[&out]);
        let mut pieces = matrices(&bias);
        shape.multiply(&launch[&a], &launch[&b], out, |product, out| {
            let bias = pieces.next().expect("a bias for every product");
            let mut product = product.to_vec();
            let product = View::of_f32(&mut product, &out.dims);
            map::<f32, 2, 3>([&bias, &product], out, |[bias, product]| {
                if beta == 0.0 { alpha * product } else { beta * bias + alpha * product }
            });
        });
    })
}
