//! Evaluation on the ranks of a mesh, with operands cut as the sharding rules permit, gives what one rank gives.

use crate::common::{Rng, assert_close, eval_op, infer, samples, values};
use std::collections::BTreeSet;
use titan_ir::eval::{shard, unshard};
use titan_ir::kernel::ReduceKind;
use titan_ir::shard::{Factor, Factors, Linear, ShardRule, accepts, check_even, derive};
use titan_ir::{AxisId, Layout, Mesh, Numerics, Op, Placement, Tensor, TensorType};

/// The dimension of which a factor is the major part.
fn major_dim(factors: &Factors, factor: Factor) -> Option<usize> {
    factors.iter().position(|dim| dim[0] == factor)
}

fn has(factors: &Factors, factor: Factor) -> bool {
    factors.iter().flatten().any(|&f| f == factor)
}

/// Factors that may be cut: never replicated, and never a minor part of a dimension.
fn free_factors(rule: &ShardRule) -> Vec<Factor> {
    let all = rule.ins.iter().chain(&rule.outs);
    let factors: BTreeSet<Factor> = all.clone().flatten().flatten().copied().collect();
    let minor = |f: Factor| all.clone().any(|t| has(t, f) && major_dim(t, f).is_none());
    factors.into_iter().filter(|&f| !rule.replicated.contains(&f) && !minor(f)).collect()
}

/// Makes the dimensions of a factor `parts` times as long.
fn stretch(types: &mut [TensorType], factors: &[Factors], factor: Factor, parts: u64) {
    for (ty, factors) in types.iter_mut().zip(factors) {
        if let Some(dim) = major_dim(factors, factor) {
            ty.dims[dim] *= parts;
        }
    }
}

/// Cuts a factor along an axis.
fn cut(layouts: &mut [Layout], factors: &[Factors], factor: Factor, axis: AxisId) {
    for (layout, factors) in layouts.iter_mut().zip(factors) {
        if let Some(dim) = major_dim(factors, factor) {
            layout.set(axis, Some(Placement::Shard(dim as u8)));
        }
    }
}

/// A case: an op with operands and the layouts of operands and results on a mesh.
struct Case {
    op: Op,
    mesh: Mesh,
    ins: Vec<TensorType>,
    outs: Vec<TensorType>,
}

impl Case {
    /// The sample with each factor cut along its axis, stretched so that the cuts are even.
    fn of_factors(op: &Op, ins: &[TensorType], mesh: &Mesh, cuts: &[Factor]) -> Self {
        let rule = op.rules().shard(&ins.iter().collect::<Vec<_>>());
        let (mut ins, mut outs) = (ins.to_vec(), infer(op, ins));
        for (axis, &factor) in mesh.axes.iter().zip(cuts) {
            stretch(&mut ins, &rule.ins, factor, axis.size);
            stretch(&mut outs, &rule.outs, factor, axis.size);
        }
        let op = op.rules().localize(&outs);
        assert_eq!(infer(&op, &ins), outs, "{op:?} on stretched operands");
        let mut in_layouts = vec![Layout::replicate(); ins.len()];
        let mut out_layouts = vec![Layout::replicate(); outs.len()];
        for (i, &factor) in cuts.iter().enumerate() {
            let axis = AxisId::new(i);
            cut(&mut in_layouts, &rule.ins, factor, axis);
            if rule.ins.iter().any(|t| has(t, factor)) {
                for layout in &mut out_layouts {
                    layout.set(axis, Some(Placement::Partial(rule.reduce)));
                }
            }
            cut(&mut out_layouts, &rule.outs, factor, axis);
        }
        let with = |types: Vec<TensorType>, layouts: &[Layout]| -> Vec<TensorType> {
            types.iter().zip(layouts).map(|(ty, layout)| ty.with_layout(layout.clone())).collect()
        };
        Self { op, mesh: mesh.clone(), ins: with(ins, &in_layouts), outs: with(outs, &out_layouts) }
    }

