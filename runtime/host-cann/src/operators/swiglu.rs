//! The gated activation: the first half of a dimension through SiLU, times the second half.

use super::args::Args;
use super::check::{FLOATS, dimension, ensure};
use super::compute::map;
use super::launch::Tensor;
use super::plan::Plan;
use super::{Operator, Table};
use crate::fault::Fault;

pub(super) const OPERATORS: Table = &[("aclnnSwiGlu", forward as Operator), ("aclnnSwiGluGrad", backward)];

/// The dimension that is halved, and its half.
fn halved(x: &Tensor, half: &Tensor, dim: i64) -> Result<(usize, usize), Fault> {
    x.is_of(FLOATS)?;
    x.has_rank(1..=8)?;
    half.is_typed_as(x)?;
    let dim = dimension(dim, x.rank(), "dim")?;
    let size = x.dims()[dim];
    ensure(size.is_multiple_of(2), || format!("x has {size} elements along dim {dim}, an odd number"))?;
    let mut dims = x.dims().to_vec();
    dims[dim] /= 2;
    half.has_dims(&dims, "half of x")?;
    Ok((dim, size / 2))
}

fn forward(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dim, out) = (args.input("x")?, args.i64(), args.output("out")?);
    let (dim, half) = halved(&x, &out, dim)?;
    x.is_contiguous()?;
    out.is_contiguous()?;
    args.plan(0, move |launch| {
        let x = &launch[&x];
        let (gate, up) = (x.sliced(dim, 0, half), x.sliced(dim, half, half));
        map::<f32, 2, 3>([&gate, &up], &launch[&out], |[a, b]| a / (1.0 + (-a).exp()) * b);
    })
}

fn backward(args: &mut Args) -> Result<Plan, Fault> {
    let (dy, x, dim, out) = (args.input("yGrad")?, args.input("x")?, args.i64(), args.output("out")?);
    let (dim, half) = halved(&x, &dy, dim)?;
    dy.is_contiguous()?;
    out.is_contiguous()?;
    out.is_typed_as(&x)?;
    out.is_shaped_as(&x)?;
    args.plan(0, move |launch| {
        let (dy, x, out) = (&launch[&dy], &launch[&x], &launch[&out]);
        let (gate, up) = (x.sliced(dim, 0, half), x.sliced(dim, half, half));
        map::<f32, 3, 4>([dy, &gate, &up], &out.sliced(dim, 0, half), |[dy, a, b]| {
            let s = 1.0 / (1.0 + (-a).exp());
            dy * b * s * (1.0 + a * (1.0 - s))
        });
        map::<f32, 2, 3>([dy, &gate], &out.sliced(dim, half, half), |[dy, a]| dy * a / (1.0 + (-a).exp()));
    })
}
