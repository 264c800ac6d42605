//! One tensor to another shape or order.

use crate::fault::Fault;
use crate::operators::args::Args;
use crate::operators::check::{ALL, dimension, dimensions, ensure, invalid};
use crate::operators::compute::{Rows, View, copy};
use crate::operators::launch::Tensor;
use crate::operators::plan::Plan;

/// `out` has the type of `x` and these dimensions.
fn check(x: &Tensor, out: &Tensor, dims: &[usize], what: &str) -> Result<(), Fault> {
    x.is_of(ALL)?;
    out.is_typed_as(x)?;
    out.has_dims(dims, what)
}

pub(super) fn permute(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dims, out) = (args.input("self")?, args.ints("dims")?, args.output("out")?);
    ensure(dims.len() == x.rank(), || {
        format!("dims has {} entries and self {} dimensions", dims.len(), x.rank())
    })?;
    let order: Vec<usize> = dims.iter().map(|&d| dimension(d, x.rank(), "dims")).collect::<Result<_, _>>()?;
    dimensions(&dims, x.rank(), "dims")?;
    check(&x, &out, &order.iter().map(|&d| x.dims()[d]).collect::<Vec<_>>(), "self permuted")?;
    args.plan(0, move |launch| copy(&launch[&x].permuted(&order), &launch[&out]))
}

pub(super) fn slice(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dim) = (args.input("self")?, args.i64());
    let (start, end, step) = (args.i64(), args.i64(), args.i64());
    let out = args.output("out")?;
    x.has_rank(1..=8)?;
    let dim = dimension(dim, x.rank(), "dim")?;
    let step =
        usize::try_from(step).ok().filter(|&s| s > 0).ok_or_else(|| invalid(format!("step is {step}")))?;
    let size = x.dims()[dim] as i64;
    let place = |at: i64| if at < 0 { at + size } else { at }.clamp(0, size) as usize;
    let (start, end) = (place(start), place(end));
    let mut dims = x.dims().to_vec();
    dims[dim] = end.saturating_sub(start).div_ceil(step);
    check(&x, &out, &dims, "the slice")?;
    let len = dims[dim];
    args.plan(0, move |launch| {
        let mut piece = launch[&x].sliced(dim, start, len);
        piece.strides[dim] *= step;
        copy(&piece, &launch[&out]);
    })
}

pub(super) fn expand(args: &mut Args) -> Result<Plan, Fault> {
    let (x, size, out) = (args.input("self")?, args.ints("size")?, args.output("out")?);
    let too_few = || invalid(format!("size {size:?} does not extend self's shape {:?}", x.dims()));
    let lead = size.len().checked_sub(x.rank()).ok_or_else(too_few)?;
    let dim = |(i, &size): (usize, &i64)| match usize::try_from(size) {
        Ok(size) if i < lead || x.dims()[i - lead] == size || x.dims()[i - lead] == 1 => Ok(size),
        Err(_) if size == -1 && i >= lead => Ok(x.dims()[i - lead]),
        _ => Err(too_few()),
    };
    let dims: Vec<usize> = size.iter().enumerate().map(dim).collect::<Result<_, _>>()?;
    check(&x, &out, &dims, "size")?;
    args.plan(0, move |launch| copy(&launch[&x], &launch[&out]))
}

pub(super) fn repeat(args: &mut Args) -> Result<Plan, Fault> {
    let (x, repeats, out) = (args.input("self")?, args.ints("repeats")?, args.output("out")?);
    let wrong = || invalid(format!("repeats {repeats:?} does not suit self's shape {:?}", x.dims()));
    let lead = repeats.len().checked_sub(x.rank()).ok_or_else(wrong)?;
    let counts: Vec<usize> =
        repeats.iter().map(|&r| usize::try_from(r).map_err(|_| wrong())).collect::<Result<_, _>>()?;
    let size = |i: usize| if i < lead { 1 } else { x.dims()[i - lead] };
    let dims: Vec<usize> = counts.iter().enumerate().map(|(i, r)| r * size(i)).collect();
    check(&x, &out, &dims, "self repeated")?;
    args.plan(0, move |launch| {
        let (x, out) = (&launch[&x], &launch[&out]);
        let rank = counts.len();
        // Every dimension of the output becomes two: which repetition, and where in it.
        let mut split = View { dims: Vec::new(), strides: Vec::new(), ..out.clone() };
        for (i, &count) in counts.iter().enumerate() {
            let size = if i < lead { 1 } else { x.dims[i - lead] };
            split.dims.extend([count, size]);
            split.strides.extend([out.strides[i] * size, out.strides[i]]);
        }
        let order: Vec<usize> = (0..rank).map(|i| 2 * i).chain((0..rank).map(|i| 2 * i + 1)).collect();
        let pieces = Rows::new(&split.permuted(&order), rank);
        (0..pieces.len()).for_each(|index| copy(x, &pieces.row(index)));
    })
}

pub(super) fn flip(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dims, out) = (args.input("self")?, args.ints("dims")?, args.output("out")?);
    let axes = if dims.is_empty() { Vec::new() } else { dimensions(&dims, x.rank(), "dims")? };
    check(&x, &out, x.dims(), "self")?;
    args.plan(0, move |launch| {
        let order: Vec<usize> =
            axes.iter().copied().chain((0..x.rank()).filter(|d| !axes.contains(d))).collect();
        let (x, out) = (launch[&x].permuted(&order), launch[&out].permuted(&order));
        let (x, out) = (Rows::new(&x, axes.len()), Rows::new(&out, axes.len()));
        let last = x.len().saturating_sub(1);
        (0..x.len()).for_each(|index| copy(&x.row(index), &out.row(last - index)));
    })
}