    /// Evaluates on all ranks and on one, and compares.
    fn check(&self, rng: &mut Rng, split: impl Fn(&Tensor, &TensorType, u64) -> Tensor) {
        let rule = self.op.rules().shard(&self.ins.iter().collect::<Vec<_>>());
        fn layouts(types: &[TensorType]) -> Vec<&Layout> {
            types.iter().map(|ty| &ty.layout).collect()
        }
        accepts(&rule, &layouts(&self.ins), &layouts(&self.outs))
            .unwrap_or_else(|why| panic!("{:?}: {why}", self.op));
        let (ins, outs): (Vec<&TensorType>, Vec<&TensorType>) =
            (self.ins.iter().collect(), self.outs.iter().collect());
        check_even(&rule, &ins, &outs, &self.mesh).unwrap_or_else(|why| panic!("{:?}: {why}", self.op));
        let args = values(&self.op, &self.ins, rng);
        let expected = eval_op(&self.op, &args, &self.outs);
        let local = |types: &[TensorType]| -> Vec<TensorType> {
            types
                .iter()
                .map(|ty| TensorType::new(ty.dtype, &ty.layout.local_dims(&self.mesh, &ty.dims)))
                .collect()
        };
        let (local_ins, local_outs) = (local(&self.ins), local(&self.outs));
        let op = self.op.rules().localize(&local_outs);
        assert_eq!(infer(&op, &local_ins), local_outs, "{op:?} per rank");
        let ranks: Vec<Vec<Tensor>> = (0..self.mesh.num_ranks())
            .map(|rank| {
                let args: Vec<Tensor> =
                    args.iter().zip(&self.ins).map(|(arg, ty)| split(arg, ty, rank)).collect();
                eval_op(&op, &args, &local_outs)
            })
            .collect();
        for (i, (ty, expected)) in self.outs.iter().zip(&expected).enumerate() {
            let parts: Vec<Tensor> = ranks.iter().map(|outs| outs[i].clone()).collect();
            let what = format!("{:?} on {:?} giving {:?}, result {i}", self.op, self.ins, ty.layout);
            let found = unshard(&parts, &ty.layout, &self.mesh, &ty.dims)
                .unwrap_or_else(|why| panic!("{what}: {why}"));
            let exact = self.op.rules().numerics() == Numerics::Exact && !ty.layout.has_partial();
            assert_close(&found, expected, if exact { 0.0 } else { 1e-12 }, &what);
        }
    }
}

#[test]
fn sharded_evaluation_equals_unsharded() {
    let mut rng = Rng(5);
    let (two, four, both) =
        (Mesh::new(&[("dp", 2)]), Mesh::new(&[("dp", 4)]), Mesh::new(&[("dp", 2), ("tp", 2)]));
    let (mut never, mut num_cases) = (BTreeSet::from_iter(Op::NAMES.iter().copied()), 0);
    for (op, ins) in samples() {
        let rule = op.rules().shard(&ins.iter().collect::<Vec<_>>());
        let factors = free_factors(&rule);
        for &a in &factors {
            let pairs = factors.iter().map(|&b| (&both, vec![a, b]));
            for (mesh, cuts) in [(&two, vec![a]), (&four, vec![a])].into_iter().chain(pairs) {
                let case = Case::of_factors(&op, &ins, mesh, &cuts);
                case.check(&mut rng, |arg, ty, rank| shard(arg, &ty.layout, mesh, rank));
                num_cases += 1;
            }
            never.remove(op.rules().name());
        }
    }
    assert!(num_cases > 200, "only {num_cases} cases");
    // Ops of scalars, and those that only exist per rank.
    let whole = ["all_gather", "all_reduce", "guard", "index", "launch", "rank_slice", "reduce_scatter"];
    assert_eq!(never, BTreeSet::from(whole));
}

/// Partial operands, split at random, give partial results.
#[test]
fn linear_ops_pass_partial_sums() {
    let mut rng = Rng(6);
    let mesh = Mesh::new(&[("dp", 4)]);
    let axis = AxisId(0);
    let sum = Layout::replicate().with(axis, Placement::Partial(ReduceKind::Sum));
    let mut linear = BTreeSet::new();
    for (op, ins) in samples() {
        let rule = op.rules().shard(&ins.iter().collect::<Vec<_>>());
        let floats: Vec<usize> = (0..ins.len()).filter(|&i| ins[i].dtype.is_float()).collect();
        let cases: Vec<Vec<usize>> = match rule.linear {
            Linear::No => vec![],
            Linear::Each => floats.into_iter().map(|i| vec![i]).collect(),
            Linear::Joint => vec![floats],
        };
        for partial in cases {
            let with = |(i, ty): (usize, &TensorType)| {
                if partial.contains(&i) { ty.with_layout(sum.clone()) } else { ty.clone() }
            };
            let case_ins: Vec<TensorType> = ins.iter().enumerate().map(with).collect();
            let layouts = derive(&rule, &case_ins.iter().map(|ty| &ty.layout).collect::<Vec<_>>()).unwrap();
            let outs =
                infer(&op, &ins).iter().zip(&layouts).map(|(ty, l)| ty.with_layout(l.clone())).collect();
            let case = Case { op: op.clone(), mesh: mesh.clone(), ins: case_ins, outs };
            // Unequal parts that add up to the whole.
            let shares = [0.625, -1.5, 1.75, 0.125];
            case.check(&mut rng, |arg, ty, rank| {
                let share = if ty.layout.has_partial() { shares[rank as usize] } else { 1.0 };
                Tensor::new(&arg.dims, arg.data.iter().map(|x| x * share).collect())
            });
            linear.insert(op.rules().name());
        }
    }
    let expected = [
        "add",
        "broadcast",
        "cast",
        "einsum",
        "embedding",
        "embedding_grad",
        "mul",
        "neg",
        "pad",
        "reduce_sum",
        "reshape",
        "reshard",
        "sub",
        "take_rows",
    ];
    assert_eq!(linear, BTreeSet::from(expected));
}
