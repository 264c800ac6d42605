//! `reshard`: change of layout.

use crate::attrs::{Attr, AttrReader, Attrs};
use crate::eval::Tensor;
use crate::ops::util::operands;
use crate::shard::{Linear, ShardRule};
use crate::{
    AxisId, Cost, DType, Diag, DiagResult, Layout, Lowering, Numerics, Op, OpRules, Placement, TensorType,
    Types, Vjp, VjpCx,
};
use smallvec::{SmallVec, smallvec};

/// The same global tensor in another layout: what becomes collectives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reshard {
    /// The new layout; no partial placements.
    pub to: Layout,
    /// Element type in which partial values are reduced; `None` for the operand's.
    pub reduce: Option<DType>,
}

impl Reshard {
    /// To this layout.
    pub fn new(to: Layout) -> Self {
        Self { to, reduce: None }
    }
}

impl OpRules for Reshard {
    fn name(&self) -> &'static str {
        "reshard"
    }
    fn attrs(&self) -> Attrs {
        let reduce = self.reduce.map(|dtype| ("reduce", Attr::DType(dtype)));
        [("to", Attr::Layout(self.to.clone()))].into_iter().chain(reduce).collect()
    }
    fn from_attrs(attrs: &mut AttrReader<'_>) -> DiagResult<Self> {
        let to = attrs.layout("to")?;
        let reduce = if attrs.has("reduce") { Some(attrs.dtype("reduce")?) } else { None };
        attrs.finish().map(|()| Self { to, reduce })
    }
    fn infer(&self, ins: &[&TensorType]) -> DiagResult<Types> {
        let [x] = operands("reshard", ins)?;
        for (_, placement) in self.to.iter() {
            match placement {
                Placement::Shard(dim) if usize::from(dim) < x.rank() => {}
                Placement::Shard(dim) => {
                    let message = format!("`reshard` cuts dimension {dim} of {:?}", x.dims);
                    return Err(Diag::new("T0104", message));
                }
                Placement::Partial(_) => {
                    return Err(Diag::new(
                        "T0105",
                        "`reshard` to a partial layout, expected shards or replicas only",
                    ));
                }
            }
        }
        Ok(smallvec![TensorType::new(x.dtype, &x.dims)])
    }
    fn vjp(&self, cx: &mut VjpCx<'_>) -> DiagResult<Vjp> {
        Ok(Vjp::Grads(smallvec![cx.cts[0]]))
    }
    fn shard(&self, ins: &[&TensorType]) -> ShardRule {
        ShardRule::pointwise(ins[0].rank(), 1).linear(Linear::Each)
    }
    fn localize(&self, _: &[TensorType]) -> Op {
        self.clone().into()
    }
    fn lower(&self, _: &[&TensorType], _: &[&TensorType]) -> Lowering {
        Lowering::None
    }
    fn cost(&self, ins: &[&TensorType], outs: &[&TensorType]) -> Cost {
        Cost::of(0, ins, outs)
    }
    fn eval(&self, ins: &[&Tensor], _: &[&TensorType]) -> SmallVec<[Tensor; 2]> {
        smallvec![ins[0].clone()]
    }
    fn numerics(&self) -> Numerics {
        Numerics::Exact
    }
    fn samples() -> Vec<(Self, Vec<TensorType>)> {
        let to = Layout::replicate().with(AxisId(0), Placement::Shard(1));
        vec![
            (Self { to, reduce: Some(DType::F32) }, vec![TensorType::new(DType::F32, &[3, 5])]),
            (Self::new(Layout::replicate()), vec![TensorType::scalar(DType::F32)]),
        ]
    }
}
