//! Root-mean-square normalisation and its gradient, in f32 with one rounding.

use super::args::Args;
use super::check::{FLOATS, ensure};
use super::compute::{DType, Order, Rows};
use super::launch::Tensor;
use super::plan::Plan;
use super::{Operator, Table};
use crate::fault::Fault;

/// Cores that each keep a partial gradient of the weight.
const CORES: usize = 48;
/// Room of the system's own kernels.
const SYSTEM_BYTES: usize = 16 << 20;

pub(super) const OPERATORS: Table = &[
    ("aclnnRmsNorm", rms_norm as Operator),
    ("aclnnRmsNormGrad", rms_norm_grad),
    ("aclnnAddRmsNorm", |args| add_rms_norm(args, false)),
    ("aclnnInplaceAddRmsNorm", |args| add_rms_norm(args, true)),
];

/// The weight's type is that of `x`, or f32; its shape is the end of `x`'s. Gives the number of leading dimensions.
fn check_weight(x: &Tensor, gamma: &Tensor) -> Result<usize, Fault> {
    x.is_of(FLOATS)?;
    if gamma.dtype() != DType::F32 {
        gamma.is_typed_as(x)?;
    }
    let fits = gamma.rank() >= 1 && x.dims().ends_with(gamma.dims());
    ensure(fits, || {
        format!("gamma has shape {:?}, which is not the end of {}'s {:?}", gamma.dims(), x.name, x.dims())
    })?;
    Ok(x.rank() - gamma.rank())
}

/// One reciprocal root per row: the leading dimensions of `x`, with or without a 1 for each normalised one.
fn check_rstd(rstd: &Tensor, x: &Tensor, lead: usize) -> Result<(), Fault> {
    rstd.is_of(&[DType::F32])?;
    let (dims, ones) = rstd.dims().split_at(lead.min(rstd.rank()));
    let fits = dims == &x.dims()[..lead]
        && ones.iter().all(|&d| d == 1)
        && (ones.is_empty() || ones.len() == x.rank() - lead);
    ensure(fits, || {
        format!(
            "{} has shape {:?}; one value per row of {} {:?} is expected",
            rstd.name,
            rstd.dims(),
            x.name,
            x.dims()
        )
    })
}

/// The sum of `f` of the indices below `n`, in eight parts, as vector units add.
fn sum(n: usize, f: impl Fn(usize) -> f32) -> f32 {
    let mut parts = [0.0f32; 8];
    for from in (0..n / 8 * 8).step_by(8) {
        parts.iter_mut().enumerate().for_each(|(i, part)| *part += f(from + i));
    }
    (n / 8 * 8..n).for_each(|i| parts[i % 8] += f(i));
    parts.iter().sum()
}

/// The reciprocal root mean square of a row.
fn reciprocal_root(row: &[f32], epsilon: f32) -> f32 {
    1.0 / (sum(row.len(), |i| row[i] * row[i]) / row.len() as f32 + epsilon).sqrt()
}

fn rms_norm(args: &mut Args) -> Result<Plan, Fault> {
    let (x, gamma, epsilon) = (args.input("x")?, args.input("gamma")?, args.f64() as f32);
    let (out, rstd) = (args.output("yOut")?, args.output("rstdOut")?);
    x.has_rank(1..=8)?;
    let lead = check_weight(&x, &gamma)?;
    out.is_typed_as(&x)?;
    out.is_shaped_as(&x)?;
    check_rstd(&rstd, &x, lead)?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let (x, out) = (Rows::new(&launch[&x], lead), Rows::new(&launch[&out], lead));
        let rstd = Rows::new(&launch[&rstd], lead);
        normalize(&x, &launch[&gamma].to_vec(), epsilon, &out, &rstd);
    })
}

fn normalize(x: &Rows, gamma: &[f32], epsilon: f32, out: &Rows, rstd: &Rows) {
    let mut row = vec![0.0f32; x.width()];
    for index in 0..x.len() {
        x.load(index, &mut row);
        let scale = reciprocal_root(&row, epsilon);
        row.iter_mut().zip(gamma).for_each(|(x, g)| *x = *x * scale * g);
        out.store(index, &row);
        rstd.store(index, &[scale]);
    }
}

