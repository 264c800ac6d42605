//! Softmax along a dimension, its logarithm, and their gradients.

use super::args::Args;
use super::check::{FLOATS, dimension};
use super::compute::{Rows, View};
use super::launch::Tensor;
use super::plan::Plan;
use super::{Operator, Table};
use crate::fault::Fault;

pub(super) const OPERATORS: Table = &[
    ("aclnnSoftmax", (|args| forward(args, softmax)) as Operator),
    ("aclnnLogSoftmax", |args| forward(args, log_softmax)),
    ("aclnnSoftmaxBackward", |args| backward(args, softmax_grad)),
    ("aclnnLogSoftmaxBackward", |args| backward(args, log_softmax_grad)),
];

/// The largest value and the sum of exponentials of the differences to it.
pub(super) fn max_and_sum(row: &[f32]) -> (f32, f32) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut parts = [0.0f32; 8];
    for (i, x) in row.iter().enumerate() {
        parts[i % 8] += (x - max).exp();
    }
    (max, parts.iter().sum())
}

fn softmax(row: &mut [f32]) {
    let (max, sum) = max_and_sum(row);
    row.iter_mut().for_each(|x| *x = (*x - max).exp() / sum);
}

fn log_softmax(row: &mut [f32]) {
    let (max, sum) = max_and_sum(row);
    let log = sum.ln();
    row.iter_mut().for_each(|x| *x = *x - max - log);
}

/// `dx = (dy - sum(dy * y)) * y`.
fn softmax_grad(dy: &mut [f32], y: &[f32]) {
    let total: f32 = dy.iter().zip(y).map(|(dy, y)| dy * y).sum();
    dy.iter_mut().zip(y).for_each(|(dy, y)| *dy = (*dy - total) * y);
}

/// `dx = dy - exp(y) * sum(dy)`.
fn log_softmax_grad(dy: &mut [f32], y: &[f32]) {
    let total: f32 = dy.iter().sum();
    dy.iter_mut().zip(y).for_each(|(dy, y)| *dy -= y.exp() * total);
}

/// Rows along dimension `dim`.
fn along(view: &View, dim: usize) -> Rows {
    let order: Vec<usize> = (0..view.rank()).filter(|&d| d != dim).chain([dim]).collect();
    Rows::new(&view.permuted(&order), view.rank() - 1)
}

fn check(tensors: &[&Tensor], dim: i64) -> Result<usize, Fault> {
    tensors[0].is_of(FLOATS)?;
    tensors[0].has_rank(1..=8)?;
    for other in &tensors[1..] {
        other.is_shaped_as(tensors[0])?;
    }
    dimension(dim, tensors[0].rank(), "dim")
}

fn forward(args: &mut Args, apply: fn(&mut [f32])) -> Result<Plan, Fault> {
    let (x, dim, out) = (args.input("self")?, args.i64(), args.output("out")?);
    let dim = check(&[&x, &out], dim)?;
    out.is_of(FLOATS)?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let (x, out) = (along(&launch[&x], dim), along(&launch[&out], dim));
        let mut row = vec![0.0f32; x.width()];
        for index in 0..x.len() {
            x.load(index, &mut row);
            apply(&mut row);
            out.store(index, &row);
        }
    })
}

fn backward(args: &mut Args, apply: fn(&mut [f32], &[f32])) -> Result<Plan, Fault> {
    let (dy, y, dim, out) =
        (args.input("gradOutput")?, args.input("output")?, args.i64(), args.output("out")?);
    let dim = check(&[&dy, &y, &out], dim)?;
    y.is_of(FLOATS)?;
    out.is_of(FLOATS)?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let (dy, y, out) = (along(&launch[&dy], dim), along(&launch[&y], dim), along(&launch[&out], dim));
        let (mut dy_row, mut y_row) = (vec![0.0f32; dy.width()], vec![0.0f32; dy.width()]);
        for index in 0..dy.len() {
            dy.load(index, &mut dy_row);
            y.load(index, &mut y_row);
            apply(&mut dy_row, &y_row);
            out.store(index, &dy_row);
        }
    })
}
