//! Functions of three operands.

use super::binary::{Form, Operand, lane};
use super::lanes::{Lanes, larger, map_f32, smaller};
use crate::fault::Fault;
use crate::operators::args::{Args, null};
use crate::operators::check::{ALL_FLOATS, FLOATS, NUMBERS, broadcast};
use crate::operators::compute::{DType, map};
use crate::operators::plan::Plan;

/// `out = min(max(self, low), high)`; one limit may be left out.
pub(super) fn clamp(args: &mut Args) -> Result<Plan, Fault> {
    let x = args.input("self")?;
    let (low, high) = (args.optional_scalar()?, args.optional_scalar()?);
    let out = args.output("out")?;
    if low.is_none() && high.is_none() {
        return Err(null("clipValueMin and clipValueMax"));
    }
    [&x, &out].into_iter().try_for_each(|tensor| tensor.is_of(NUMBERS))?;
    let limits = [low, high].into_iter().flatten();
    let result = limits.fold(x.dtype(), |dtype, limit| Operand::scalar(limit).meets(dtype));
    out.can_hold(result)?;
    out.is_shaped_as(&x)?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let (x, out) = (&launch[&x], &launch[&out]);
        match Lanes::of(result) {
            Lanes::I64 => {
                let (low, high) = (low.map_or(i64::MIN, lane), high.map_or(i64::MAX, lane));
                map::<i64, 1, 2>([x], out, |[x]| smaller(larger(x, low), high));
            }
            Lanes::F64 => {
                let (low, high) = (low.map_or(f64::NEG_INFINITY, lane), high.map_or(f64::INFINITY, lane));
                map::<f64, 1, 2>([x], out, |[x]| smaller(larger(x, low), high));
            }
            Lanes::F32 => {
                let (low, high) = (low.map_or(f32::NEG_INFINITY, lane), high.map_or(f32::INFINITY, lane));
                map_f32::<1, 2>([x], out, result, |[x]| smaller(larger(x, low), high));
            }
        }
    })
}

/// `out = condition ? self : other`.
pub(super) fn where_(args: &mut Args) -> Result<Plan, Fault> {
    let (condition, x, y, out) =
        (args.input("condition")?, args.input("self")?, args.input("other")?, args.output("out")?);
    condition.is_of(&[DType::Bool, DType::U8])?;
    [&x, &y, &out].into_iter().try_for_each(|tensor| tensor.is_of(NUMBERS))?;
    let result = x.dtype().promote(y.dtype());
    out.can_hold(result)?;
    out.has_dims(&broadcast(&[&condition, &x, &y])?, "the operands together")?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let (operands, out) = ([&launch[&condition], &launch[&x], &launch[&y]], &launch[&out]);
        match Lanes::of(result) {
            Lanes::I64 => map::<i64, 3, 4>(operands, out, |[c, x, y]| if c != 0 { x } else { y }),
            Lanes::F64 => map::<f64, 3, 4>(operands, out, |[c, x, y]| if c != 0.0 { x } else { y }),
            Lanes::F32 => map::<f32, 3, 4>(operands, out, |[c, x, y]| if c != 0.0 { x } else { y }),
        }
    })
}

/// `out = self + value * f(tensor1, tensor2)`.
fn add_of(args: &mut Args, f: fn(f64, f64) -> f64) -> Result<Plan, Fault> {
    let (x, first, second) = (args.input("self")?, args.input("tensor1")?, args.input("tensor2")?);
    let (value, out) = (args.scalar("value")?, args.output("out")?);
    [&x, &first, &second, &out].into_iter().try_for_each(|tensor| tensor.is_of(ALL_FLOATS))?;
    let result = x.dtype().promote(first.dtype()).promote(second.dtype());
    out.can_hold(result)?;
    out.has_dims(&broadcast(&[&x, &first, &second])?, "the operands together")?;
    args.allow_in_place();
    let value: f64 = lane(value);
    args.plan(0, move |launch| {
        let (operands, out) = ([&launch[&x], &launch[&first], &launch[&second]], &launch[&out]);
        match Lanes::of(result) {
            Lanes::F64 => map::<f64, 3, 4>(operands, out, |[x, a, b]| x + value * f(a, b)),
            _ => map_f32::<3, 4>(operands, out, result, |[x, a, b]| {
                x + value as f32 * f(f64::from(a), f64::from(b)) as f32
            }),
        }
    })
}

pub(super) fn addcmul(args: &mut Args) -> Result<Plan, Fault> {
    add_of(args, |a, b| a * b)
}

pub(super) fn addcdiv(args: &mut Args) -> Result<Plan, Fault> {
    add_of(args, |a, b| a / b)
}

/// `out = self + weight * (end - self)`, from the nearer end.
fn interpolate(args: &mut Args, form: Form) -> Result<Plan, Fault> {
    let (x, end) = (args.input("self")?, args.input("end")?);
    let weight = Operand::take(args, form, "weight")?;
    let out = args.output("out")?;
    x.is_of(FLOATS)?;
    [&end, &out].into_iter().try_for_each(|tensor| tensor.is_typed_as(&x))?;
    let mut operands = vec![&x, &end];
    if let Operand::Tensor(weight) = &weight {
        weight.is_typed_as(&x)?;
        operands.push(weight);
    }
    out.has_dims(&broadcast(&operands)?, "the operands together")?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let operands = [&launch[&x], &launch[&end], &weight.view(launch)];
        map::<f32, 3, 4>(operands, &launch[&out], |[x, end, w]| {
            if w.abs() < 0.5 { x + w * (end - x) } else { end - (end - x) * (1.0 - w) }
        });
    })
}

pub(super) fn lerp(args: &mut Args) -> Result<Plan, Fault> {
    interpolate(args, Form::Tensor)
}

pub(super) fn lerps(args: &mut Args) -> Result<Plan, Fault> {
    interpolate(args, Form::Scalar)
}
