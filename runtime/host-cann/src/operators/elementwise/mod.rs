//! Operators that give one result per element. Types meet as in torch; results are computed in f32, DOUBLE in f64, integers in
//! 64 bits, and rounded to the type the operands meet in, then to that of the output.

mod binary;
mod compare;
mod copy;
mod lanes;
mod ternary;
mod unary;

use super::Operator;
use super::Table;
use binary::Form::{InplaceScalar, InplaceTensor, Scalar, Tensor};
use lanes::{larger, smaller};

/// A function of one element, of floats only: integers become floats.
macro_rules! float {
    ($name:literal, $x:ident => $body:expr) => {
        float!($name, "self", $x => $body)
    };
    ($name:literal, $parameter:literal, $x:ident => $body:expr) => {
        (
            $name,
            (|args| unary::unary(args, $parameter, |$x: f32| $body, |$x: f64| $body, None::<fn(i64) -> i64>)) as Operator,
        )
    };
}

/// A function of one element of any type.
macro_rules! number {
    ($name:literal, $x:ident => $body:expr) => {
        (
            $name,
            (|args| unary::unary(args, "self", |$x: f32| $body, |$x: f64| $body, Some(|$x: i64| $body)))
                as Operator,
        )
    };
}

/// A function of two elements: `$form` says what the operands are.
macro_rules! binary {
    ($name:literal, $form:expr, [$a:ident, $b:ident] => $body:expr) => {
        (
            $name,
            (|args| {
                let (f, d, i) = (
                    |[$a, $b, _]: [f32; 3]| $body,
                    |[$a, $b, _]: [f64; 3]| $body,
                    |[$a, $b, _]: [i64; 3]| $body,
                );
                binary::binary(args, $form, false, f, d, Some(i))
            }) as Operator,
        )
    };
}

/// As `binary!`, with a factor `alpha` after the operands.
macro_rules! scaled {
    ($name:literal, $form:expr, [$a:ident, $b:ident, $s:ident] => $body:expr) => {
        (
            $name,
            (|args| {
                let (f, d, i) = (
                    |[$a, $b, $s]: [f32; 3]| $body,
                    |[$a, $b, $s]: [f64; 3]| $body,
                    |[$a, $b, $s]: [i64; 3]| $body,
                );
                binary::binary(args, $form, true, f, d, Some(i))
            }) as Operator,
        )
    };
}

/// A quotient: integers become floats.
macro_rules! quotient {
    ($name:literal, $form:expr) => {
        (
            $name,
            (|args| {
                let none = None::<fn([i64; 3]) -> i64>;
                binary::binary(
                    args,
                    $form,
                    false,
                    |[a, b, _]: [f32; 3]| a / b,
                    |[a, b, _]: [f64; 3]| a / b,
                    none,
                )
            }) as Operator,
        )
    };
}

/// A truth of two elements.
macro_rules! truth {
    ($name:literal, $form:expr, [$a:ident, $b:ident] => $body:expr) => {
        (
            $name,
            (|args| {
                compare::compare(
                    args,
                    $form,
                    |$a: f32, $b: f32| $body,
                    |$a: f64, $b: f64| $body,
                    |$a: i64, $b: i64| $body,
                )
            }) as Operator,
        )
    };
}

