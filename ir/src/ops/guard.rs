//! `guard`: stops the step when a value is not finite.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::ops::util::{want_dims, want_dtype};
use crate::shard::ShardRule;
use crate::{Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::{SmallVec, smallvec};

/// The first operand; every rank stops the step if any operand is not finite. What must not happen then reads the result.
///
/// # Shapes
/// f32 scalars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// What the operands are called, separated by commas: `"coef,loss,grad_norm"`.
    pub names: String,
}

impl Guard {
    /// Of operands with these names.
    pub fn new(names: &[&str]) -> Self {
        Self { names: names.join(",") }
    }
}

impl OpRules for Guard {
    fn name(&self) -> &'static str {
        "guard"
    }
    fn attrs(&self) -> Attrs {
        vec![("names", Attr::Str(self.names.clone()))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let names = attrs.str("names")?;
        attrs.finish().map(|()| Self { names })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let names: Vec<&str> = self.names.split(',').collect();
        if names.len() != ins.len() {
            let message = format!(
                "`guard` takes an operand per name of \"{}\": {}, got {}",
                self.names,
                names.len(),
                ins.len()
            );
            return Err(Diag::new("T0101", message));
        }
        for (name, ty) in names.into_iter().zip(ins) {
            want_dtype("guard", name, ty, DType::F32)?;
            want_dims("guard", name, ty, &[])?;
        }
        Ok(smallvec![TensorType::scalar(DType::F32)])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        let mut grads: SmallVec<[_; 4]> = smallvec![None; cx.ins.len()];
        grads[0] = cx.cts[0];
        Ok(Vjp::Grads(grads))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        ShardRule::pointwise(0, ins.len())
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, _: &[&TensorType], _: &[&TensorType]) -> Lowering {
        Lowering::Guard
    }
    fn cost(&self, ins: &[&TensorType], _: &[&TensorType]) -> Cost {
        Cost::of(0, ins, &[])
    }
    fn eval(&self, ins: &[&Tensor], _: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        smallvec![ins[0].clone()]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Exact
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        vec![(Self::new(&["coef", "loss", "grad_norm"]), vec![TensorType::scalar(DType::F32); 3])]
    }
}
