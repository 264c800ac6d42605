//! `adamw`: one AdamW or Adam update.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::kernel::fragment::{FragmentBuilder, Result as Out};
use crate::kernel::{Access, UnaryFn};
use crate::ops::util::{operands, tensor, want_dims, want_dtype};
use crate::shard::ShardRule;
use crate::{Cost, DType, Diag, DiagResult, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx};
use smallvec::SmallVec;

/// One update of a weight p by its gradient g, moments m and v. Sources: Loshchilov and Hutter, arXiv 1711.05101; Kingma and Ba, arXiv 1412.6980.
///
/// Decoupled: `p (1 - lr wd)` first; otherwise `g + wd p`. Then `m' = beta1 m + (1 - beta1) g`, `v' = beta2 v + (1 - beta2) g^2`,
/// `p' = p - lr / bc1 m' / (sqrt(v') / sqrt(bc2) + eps)` where `bc = 1 - beta^step`.
///
/// # Shapes
/// p, g, m, v f32 of equal dimensions, lr, bc1, bc2 f32 scalars; p', m', v' as p.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamW {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Weight decay.
    pub weight_decay: f64,
    /// AdamW; false for Adam.
    pub decoupled: bool,
}

impl OpRules for AdamW {
    fn name(&self) -> &'static str {
        "adamw"
    }
    fn attrs(&self) -> Attrs {
        vec![
            ("beta1", Attr::Float(self.beta1)),
            ("beta2", Attr::Float(self.beta2)),
            ("eps", Attr::Float(self.eps)),
            ("weight_decay", Attr::Float(self.weight_decay)),
            ("decoupled", Attr::Bool(self.decoupled)),
        ]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let op = Self {
            beta1: attrs.float("beta1")?,
            beta2: attrs.float("beta2")?,
            eps: attrs.float("eps")?,
            weight_decay: attrs.float("weight_decay")?,
            decoupled: attrs.bool("decoupled")?,
        };
        attrs.finish().map(|()| op)
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [p, g, m, v, lr, bc1, bc2] = operands("adamw", ins)?;
        for (what, ty) in [("the weight", p), ("the gradient", g), ("moment 1", m), ("moment 2", v)] {
            want_dtype("adamw", what, ty, DType::F32)?;
            want_dims("adamw", what, ty, &p.dims)?;
        }
        for (what, ty) in [("lr", lr), ("bias correction 1", bc1), ("bias correction 2", bc2)] {
            want_dtype("adamw", what, ty, DType::F32)?;
            want_dims("adamw", what, ty, &[])?;
        }
        let settings = [
            ("beta1", self.beta1),
            ("beta2", self.beta2),
            ("eps", self.eps),
            ("weight_decay", self.weight_decay),
        ];
        if let Some((what, value)) = settings.into_iter().find(|(_, x)| !x.is_finite() || *x < 0.0) {
            return Err(Diag::new("T0105", format!("`adamw`: {what} is {value}, expected a number from 0")));
        }
        Ok((0..3).map(|_| TensorType::new(DType::F32, &p.dims)).collect())
    }
    fn vjp(&self, _: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::NotDifferentiable("it ends the step"))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        let mut rule = ShardRule::pointwise(ins[0].rank(), 7);
        rule.ins[4..].iter_mut().for_each(Vec::clear);
        rule.outs = vec![rule.ins[0].clone(); 3];
        rule
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, ins: &[&TensorType], _: &[&TensorType]) -> Lowering {
        let mut b = FragmentBuilder::elastic(ins[0].num_elements());
        let [p, g, m, v] = [0; 4].map(|_: i32| b.input(DType::F32, Access::Full));
        let [lr, bc1, bc2] = [0; 3].map(|_: i32| b.input(DType::F32, Access::Scalar));
        let wd = b.constant(self.weight_decay as f32);
        let (p, g) = if self.decoupled {
            let one = b.constant(1.0);
            let decay = b.mul(lr, wd);
            let keep = b.sub(one, decay);
            (b.mul(p, keep), g)
        } else {
            (p, b.fma(wd, p, g))
        };
        let [beta1, beta2] = [self.beta1, self.beta2].map(|x| b.constant(x as f32));
        let [new1, new2] = [self.beta1, self.beta2].map(|x| b.constant((1.0 - x) as f32));
        let m_new = b.mul(g, new1);
        let m = b.fma(m, beta1, m_new);
        let square = b.mul(g, g);
        let v_new = b.mul(square, new2);
        let v = b.fma(v, beta2, v_new);
        let eps = b.constant(self.eps as f32);
        let root = b.unary(UnaryFn::Sqrt, v);
        let unbias = b.unary(UnaryFn::Sqrt, bc2);
        let root = b.div(root, unbias);
        let bottom = b.add(root, eps);
        let size = b.div(lr, bc1);
        let top = b.mul(size, m);
        let step = b.div(top, bottom);
        let p = b.sub(p, step);
        for x in [p, m, v] {
            b.result(Out::Full, DType::F32, x);
        }
        Lowering::Fragment(b.finish())
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::elementwise(12, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        let [lr, bc1, bc2] = [4, 5, 6].map(|i: usize| ins[i].data[0]);
        let mut next: [Vec<f64>; 3] = Default::default();
        for i in 0..ins[0].data.len() {
            let [mut p, mut g, m, v] = [0, 1, 2, 3].map(|operand: usize| ins[operand].data[i]);
            if self.decoupled {
                p -= lr * self.weight_decay * p;
            } else {
                g += self.weight_decay * p;
            }
            let m = self.beta1 * m + (1.0 - self.beta1) * g;
            let v = self.beta2 * v + (1.0 - self.beta2) * g * g;
            p -= lr / bc1 * m / (v.sqrt() / bc2.sqrt() + self.eps);
            next.iter_mut().zip([p, m, v]).for_each(|(next, x)| next.push(x));
        }
        next.into_iter().zip(outs).map(|(data, ty)| tensor(ty, data)).collect()
    }
    fn numerics(&self) -> Numerics {
        Numerics::Rounding
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let (t, scalar) = (TensorType::new(DType::F32, &[3, 5]), TensorType::scalar(DType::F32));
        let ins = vec![t.clone(), t.clone(), t.clone(), t, scalar.clone(), scalar.clone(), scalar];
        let op = |decoupled| Self { beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1, decoupled };
        vec![(op(true), ins.clone()), (op(false), ins)]
    }
}
