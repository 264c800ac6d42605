//! Functions of one tensor, and gradients of such.

use super::lanes::{Lanes, map_f32};
use crate::fault::Fault;
use crate::operators::args::Args;
use crate::operators::check::{ALL_FLOATS, FLOATS, NUMBERS};
use crate::operators::compute::{DType, map};
use crate::operators::plan::Plan;

/// `out = f(x)`. Without a function of integers, those become FLOAT.
pub(super) fn unary<F, D, I>(
    args: &mut Args,
    name: &str,
    float: F,
    double: D,
    integer: Option<I>,
) -> Result<Plan, Fault>
where
    F: Fn(f32) -> f32 + Send + Sync + 'static,
    D: Fn(f64) -> f64 + Send + Sync + 'static,
    I: Fn(i64) -> i64 + Send + Sync + 'static,
{
    let (x, out) = (args.input(name)?, args.output("out")?);
    x.is_of(NUMBERS)?;
    let result = if x.dtype().is_float() || integer.is_some() { x.dtype() } else { DType::F32 };
    out.is_of(if integer.is_some() { NUMBERS } else { ALL_FLOATS })?;
    out.can_hold(result)?;
    out.is_shaped_as(&x)?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let (x, out) = (&launch[&x], &launch[&out]);
        match (Lanes::of(result), &integer) {
            (Lanes::I64, Some(integer)) => map::<i64, 1, 2>([x], out, |[x]| integer(x)),
            (Lanes::F64, _) => map::<f64, 1, 2>([x], out, |[x]| double(x)),
            _ => map_f32::<1, 2>([x], out, result, |[x]| float(x)),
        }
    })
}

/// `gradInput = f(gradOutput, saved)`, all of one type and shape.
fn gradient(
    args: &mut Args,
    saved: &str,
    f: impl Fn(f32, f32) -> f32 + Send + Sync + 'static,
) -> Result<Plan, Fault> {
    let (grad, saved, out) = (args.input("gradOutput")?, args.input(saved)?, args.output("gradInput")?);
    grad.is_of(FLOATS)?;
    for other in [&saved, &out] {
        other.is_typed_as(&grad)?;
        other.is_shaped_as(&grad)?;
    }
    args.allow_in_place();
    args.plan(0, move |launch| {
        map::<f32, 2, 3>([&launch[&grad], &launch[&saved]], &launch[&out], |[g, x]| f(g, x));
    })
}

pub(super) fn silu_backward(args: &mut Args) -> Result<Plan, Fault> {
    gradient(args, "self", |g, x| {
        let s = 1.0 / (1.0 + (-x).exp());
        g * s * (1.0 + x * (1.0 - s))
    })
}

pub(super) fn sigmoid_backward(args: &mut Args) -> Result<Plan, Fault> {
    gradient(args, "output", |g, y| g * y * (1.0 - y))
}

pub(super) fn tanh_backward(args: &mut Args) -> Result<Plan, Fault> {
    gradient(args, "output", |g, y| g * (1.0 - y * y))
}

pub(super) fn is_finite(args: &mut Args) -> Result<Plan, Fault> {
    let (x, out) = (args.input("self")?, args.output("out")?);
    x.is_of(NUMBERS)?;
    out.is_of(&[DType::Bool])?;
    out.is_shaped_as(&x)?;
    args.plan(0, move |launch| {
        map::<f64, 1, 2>([&launch[&x]], &launch[&out], |[x]| f64::from(u8::from(x.is_finite())));
    })
}

pub(super) fn logical_not(args: &mut Args) -> Result<Plan, Fault> {
    let (x, out) = (args.input("self")?, args.output("out")?);
    x.is_of(NUMBERS)?;
    out.is_of(NUMBERS)?;
    out.is_shaped_as(&x)?;
    args.plan(0, move |launch| {
        map::<f64, 1, 2>([&launch[&x]], &launch[&out], |[x]| f64::from(u8::from(x == 0.0)));
    })
}
