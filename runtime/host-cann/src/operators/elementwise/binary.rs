//! Functions of two tensors, or of a tensor and a scalar.

use super::lanes::{Lanes, map_f32};
use crate::fault::Fault;
use crate::nnopbase::Scalar;
use crate::operators::args::Args;
use crate::operators::check::{NUMBERS, broadcast, ensure};
use crate::operators::compute::{DType, Lane, View, map};
use crate::operators::launch::{Launch, Tensor};
use crate::operators::plan::Plan;
use std::sync::Arc;

/// What the operands are, and whether the first is the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Tensor,
    Scalar,
    InplaceTensor,
    InplaceScalar,
    /// A tensor, and a scalar that is its exponent.
    Exponent,
}

/// An operand: a tensor, or a scalar of the host that was frozen.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    Tensor(Tensor),
    Scalar(Scalar, Arc<(f64, i64)>),
}

impl Operand {
    pub(super) fn scalar(scalar: Scalar) -> Self {
        Self::Scalar(scalar, Arc::new((scalar.float, scalar.integer)))
    }

    pub(super) fn take(args: &mut Args, form: Form, name: &str) -> Result<Self, Fault> {
        Ok(match form {
            Form::Tensor | Form::InplaceTensor => Self::Tensor(args.input(name)?),
            Form::Scalar | Form::InplaceScalar | Form::Exponent => Self::scalar(args.scalar(name)?),
        })
    }

    /// Where it is.
    pub(super) fn view(&self, launch: &Launch<'_>) -> View {
        match self {
            Self::Tensor(tensor) => launch[tensor].clone(),
            Self::Scalar(scalar, values) if scalar.dtype.is_float() => {
                View::contiguous(DType::F64, &[], &raw const values.0 as usize)
            }
            Self::Scalar(_, values) => View::contiguous(DType::I64, &[], &raw const values.1 as usize),
        }
    }

    /// The type it and `first` meet in: a scalar counts only if its kind is above the tensor's.
    pub(super) fn meets(&self, first: DType) -> DType {
        match self {
            Self::Tensor(tensor) => first.promote(tensor.dtype()),
            Self::Scalar(scalar, _) if scalar.dtype.category() > first.category() => {
                if scalar.dtype.is_float() { DType::F32 } else { scalar.dtype }
            }
            Self::Scalar(..) => first,
        }
    }

    /// The shape it and `first` broadcast to.
    pub(super) fn joint_dims(&self, first: &Tensor) -> Result<Vec<usize>, Fault> {
        match self {
            Self::Tensor(tensor) => broadcast(&[first, tensor]),
            Self::Scalar(..) => Ok(first.dims().to_vec()),
        }
    }

    pub(super) fn is_of(&self, allowed: &[DType]) -> Result<(), Fault> {
        match self {
            Self::Tensor(tensor) => tensor.is_of(allowed),
            Self::Scalar(scalar, _) => ensure(allowed.contains(&scalar.dtype), || {
                format!("other is a scalar of type {}", scalar.dtype)
            }),
        }
    }
}

/// A scalar in the type of lanes.
pub(super) fn lane<L: Lane>(scalar: Scalar) -> L {
    if scalar.dtype.is_float() { L::of_f64(scalar.float) } else { L::of(scalar.integer) }
}

/// `out = f(self, other, alpha)`. Without a function of integers, those become FLOAT.
pub(super) fn binary<F, D, I>(
    args: &mut Args,
    form: Form,
    has_alpha: bool,
    float: F,
    double: D,
    integer: Option<I>,
) -> Result<Plan, Fault>
where
    F: Fn([f32; 3]) -> f32 + Send + Sync + 'static,
    D: Fn([f64; 3]) -> f64 + Send + Sync + 'static,
    I: Fn([i64; 3]) -> i64 + Send + Sync + 'static,
{
    let in_place = matches!(form, Form::InplaceTensor | Form::InplaceScalar);
    let first = if in_place { args.updated("selfRef")? } else { args.input("self")? };
    let second = Operand::take(args, form, if form == Form::Exponent { "exponent" } else { "other" })?;
    let one = Scalar { dtype: DType::I64, float: 1.0, integer: 1 };
    let alpha = if has_alpha { args.scalar("alpha")? } else { one };
    let out = if in_place { first.clone() } else { args.output("out")? };
    [&first, &out].into_iter().try_for_each(|tensor| tensor.is_of(NUMBERS))?;
    second.is_of(NUMBERS)?;
    let meets = second.meets(first.dtype());
    ensure(!alpha.dtype.is_float() || meets.is_float(), || {
        format!("alpha has type {} and the operands meet in {meets}", alpha.dtype)
    })?;
    let result = if integer.is_some() || meets.is_float() { meets } else { DType::F32 };
    out.can_hold(result)?;
    out.has_dims(&second.joint_dims(&first)?, "the operands together")?;
    args.allow_in_place();
    args.plan(0, move |launch| {
        let (a, b, out) = (&launch[&first], &second.view(launch), &launch[&out]);
        match (Lanes::of(result), &integer) {
            (Lanes::I64, Some(f)) => {
                let alpha = lane(alpha);
                map::<i64, 2, 3>([a, b], out, |[a, b]| f([a, b, alpha]));
            }
            (Lanes::F64, _) => {
                let alpha = lane(alpha);
                map::<f64, 2, 3>([a, b], out, |[a, b]| double([a, b, alpha]));
            }
            _ => {
                let alpha = lane(alpha);
                map_f32::<2, 3>([a, b], out, result, |[a, b]| float([a, b, alpha]));
            }
        }
    })
}

/// `out = self ^ exponent`.
pub(super) fn pow_tensor_scalar(args: &mut Args) -> Result<Plan, Fault> {
    let integer = |[base, exponent, _]: [i64; 3]| match u32::try_from(exponent) {
        Ok(exponent) => base.wrapping_pow(exponent),
        Err(_) => i64::from(base == 1),
    };
    let (f, d) = (|[x, e, _]: [f32; 3]| x.powf(e), |[x, e, _]: [f64; 3]| x.powf(e));
    binary(args, Form::Exponent, false, f, d, Some(integer))
}
