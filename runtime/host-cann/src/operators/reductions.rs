//! Many elements to one.

use super::args::Args;
use super::check::{FLOATS, INDICES, NUMBERS, dimension, dimensions, ensure, reduced};
use super::compute::{DType, Lane, Order, Reduction, Rows, View, reduce};
use super::launch::{Launch, Tensor};
use super::plan::Plan;
use super::{Operator, Table};
use crate::fault::Fault;

pub(super) const OPERATORS: Table = &[
    ("aclnnReduceSum", reduce_sum as Operator),
    ("aclnnMean", mean),
    ("aclnnAmax", |args| extreme_along(args, Extreme::Largest)),
    ("aclnnAmin", |args| extreme_along(args, Extreme::Smallest)),
    ("aclnnMax", |args| extreme_of_all(args, Extreme::Largest)),
    ("aclnnMin", |args| extreme_of_all(args, Extreme::Smallest)),
    ("aclnnAll", |args| truth_along(args, Extreme::Smallest)),
    ("aclnnAny", |args| truth_along(args, Extreme::Largest)),
    ("aclnnLogSumExp", log_sum_exp),
    ("aclnnArgMax", arg_max),
    ("aclnnLinalgVectorNorm", linalg_vector_norm),
    ("aclnnForeachNorm", foreach_norm),
];

fn sum<L: Lane + std::ops::Add<Output = L>>() -> Reduction<L, impl Fn(L, L) -> L + Copy> {
    Reduction { start: L::default(), step: |a, b| a + b }
}

/// A reduction of `x` along `axes` to `out`.
#[derive(Debug, Clone)]
struct Along {
    x: Tensor,
    axes: Vec<usize>,
    out: Tensor,
}

impl Along {
    /// Checks shapes.
    fn new(x: Tensor, dims: &[i64], keep: bool, out: Tensor) -> Result<Self, Fault> {
        let axes = dimensions(dims, x.rank(), "dim")?;
        out.has_dims(&reduced(x.dims(), &axes, keep), "self reduced")?;
        Ok(Self { x, axes, out })
    }

    fn count(&self) -> usize {
        self.axes.iter().map(|&axis| self.x.dims()[axis]).product()
    }

    fn f32(
        &self,
        launch: &Launch<'_>,
        order: Order,
        prepare: impl Fn(f32) -> f32,
        how: Reduction<f32, impl Fn(f32, f32) -> f32 + Copy>,
    ) -> Vec<f32> {
        reduce(&launch[&self.x], &self.axes, order, prepare, how)
    }
}

fn reduce_sum(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dims, keep, dtype) = (args.input("self")?, args.ints("dims")?, args.bool(), args.dtype("dtype")?);
    let out = args.output("out")?;
    [&x, &out].into_iter().try_for_each(|tensor| tensor.is_of(NUMBERS))?;
    ensure(out.dtype() == dtype, || format!("out has type {} and dtype is {dtype}", out.dtype()))?;
    let along = Along::new(x, &dims, keep, out)?;
    let own_bytes =
        if along.x.dtype() == dtype { 0 } else { along.x.view.num_elements() * dtype.size_bytes() };
    args.plan(own_bytes, move |launch| {
        let (x, out) = (&launch[&along.x], &launch[&along.out]);
        match (dtype, dtype.is_float()) {
            (DType::F64, _) => out.assign(&reduce::<f64>(x, &along.axes, Order::Fixed, |x| x, sum())),
            (_, true) => out.assign(&along.f32(launch, Order::Fixed, |x| x, sum())),
            _ => out.assign(&reduce::<i64>(x, &along.axes, Order::Fixed, |x| x, sum())),
        }
    })
}

fn mean(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dims, keep, dtype) = (args.input("self")?, args.ints("dim")?, args.bool(), args.dtype("dtype")?);
    let out = args.output("out")?;
    x.is_of(NUMBERS)?;
    out.is_of(FLOATS)?;
    ensure(out.dtype() == dtype, || format!("out has type {} and dtype is {dtype}", out.dtype()))?;
    let along = Along::new(x, &dims, keep, out)?;
    args.plan(0, move |launch| {
        let mut sums = along.f32(launch, Order::Fixed, |x| x, sum());
        let count = along.count() as f32;
        sums.iter_mut().for_each(|sum| *sum /= count);
        launch[&along.out].assign(&sums);
    })
}