pub(super) const OPERATORS: Table = &[
    number!("aclnnNeg", x => -x),
    number!("aclnnAbs", x => x.abs()),
    number!("aclnnSquare", x => x * x),
    float!("aclnnExp", x => x.exp()),
    float!("aclnnLog", x => x.ln()),
    float!("aclnnSqrt", x => x.sqrt()),
    float!("aclnnRsqrt", x => x.sqrt().recip()),
    float!("aclnnReciprocal", x => x.recip()),
    float!("aclnnSin", x => x.sin()),
    float!("aclnnCos", "input", x => x.cos()),
    float!("aclnnTanh", x => x.tanh()),
    float!("aclnnSigmoid", x => ((-x).exp() + 1.0).recip()),
    float!("aclnnSilu", x => x / ((-x).exp() + 1.0)),
    ("aclnnSiluBackward", unary::silu_backward),
    ("aclnnSigmoidBackward", unary::sigmoid_backward),
    ("aclnnTanhBackward", unary::tanh_backward),
    ("aclnnIsFinite", unary::is_finite),
    ("aclnnLogicalNot", unary::logical_not),
    scaled!("aclnnAdd", Tensor, [a, b, s] => a + s * b),
    scaled!("aclnnAdds", Scalar, [a, b, s] => a + s * b),
    scaled!("aclnnInplaceAdd", InplaceTensor, [a, b, s] => a + s * b),
    scaled!("aclnnInplaceAdds", InplaceScalar, [a, b, s] => a + s * b),
    scaled!("aclnnSub", Tensor, [a, b, s] => a - s * b),
    scaled!("aclnnSubs", Scalar, [a, b, s] => a - s * b),
    scaled!("aclnnInplaceSub", InplaceTensor, [a, b, s] => a - s * b),
    scaled!("aclnnRsubs", Scalar, [a, b, s] => b - s * a),
    binary!("aclnnMul", Tensor, [a, b] => a * b),
    binary!("aclnnMuls", Scalar, [a, b] => a * b),
    binary!("aclnnInplaceMul", InplaceTensor, [a, b] => a * b),
    binary!("aclnnInplaceMuls", InplaceScalar, [a, b] => a * b),
    quotient!("aclnnDiv", Tensor),
    quotient!("aclnnDivs", Scalar),
    quotient!("aclnnInplaceDiv", InplaceTensor),
    quotient!("aclnnInplaceDivs", InplaceScalar),
    binary!("aclnnMaximum", Tensor, [a, b] => larger(a, b)),
    binary!("aclnnMinimum", Tensor, [a, b] => smaller(a, b)),
    binary!("aclnnClampMin", Scalar, [a, b] => larger(a, b)),
    binary!("aclnnClampMax", Scalar, [a, b] => smaller(a, b)),
    ("aclnnPowTensorScalar", binary::pow_tensor_scalar),
    truth!("aclnnEqTensor", Tensor, [a, b] => a == b),
    truth!("aclnnEqScalar", Scalar, [a, b] => a == b),
    truth!("aclnnNeTensor", Tensor, [a, b] => a != b),
    truth!("aclnnNeScalar", Scalar, [a, b] => a != b),
    truth!("aclnnLtTensor", Tensor, [a, b] => a < b),
    truth!("aclnnLtScalar", Scalar, [a, b] => a < b),
    truth!("aclnnLeTensor", Tensor, [a, b] => a <= b),
    truth!("aclnnLeScalar", Scalar, [a, b] => a <= b),
    truth!("aclnnGtTensor", Tensor, [a, b] => a > b),
    truth!("aclnnGtScalar", Scalar, [a, b] => a > b),
    truth!("aclnnGeTensor", Tensor, [a, b] => a >= b),
    truth!("aclnnGeScalar", Scalar, [a, b] => a >= b),
    truth!("aclnnLogicalAnd", Tensor, [a, b] => lanes::is_true(a) && lanes::is_true(b)),
    truth!("aclnnLogicalOr", Tensor, [a, b] => lanes::is_true(a) || lanes::is_true(b)),
    ("aclnnClamp", ternary::clamp),
    ("aclnnSWhere", ternary::where_),
    ("aclnnAddcmul", ternary::addcmul),
    ("aclnnAddcdiv", ternary::addcdiv),
    ("aclnnLerp", ternary::lerp),
    ("aclnnLerps", ternary::lerps),
    ("aclnnCast", copy::cast),
    ("aclnnInplaceCopy", copy::inplace_copy),
    ("aclnnInplaceZero", copy::inplace_zero),
    ("aclnnInplaceOne", copy::inplace_one),
    ("aclnnInplaceFillScalar", copy::inplace_fill_scalar),
];