/// `x = x1 + x2`, then its norm. In place, `x1` becomes the norm and `x2` the sum.
fn add_rms_norm(args: &mut Args, in_place: bool) -> Result<Plan, Fault> {
    let take = |args: &mut Args, name: &str| match in_place {
        true => args.updated(&format!("{name}Ref")),
        false => args.input(name),
    };
    let (x1, x2, gamma) = (take(args, "x1")?, take(args, "x2")?, args.input("gamma")?);
    let epsilon = args.f64() as f32;
    let (out, rstd, total) = if in_place {
        (x1.clone(), args.output("rstdOut")?, x2.clone())
    } else {
        (args.output("yOut")?, args.output("rstdOut")?, args.output("xOut")?)
    };
    let lead = check_weight(&x1, &gamma)?;
    for tensor in [&x2, &gamma, &out, &total] {
        tensor.is_typed_as(&x1)?;
    }
    for tensor in [&x2, &out, &total] {
        tensor.is_shaped_as(&x1)?;
    }
    check_rstd(&rstd, &x1, lead)?;
    args.plan(0, move |launch| {
        let rows = |tensor: &Tensor| Rows::new(&launch[tensor], lead);
        let (x1, x2, total, out, rstd) = (rows(&x1), rows(&x2), rows(&total), rows(&out), rows(&rstd));
        let (mut a, mut b) = (vec![0.0f32; x1.width()], vec![0.0f32; x1.width()]);
        for index in 0..x1.len() {
            x1.load(index, &mut a);
            x2.load(index, &mut b);
            a.iter_mut().zip(&b).for_each(|(a, b)| *a += b);
            total.store(index, &a);
        }
        normalize(&total, &launch[&gamma].to_vec(), epsilon, &out, &rstd);
    })
}

fn rms_norm_grad(args: &mut Args) -> Result<Plan, Fault> {
    let (dy, x, rstd, gamma) =
        (args.input("dy")?, args.input("x")?, args.input("rstd")?, args.input("gamma")?);
    let (dx, dgamma) = (args.output("dxOut")?, args.output("dgammaOut")?);
    x.has_rank(2..=8)?;
    let lead = check_weight(&x, &gamma)?;
    for tensor in [&dy, &dx] {
        tensor.is_typed_as(&x)?;
        tensor.is_shaped_as(&x)?;
    }
    check_rstd(&rstd, &x, lead)?;
    dgamma.is_of(&[DType::F32])?;
    dgamma.is_shaped_as(&gamma)?;
    let own_bytes = SYSTEM_BYTES + CORES * gamma.view.num_elements() * 4;
    args.plan(own_bytes, move |launch| {
        let rows = |tensor: &Tensor| Rows::new(&launch[tensor], lead);
        let operands = [rows(&dy), rows(&x), rows(&rstd), rows(&dx)];
        let sums = gradient(&operands, &launch[&gamma].to_vec(), launch.order);
        launch[&dgamma].assign(&sums);
    })
}

/// Writes the gradient of each row, and gives that of the weight, whose rows are added in `order`.
fn gradient([dy, x, rstd, dx]: &[Rows; 4], gamma: &[f32], order: Order) -> Vec<f32> {
    let width = x.width();
    let mut sums = vec![0.0f32; width];
    let (mut dy_row, mut x_row, mut scale) = (vec![0.0f32; width], vec![0.0f32; width], [0.0f32]);
    for index in order.indices(x.len()) {
        dy.load(index, &mut dy_row);
        x.load(index, &mut x_row);
        rstd.load(index, &mut scale);
        let scale = scale[0];
        for ((sum, dy), x) in sums.iter_mut().zip(&dy_row).zip(&x_row) {
            *sum += dy * (x * scale);
        }
        let mean = sum(width, |i| dy_row[i] * gamma[i] * (x_row[i] * scale)) / width as f32;
        for ((dy, g), x) in dy_row.iter_mut().zip(gamma).zip(&x_row) {
            *dy = scale * (*dy * g - x * scale * mean);
        }
        dx.store(index, &dy_row);
    }
    sums
}