/// Which element wins; a NaN always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extreme {
    Largest,
    Smallest,
}

impl Extreme {
    /// The extreme along `axes` of `f` of the elements.
    fn of_floats(self, x: &View, axes: &[usize], f: impl Fn(f64) -> f64) -> Vec<f64> {
        let larger = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
        let smaller = |a: f64, b: f64| if a <= b || a.is_nan() { a } else { b };
        match self {
            Self::Largest => {
                reduce(x, axes, Order::Fixed, f, Reduction { start: f64::NEG_INFINITY, step: larger })
            }
            Self::Smallest => {
                reduce(x, axes, Order::Fixed, f, Reduction { start: f64::INFINITY, step: smaller })
            }
        }
    }

    fn of_integers(self, x: &View, axes: &[usize]) -> Vec<i64> {
        match self {
            Self::Largest => {
                reduce(x, axes, Order::Fixed, |x| x, Reduction { start: i64::MIN, step: i64::max })
            }
            Self::Smallest => {
                reduce(x, axes, Order::Fixed, |x| x, Reduction { start: i64::MAX, step: i64::min })
            }
        }
    }

    fn apply(self, x: &View, axes: &[usize], out: &View) {
        if x.dtype.is_float() {
            out.assign(&self.of_floats(x, axes, |x| x));
        } else {
            out.assign(&self.of_integers(x, axes));
        }
    }
}

fn extreme_along(args: &mut Args, extreme: Extreme) -> Result<Plan, Fault> {
    let (x, dims, keep, out) = (args.input("self")?, args.ints("dim")?, args.bool(), args.output("out")?);
    extreme_checked(args, x, &dims, keep, out, extreme)
}

fn extreme_of_all(args: &mut Args, extreme: Extreme) -> Result<Plan, Fault> {
    let (x, out) = (args.input("self")?, args.output("out")?);
    extreme_checked(args, x, &[], false, out, extreme)
}

fn extreme_checked(
    args: &mut Args,
    x: Tensor,
    dims: &[i64],
    keep: bool,
    out: Tensor,
    extreme: Extreme,
) -> Result<Plan, Fault> {
    x.is_of(NUMBERS)?;
    out.is_typed_as(&x)?;
    let along = Along::new(x, dims, keep, out)?;
    ensure(along.count() > 0, || "self has no elements along dim".to_owned())?;
    args.plan(0, move |launch| extreme.apply(&launch[&along.x], &along.axes, &launch[&along.out]))
}

fn truth_along(args: &mut Args, extreme: Extreme) -> Result<Plan, Fault> {
    let (x, dims, keep, out) = (args.input("self")?, args.ints("dim")?, args.bool(), args.output("out")?);
    x.is_of(NUMBERS)?;
    out.is_of(super::check::MASKS)?;
    let along = Along::new(x, &dims, keep, out)?;
    args.plan(0, move |launch| {
        let (x, truth) = (&launch[&along.x], |x: f64| f64::from(u8::from(x != 0.0)));
        launch[&along.out].assign(&extreme.of_floats(x, &along.axes, truth));
    })
}

fn log_sum_exp(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dims, keep, out) = (args.input("self")?, args.ints("dim")?, args.bool(), args.output("out")?);
    x.is_of(NUMBERS)?;
    out.is_of(FLOATS)?;
    let along = Along::new(x, &dims, keep, out)?;
    args.plan(0, move |launch| {
        let axes = &along.axes;
        let kept: Vec<usize> = (0..along.x.rank()).filter(|d| !axes.contains(d)).collect();
        let rows = Rows::new(&launch[&along.x].permuted(&[&kept[..], axes].concat()), kept.len());
        let mut row = vec![0.0f32; rows.width()];
        let of_row = |index: usize| {
            rows.load(index, &mut row);
            let (max, sum) = super::softmax::max_and_sum(&row);
            max + sum.ln()
        };
        launch[&along.out].assign(&(0..rows.len()).map(of_row).collect::<Vec<f32>>());
    })
}

