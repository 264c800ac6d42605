//! Tensors of a trace.

use super::tracer::SharedTracer;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::rc::Rc;
use titan_ir::ops::{binary, cast::Cast, reduce_sum::ReduceSum, reshape::Reshape, silu::Silu, unary};
use titan_ir::{DType, Op, TensorType, ValueId};

/// A value of the traced graph. Operators append nodes; an op whose operands do not fit ends the trace with an error.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub(super) tracer: SharedTracer,
    value: Option<ValueId>,
}

impl Tensor {
    pub(super) fn new(tracer: &SharedTracer, value: Option<ValueId>) -> Self {
        Self { tracer: Rc::clone(tracer), value }
    }

    pub(super) fn value(&self) -> Option<ValueId> {
        self.value
    }

    /// Appends a node with one result and this tensor as its first operand: any op of `titan_ir::ops`, those without a method here too.
    pub fn apply(&self, op: impl Into<Op>, others: &[&Tensor]) -> Tensor {
        let ins: Vec<_> = std::iter::once(self.value).chain(others.iter().map(|t| t.value)).collect();
        let value = self.tracer.borrow_mut().emit(op, &ins);
        Tensor::new(&self.tracer, value)
    }

    /// The type; `None` once the trace has failed.
    pub fn ty(&self) -> Option<TensorType> {
        self.value.map(|value| self.tracer.borrow().func.ty(value).clone())
    }

    /// Dimension `i`; 1 once the trace has failed.
    pub fn dim(&self, i: usize) -> u64 {
        self.ty().and_then(|ty| ty.dims.get(i).copied()).unwrap_or(1)
    }

    /// The same elements in other dimensions.
    pub fn reshape(&self, dims: &[u64]) -> Tensor {
        self.apply(Reshape { dims: dims.into() }, &[])
    }

    /// `[b, s, h * e]` as `[b, s, h, e]`.
    pub fn split_heads(&self, num_heads: u64) -> Tensor {
        let (b, s, width) = (self.dim(0), self.dim(1), self.dim(2));
        self.reshape(&[b, s, num_heads, width / num_heads])
    }

    /// `[b, s, h, e]` as `[b, s, h * e]`.
    pub fn merge_heads(&self) -> Tensor {
        self.reshape(&[self.dim(0), self.dim(1), self.dim(2) * self.dim(3)])
    }

    /// In another element type.
    pub fn cast(&self, to: DType) -> Tensor {
        self.apply(Cast { to }, &[])
    }

    /// `x sigmoid(x)`.
    pub fn silu(&self) -> Tensor {
        self.apply(Silu, &[])
    }

    /// The sum of all elements, a scalar.
    pub fn sum(&self) -> Tensor {
        self.apply(ReduceSum::all(), &[])
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident;)*) => { $(
        impl $trait<&Tensor> for &Tensor {
            type Output = Tensor;
            fn $method(self, other: &Tensor) -> Tensor {
                self.apply(binary::$trait, &[other])
            }
        }
        impl $trait<Tensor> for &Tensor {
            type Output = Tensor;
            fn $method(self, other: Tensor) -> Tensor {
                self.apply(binary::$trait, &[&other])
            }
        }
        impl $trait<&Tensor> for Tensor {
            type Output = Tensor;
            fn $method(self, other: &Tensor) -> Tensor {
                self.apply(binary::$trait, &[other])
            }
        }
        impl $trait for Tensor {
            type Output = Tensor;
            fn $method(self, other: Tensor) -> Tensor {
                self.apply(binary::$trait, &[&other])
            }
        }
    )* };
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl Neg for &Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        self.apply(unary::Neg, &[])
    }
}
