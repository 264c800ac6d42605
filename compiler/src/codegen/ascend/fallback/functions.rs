//! Functions of values, and reductions of rows.

use super::exprs::{Held, Sequence, Value};
use super::pairs;
use crate::codegen::ascend::operators;
use titan_ir::DType;
use titan_ir::ascend::{Arg, Element, TensorArg};
use titan_ir::kernel::{BinaryFn, ExprId, UnaryFn};

impl Sequence<'_, '_, '_> {
    pub(super) fn unary(&mut self, k: usize, f: UnaryFn, a: ExprId) -> Held {
        let name = match f {
            UnaryFn::Neg => "aclnnNeg",
            UnaryFn::Exp => "aclnnExp",
            UnaryFn::Log => "aclnnLog",
            UnaryFn::Sqrt => "aclnnSqrt",
            UnaryFn::Rsqrt => "aclnnRsqrt",
            UnaryFn::Sigmoid => "aclnnSigmoid",
            UnaryFn::RoundBf16 => return self.round(k, a),
        };
        let x = self.wide(a);
        let held = self.result(k, Element::F32, &x.dims);
        self.operator(name, vec![Arg::Tensor(x)], &held);
        held
    }

    fn round(&mut self, k: usize, a: ExprId) -> Held {
        if let Some(value) = self.constant(a) {
            let rounded = DType::Bf16.round(f64::from(value)) as f32;
            return Held { value: Value::Const(rounded), wide: None, owned: Vec::new() };
        }
        let x = self.native(a);
        if x.element == Element::Bf16 {
            return self.same(k, a);
        }
        let held = self.result(k, Element::Bf16, &x.dims);
        self.operator("aclnnCast", vec![Arg::Tensor(x), Arg::Type(Element::Bf16)], &held);
        held
    }

    pub(super) fn binary(&mut self, k: usize, f: BinaryFn, a: ExprId, b: ExprId) -> Held {
        let scalar = match (f, self.constant(a), self.constant(b)) {
            (_, Some(_), Some(_)) => None,
            (BinaryFn::Add, None, Some(c)) => Some(("aclnnAdds", a, c)),
            (BinaryFn::Add, Some(c), None) => Some(("aclnnAdds", b, c)),
            (BinaryFn::Sub, None, Some(c)) => Some(("aclnnAdds", a, -c)),
            (BinaryFn::Mul, None, Some(c)) => Some(("aclnnMuls", a, c)),
            (BinaryFn::Mul, Some(c), None) => Some(("aclnnMuls", b, c)),
            (BinaryFn::Div, None, Some(c)) => Some(("aclnnDivs", a, c)),
            _ => None,
        };
        if let Some((name, x, c)) = scalar {
            let x = self.wide(x);
            let held = self.result(k, Element::F32, &x.dims);
            self.with_scalar(name, x, c, &held);
            return held;
        }
        let (x, y) = (self.wide(a), self.wide(b));
        let held = self.result(k, Element::F32, &joined(&[&x, &y]));
        let mut args = vec![Arg::Tensor(x), Arg::Tensor(y)];
        if matches!(f, BinaryFn::Add | BinaryFn::Sub) {
            args.push(Arg::Scalar(Element::F32, 1.0));
        }
        self.operator(operators::binary(f), args, &held);
        held
    }

    /// `a * b + c`; with a constant factor one operator.
    pub(super) fn fma(&mut self, k: usize, a: ExprId, b: ExprId, c: ExprId) -> Held {
        let factor = match (self.constant(a), self.constant(b)) {
            (Some(factor), None) => Some((b, factor)),
            (None, Some(factor)) => Some((a, factor)),
            _ => None,
        };
        if let (Some((x, factor)), None) = (factor, self.constant(c)) {
            let (x, y) = (self.wide(x), self.wide(c));
            let held = self.result(k, Element::F32, &joined(&[&x, &y]));
            let factor = Arg::Scalar(Element::F32, f64::from(factor));
            self.operator("aclnnAdd", vec![Arg::Tensor(y), Arg::Tensor(x), factor], &held);
            return held;
        }
        let (x, y) = (self.wide(a), self.wide(b));
        let product = self.e.temp(Element::F32, &joined(&[&x, &y]));
        let args = vec![Arg::Tensor(x), Arg::Tensor(y), Arg::Tensor(product.clone())];
        self.e.operator("aclnnMul", args);
        let held = if let Some(c) = self.constant(c) {
            let held = self.result(k, Element::F32, &product.dims);
            self.with_scalar("aclnnAdds", product.clone(), c, &held);
            held
        } else {
            let z = self.wide(c);
            let held = self.result(k, Element::F32, &joined(&[&product, &z]));
            let one = Arg::Scalar(Element::F32, 1.0);
            self.operator("aclnnAdd", vec![Arg::Tensor(product.clone()), Arg::Tensor(z), one], &held);
            held
        };
        self.e.free(&product);
        held
    }

    pub(super) fn select(&mut self, k: usize, compare: &str, [a, b, then, other]: [ExprId; 4]) -> Held {
        let (x, y) = (self.wide(a), self.wide(b));
        let condition = self.e.temp(Element::Bool, &joined(&[&x, &y]));
        let args = vec![Arg::Tensor(x), Arg::Tensor(y), Arg::Tensor(condition.clone())];
        self.e.operator(compare, args);
        let (then, other) = (self.wide(then), self.wide(other));
        let held = self.result(k, Element::F32, &joined(&[&condition, &then, &other]));
        let args = vec![Arg::Tensor(condition.clone()), Arg::Tensor(then), Arg::Tensor(other)];
        self.operator("aclnnSWhere", args, &held);
        self.e.free(&condition);
        held
    }

    pub(super) fn swap_pairs(&mut self, k: usize, x: TensorArg) -> Held {
        let held = self.result(k, x.element, &x.dims);
        if let Value::Tensor(to) = &held.value {
            pairs::swap(self.e, &x, to);
        }
        held
    }

    pub(super) fn row_sum(&mut self, k: usize, a: ExprId) -> Held {
        let x = self.real(a);
        let held = self.result(k, Element::F32, &[x.dims[0], 1]);
        if x.dims[1] != self.window.cols {
            // A value per row, added up once per column.
            let x = self.wide(a);
            self.with_scalar("aclnnMuls", x, self.window.cols as f32, &held);
            return held;
        }
        let args = vec![Arg::Tensor(x), Arg::Ints(vec![1]), Arg::Bool(true), Arg::Type(Element::F32)];
        self.operator("aclnnReduceSum", args, &held);
        held
    }

    pub(super) fn row_max(&mut self, k: usize, x: TensorArg) -> Held {
        let held = self.result(k, x.element, &[x.dims[0], 1]);
        self.operator("aclnnAmax", vec![Arg::Tensor(x), Arg::Ints(vec![1]), Arg::Bool(true)], &held);
        held
    }
}

/// The dimensions of a function of tensors of two dimensions.
fn joined(tensors: &[&TensorArg]) -> Vec<u64> {
    (0..2).map(|i| tensors.iter().map(|t| t.dims[i]).max().unwrap_or(1)).collect()
}
