//! Elements that depend on where they are.

use crate::fault::Fault;
use crate::operators::args::Args;
use crate::operators::check::{ALL, INDICES, NUMBERS, dimension, ensure};
use crate::operators::compute::{DType, Rows, copy, fill, map_indexed};
use crate::operators::plan::Plan;

pub(super) fn arange(args: &mut Args) -> Result<Plan, Fault> {
    let (start, end, step) = (args.scalar("start")?, args.scalar("end")?, args.scalar("step")?);
    let out = args.output("out")?;
    out.is_of(NUMBERS)?;
    out.has_rank(1..=1)?;
    let runs = step.float != 0.0 && (end.float - start.float) * step.float >= 0.0;
    ensure(runs, || format!("step {} does not lead from {} to {}", step.float, start.float, end.float))?;
    let len = ((end.float - start.float) / step.float).ceil() as usize;
    out.has_dims(&[len], "the range")?;
    args.plan(0, move |launch| {
        let out = &launch[&out];
        if out.dtype.is_float() {
            map_indexed::<f64>(out, |i| start.float + i as f64 * step.float);
        } else {
            map_indexed::<i64>(out, |i| start.integer + i as i64 * step.integer);
        }
    })
}

pub(super) fn one_hot(args: &mut Args) -> Result<Plan, Fault> {
    let (x, num_classes) = (args.input("self")?, args.i32());
    let (on, off, axis, out) =
        (args.input("onValue")?, args.input("offValue")?, args.i64(), args.output("out")?);
    x.is_of(&[DType::U8, INDICES[0], INDICES[1]])?;
    ensure(num_classes >= 0, || format!("numClasses is {num_classes}"))?;
    let axis = dimension(axis, x.rank() + 1, "axis")?;
    for value in [&on, &off] {
        value.is_typed_as(&out)?;
        ensure(value.view.num_elements() == 1, || format!("{} has more than one element", value.name))?;
    }
    let mut dims = x.dims().to_vec();
    dims.insert(axis, num_classes as usize);
    out.has_dims(&dims, "self with a dimension of classes")?;
    args.plan(0, move |launch| {
        let out = &launch[&out];
        copy(&launch[&off].broadcast_element(), out);
        let order: Vec<usize> = (0..out.rank()).filter(|&d| d != axis).chain([axis]).collect();
        let rows = Rows::new(&out.permuted(&order), order.len() - 1);
        for (index, class) in launch[&x].to_vec::<i64>().into_iter().enumerate() {
            if (0..i64::from(num_classes)).contains(&class) {
                copy(&launch[&on].broadcast_element(), &rows.row(index).at(0, class as usize));
            }
        }
    })
}

/// The part of a matrix that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Lower,
    Upper,
}

pub(super) fn triangle(args: &mut Args, side: Side) -> Result<Plan, Fault> {
    let (x, diagonal, out) = (args.input("self")?, args.i64(), args.output("out")?);
    x.is_of(ALL)?;
    x.has_rank(2..=8)?;
    out.is_typed_as(&x)?;
    out.is_shaped_as(&x)?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let kept = x.rank() - 1;
        let num_rows = x.dims()[kept - 1];
        let (x, out) = (Rows::new(&launch[&x], kept), Rows::new(&launch[&out], kept));
        for index in 0..x.len() {
            let width = x.width();
            // The columns up to the diagonal, and those before it.
            let column =
                |past: i64| ((index % num_rows) as i64 + diagonal + past).clamp(0, width as i64) as usize;
            let (keep, clear) = match side {
                Side::Lower => (0..column(1), column(1)..width),
                Side::Upper => (column(0)..width, 0..column(0)),
            };
            let (from, to) = (x.row(index), out.row(index));
            copy(&from.sliced(0, keep.start, keep.len()), &to.sliced(0, keep.start, keep.len()));
            fill(&to.sliced(0, clear.start, clear.len()), 0i64);
        }
    })
}
