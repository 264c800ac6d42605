//! Truths of two elements.

use super::binary::{Form, Operand};
use super::lanes::Lanes;
use crate::fault::Fault;
use crate::operators::args::Args;
use crate::operators::check::{ALL, NUMBERS};
use crate::operators::compute::{DType, map};
use crate::operators::plan::Plan;

/// `out = f(self, other)`, 1 or 0 in the type of the output.
pub(super) fn compare<F, D, I>(
    args: &mut Args,
    form: Form,
    float: F,
    double: D,
    integer: I,
) -> Result<Plan, Fault>
where
    F: Fn(f32, f32) -> bool + Send + Sync + 'static,
    D: Fn(f64, f64) -> bool + Send + Sync + 'static,
    I: Fn(i64, i64) -> bool + Send + Sync + 'static,
{
    let (first, second, out) =
        (args.input("self")?, Operand::take(args, form, "other")?, args.output("out")?);
    first.is_of(NUMBERS)?;
    second.is_of(NUMBERS)?;
    out.is_of(ALL)?;
    out.has_dims(&second.joint_dims(&first)?, "the operands together")?;
    let meets: DType = second.meets(first.dtype());
    args.plan(0, move |launch| {
        let (a, b, out) = (&launch[&first], &second.view(launch), &launch[&out]);
        match Lanes::of(meets) {
            Lanes::I64 => map::<i64, 2, 3>([a, b], out, |[a, b]| i64::from(integer(a, b))),
            Lanes::F64 => map::<f64, 2, 3>([a, b], out, |[a, b]| f64::from(u8::from(double(a, b)))),
            Lanes::F32 => map::<f32, 2, 3>([a, b], out, |[a, b]| f32::from(u8::from(float(a, b)))),
        }
    })
}