/// The first of the largest.
fn arg_max(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dim, keep, out) = (args.input("self")?, args.i64(), args.bool(), args.output("out")?);
    x.is_of(NUMBERS)?;
    out.is_of(INDICES)?;
    dimension(dim, x.rank(), "dim")?;
    let along = Along::new(x, &[dim], keep, out)?;
    ensure(along.count() > 0, || "self has no elements along dim".to_owned())?;
    args.plan(0, move |launch| {
        let dim = along.axes[0];
        let order: Vec<usize> = (0..along.x.rank()).filter(|&d| d != dim).chain([dim]).collect();
        let rows = Rows::new(&launch[&along.x].permuted(&order), order.len() - 1);
        let mut row = vec![0.0f64; rows.width()];
        let of_row = |index: usize| {
            rows.load(index, &mut row);
            let best = row.iter().enumerate().fold((0, row[0]), |(at, max), (i, &x)| {
                if x > max || (x.is_nan() && !max.is_nan()) { (i, x) } else { (at, max) }
            });
            best.0 as i64
        };
        launch[&along.out].assign(&(0..rows.len()).map(of_row).collect::<Vec<i64>>());
    })
}

/// The norm of order `ord` of everything along `axes`, in f32.
fn norm(x: &View, axes: &[usize], ord: f32, order: Order) -> Vec<f32> {
    if ord == f32::INFINITY {
        return reduce(x, axes, order, f32::abs, Reduction { start: 0.0, step: f32::max });
    }
    if ord == 2.0 {
        let squares: Vec<f32> = reduce(x, axes, order, |x: f32| x * x, sum());
        return squares.into_iter().map(f32::sqrt).collect();
    }
    let powers: Vec<f32> = reduce(x, axes, order, |x: f32| x.abs().powf(ord), sum());
    powers.into_iter().map(|sum| sum.powf(1.0 / ord)).collect()
}

fn linalg_vector_norm(args: &mut Args) -> Result<Plan, Fault> {
    let (x, ord, dims) =
        (args.input("self")?, args.scalar("ord")?, args.optional_ints()?.unwrap_or_default());
    let (keep, dtype, out) = (args.bool(), args.dtype("dtype")?, args.output("out")?);
    [&x, &out].into_iter().try_for_each(|tensor| tensor.is_of(FLOATS))?;
    ensure(out.dtype() == dtype, || format!("out has type {} and dtype is {dtype}", out.dtype()))?;
    let ord = ord.float as f32;
    ensure(ord > 0.0, || format!("ord is {ord}; this host takes positive orders"))?;
    let along = Along::new(x, &dims, keep, out)?;
    args.plan(0, move |launch| {
        launch[&along.out].assign(&norm(&launch[&along.x], &along.axes, ord, launch.order));
    })
}

fn foreach_norm(args: &mut Args) -> Result<Plan, Fault> {
    let (tensors, ord, outs) = (args.inputs("x")?, args.scalar("scalar")?, args.outputs("out")?);
    ensure(!tensors.is_empty() && tensors.len() <= 256, || {
        format!("x has {} tensors; allowed: 1 to 256", tensors.len())
    })?;
    ensure(tensors.len() == outs.len(), || {
        format!("out has {} tensors and x {}", outs.len(), tensors.len())
    })?;
    for (x, out) in tensors.iter().zip(&outs) {
        x.is_of(FLOATS)?;
        x.is_typed_as(&tensors[0])?;
        out.is_typed_as(x)?;
        out.is_contiguous()?;
        ensure(out.view.num_elements() == 1, || {
            format!("{} has shape {:?}; one element is expected", out.name, out.dims())
        })?;
    }
    let ord = ord.float as f32;
    ensure(ord == 1.0 || ord == 2.0, || format!("scalar is {ord}; allowed: 1, 2"))?;
    args.plan(0, move |launch| {
        for (x, out) in tensors.iter().zip(&outs) {
            let axes: Vec<usize> = (0..x.rank()).collect();
            launch[out].assign(&norm(&launch[x], &axes, ord, Order::Fixed));
        }
    })
}
