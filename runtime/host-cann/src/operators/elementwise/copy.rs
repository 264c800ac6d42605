//! Conversions, copies and constants.

use super::binary::lane;
use crate::fault::Fault;
use crate::nnopbase::Scalar;
use crate::operators::args::Args;
use crate::operators::check::{ALL, broadcast, ensure};
use crate::operators::compute::{DType, copy, fill};
use crate::operators::launch::Tensor;
use crate::operators::plan::Plan;

pub(super) fn cast(args: &mut Args) -> Result<Plan, Fault> {
    let (x, dtype, out) = (args.input("self")?, args.dtype("dtype")?, args.output("out")?);
    ensure(out.dtype() == dtype, || format!("out has type {} and dtype is {dtype}", out.dtype()))?;
    out.is_shaped_as(&x)?;
    args.allow_in_place();
    args.plan(0, move |launch| copy(&launch[&x], &launch[&out]))
}

pub(super) fn inplace_copy(args: &mut Args) -> Result<Plan, Fault> {
    let (out, from) = (args.output("selfRef")?, args.input("src")?);
    out.has_dims(&broadcast(&[&out, &from])?, "selfRef and src together")?;
    args.plan(0, move |launch| copy(&launch[&from], &launch[&out]))
}

fn constant(args: &mut Args, out: Tensor, value: Scalar) -> Result<Plan, Fault> {
    out.is_of(ALL)?;
    args.plan(0, move |launch| {
        let out = &launch[&out];
        match out.dtype {
            DType::F64 => fill(out, lane::<f64>(value)),
            _ if out.dtype.is_float() => fill(out, lane::<f32>(value)),
            _ => fill(out, lane::<i64>(value)),
        }
    })
}

fn number(value: i64) -> Scalar {
    Scalar { dtype: DType::I64, float: value as f64, integer: value }
}

pub(super) fn inplace_zero(args: &mut Args) -> Result<Plan, Fault> {
    let out = args.output("selfRef")?;
    constant(args, out, number(0))
}

pub(super) fn inplace_one(args: &mut Args) -> Result<Plan, Fault> {
    let out = args.output("selfRef")?;
    constant(args, out, number(1))
}

pub(super) fn inplace_fill_scalar(args: &mut Args) -> Result<Plan, Fault> {
    let (out, value) = (args.output("selfRef")?, args.scalar("value")?);
    constant(args, out, value)
}
