//! `reshape`: the same elements in other dimensions.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::ops::util::{operands, tensor};
use crate::shard::{Factors, Linear, ShardRule, letter};
use crate::{
    Cost, DType, Diag, DiagResult, Dims, Lowering, Numerics, Op, OpRules, TensorType, Types, Vjp, VjpCx,
};
use smallvec::{SmallVec, smallvec};

/// The same elements, row-major, in other dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reshape {
    /// The new dimensions.
    pub dims: Dims,
}

impl Reshape {
    /// To these dimensions.
    pub fn new(dims: &[u64]) -> Self {
        Self { dims: dims.into() }
    }
}

impl OpRules for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }
    fn attrs(&self) -> Attrs {
        vec![("dims", Attr::Dims(self.dims.clone()))]
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let dims = attrs.dims("dims")?;
        attrs.finish().map(|()| Self { dims })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x] = operands("reshape", ins)?;
        let out = TensorType::new(x.dtype, &self.dims);
        if x.num_elements() != out.num_elements() {
            let (from, to) = (x.num_elements(), out.num_elements());
            let message =
                format!("`reshape` from {:?} ({from} elements) to {:?} ({to} elements)", x.dims, self.dims);
            return Err(Diag::new("T0103", message));
        }
        Ok(smallvec![out])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        let Some(ct) = cx.cts[0] else { return Ok(Vjp::zero(1)) };
        let dims = cx.func.ty(cx.ins[0]).dims.clone();
        Ok(Vjp::one(cx.func.emit1(Self { dims }, &[ct])?))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        factors(&ins[0].dims, &self.dims)
    }
    fn localize(&self, outs: &[TensorType]) -> Op {
        Self { dims: outs[0].dims.clone() }.into()
    }
    fn lower(&self, _: &[&TensorType], _: &[&TensorType]) -> Lowering {
        Lowering::View
    }
    fn cost(&self, _: &[&TensorType], _: &[&TensorType]) -> Cost {
        Cost::default()
    }
    fn eval(&self, ins: &[&Tensor], outs: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        smallvec![tensor(outs[0], ins[0].data.clone())]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Exact
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let t = |dims: &[u64]| vec![TensorType::new(DType::F32, dims)];
        vec![
            (Self::new(&[3, 4, 5]), t(&[3, 20])),
            (Self::new(&[12, 5]), t(&[4, 3, 5])),
            (Self::new(&[4, 6]), t(&[6, 4])),
            (Self::new(&[4, 1, 3]), t(&[1, 4, 3])),
        ]
    }
}

/// Splits both shapes into the shortest runs of dimensions with equal products. In a run where one side is one dimension, the dimensions of
/// the other side are its factors. Other runs mix elements so that no shard stays in place: replicated.
fn factors(ins: &[u64], outs: &[u64]) -> ShardRule {
    let mut rule =
        ShardRule { outs: vec![Factors::new()], ..ShardRule::pointwise(0, 1) }.linear(Linear::Each);
    let mut num_letters = 0;
    let mut fresh = || {
        num_letters += 1;
        letter(num_letters - 1)
    };
    let (mut i, mut o) = (0, 0);
    while i < ins.len() || o < outs.len() {
        let (i0, o0) = (i, o);
        let (mut left, mut right) = (1, 1);
        // Dimensions of size 1 are runs of their own, so that they do not hide a match.
        while left != right || (i == i0 && o == o0) {
            if o < outs.len() && (right < left || i == ins.len() || (left == right && outs[o] == 1)) {
                right *= outs[o];
                o += 1;
            } else if i < ins.len() {
                left *= ins[i];
                i += 1;
            } else {
                break;
            }
        }
        let (run_in, run_out) = (i - i0, o - o0);
        let shared = run_in == 1 && run_out >= 1 || run_out == 1 && run_in >= 1;
        if shared {
            let letters: SmallVec<[char; 2]> = (0..run_in.max(run_out)).map(|_| fresh()).collect();
            let split = |run: usize| -> Factors {
                if run == 1 { vec![letters.clone()] } else { letters.iter().map(|&l| smallvec![l]).collect() }
            };
            rule.ins[0].extend(split(run_in));
            rule.outs[0].extend(split(run_out));
        } else {
            let runs = [(&mut rule.ins[0], run_in), (&mut rule.outs[0], run_out)];
            for (factors, run) in runs {
                for _ in 0..run {
                    let letter = fresh();
                    factors.push(smallvec![letter]);
                    rule.replicated.push(letter);
                }
            }
        }
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ins: &[u64], outs: &[u64]) -> String {
        let rule = factors(ins, outs);
        let show = |f: &Factors| f.iter().map(|d| d.iter().collect::<String>()).collect::<Vec<_>>().join(" ");
        let replicated: String = rule.replicated.iter().collect();
        format!("{} -> {} !{replicated}", show(&rule.ins[0]), show(&rule.outs[0]))
    }

    #[test]
    fn runs_of_equal_products() {
        assert_eq!(text(&[3, 20], &[3, 4, 5]), "a bc -> a b c !");
        assert_eq!(text(&[4, 3, 5], &[12, 5]), "a b c -> ab c !");
        assert_eq!(text(&[6, 4], &[4, 6]), "a b -> c d !abcd");
        assert_eq!(text(&[1, 4], &[4, 1]), "a b -> b c !ac");
        assert_eq!(text(&[], &[1, 1]), " -> a b !ab");
        assert_eq!(text(&[2, 3], &[2, 3]), "a b -> a b !");
    }
}
