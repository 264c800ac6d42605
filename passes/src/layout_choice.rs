//! How one op is split over the mesh: the cheapest way its sharding rule allows, given where its operands are.
//!
//! Every mesh axis is decided alone. Along an axis an op may shard a factor that some operand is sharded in, let a partial operand
//! pass through where it is linear, or replicate. The way that communicates the fewest bytes wins; among equals the one that changes
//! the fewest operands, then the one named first: partial operands pass, factors in operand order, replicate.

use smallvec::{SmallVec, smallvec};
use titan_ir::kernel::ReduceKind;
use titan_ir::shard::{Factor, Factors, Linear, ShardRule};
use titan_ir::{AxisId, Layout, Mesh, Placement, TensorType};

/// Placements of the operands or results along one axis.
type Placements = SmallVec<[Option<Placement>; 4]>;

/// Layouts an op gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Layouts the operands must have.
    pub(crate) ins: Vec<Layout>,
    /// Layouts of the results.
    pub(crate) outs: Vec<Layout>,
}

/// One way to split an op along one axis.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Way {
    ins: Placements,
    outs: Placements,
}

/// The cheapest way to compute an op with this rule from operands that are where `ins` say.
pub(crate) fn choose(mesh: &Mesh, rule: &ShardRule, ins: &[&TensorType], outs: &[&TensorType]) -> Choice {
    let current = |i: usize| ins[i].layout.clone();
    let mut choice =
        Choice { ins: (0..ins.len()).map(current).collect(), outs: vec![Layout::replicate(); outs.len()] };
    for index in 0..mesh.axes.len() {
        let axis = AxisId::new(index);
        if mesh.size(axis) == 1 {
            continue;
        }
        let now: Placements = ins.iter().map(|t| t.layout.get(axis)).collect();
        let ways = ways(mesh, axis, rule, &now, ins, outs);
        let price = |way: &Way| {
            let bytes: u64 = (0..ins.len()).map(|i| move_bytes(mesh, axis, ins[i], way.ins[i])).sum();
            let num_changed = way.ins.iter().zip(&now).filter(|(a, b)| a != b).count();
            (bytes, num_changed)
        };
        let best = ways.iter().min_by_key(|way| price(way)).expect("replicating is always a way");
        for (layout, &placement) in choice.ins.iter_mut().zip(&best.ins) {
            layout.set(axis, placement);
        }
        for (layout, &placement) in choice.outs.iter_mut().zip(&best.outs) {
            layout.set(axis, placement);
        }
    }
    choice
}

/// The placements of operands and results when `factor`, which other axes cut in `num_other_parts`, is sharded along an axis
/// of `num_parts` ranks; `None` where that cannot be.
pub(crate) fn shard_factor(
    rule: &ShardRule,
    factor: Factor,
    num_parts: u64,
    num_other_parts: u64,
    ins: &[&TensorType],
    outs: &[&TensorType],
) -> Option<(Placements, Placements)> {
    if rule.replicated.contains(&factor) || !fits(rule, factor, num_parts, num_other_parts, ins, outs) {
        return None;
    }
    let place = |factors: &Factors, absent: Option<Placement>| {
        let dim = factors.iter().position(|dim| dim.contains(&factor));
        match dim {
            None => Some(absent),
            Some(dim) if factors[dim][0] == factor => {
                Some(Some(Placement::Shard(u8::try_from(dim).expect("few dimensions"))))
            }
            // Chunks of a minor factor are not contiguous.
            Some(_) => None,
        }
    };
    let summed = Some(Placement::Partial(rule.reduce));
    let on_ins = rule.ins.iter().map(|f| place(f, None)).collect::<Option<Placements>>()?;
    let on_outs = rule.outs.iter().map(|f| place(f, summed)).collect::<Option<Placements>>()?;
    Some((on_ins, on_outs))
}

/// Only a factor alone in dimensions of one size and cut along one axis may leave short chunks: else chunks would not match.
fn fits(
    rule: &ShardRule,
    factor: Factor,
    num_parts: u64,
    num_other_parts: u64,
    ins: &[&TensorType],
    outs: &[&TensorType],
) -> bool {
    let tensors = rule.ins.iter().zip(ins).chain(rule.outs.iter().zip(outs));
    let dims = tensors
        .flat_map(|(factors, ty)| factors.iter().zip(&ty.dims))
        .filter(|(dim, _)| dim.contains(&factor));
    let mut sizes: SmallVec<[u64; 8]> = SmallVec::new();
    let mut is_shared = false;
    for (dim, &size) in dims {
        if dim.len() == 1 {
            sizes.push(size);
        } else {
            is_shared = true;
        }
    }
    let is_alone = !is_shared && sizes.iter().all(|&n| n == sizes[0]);
    let is_even = !sizes.is_empty() && sizes.iter().all(|n| n.is_multiple_of(num_parts * num_other_parts));
    is_even || (is_alone && num_other_parts == 1)
}

fn ways(
    mesh: &Mesh,
    axis: AxisId,
    rule: &ShardRule,
    now: &Placements,
    ins: &[&TensorType],
    outs: &[&TensorType],
) -> Vec<Way> {
    let mut ways = Vec::new();
    let sum = Some(Placement::Partial(ReduceKind::Sum));
    let all_outs = |placement| smallvec![placement; outs.len()];
    match rule.linear {
        Linear::Joint if !now.is_empty() && now.iter().all(|&p| p == sum) => {
            ways.push(Way { ins: now.clone(), outs: all_outs(sum) });
        }
        Linear::Each => {
            for i in (0..now.len()).filter(|&i| now[i] == sum) {
                let mut on_ins: Placements = smallvec![None; now.len()];
                on_ins[i] = sum;
                ways.push(Way { ins: on_ins, outs: all_outs(sum) });
            }
        }
        Linear::Joint | Linear::No => {}
    }
    for ((factors, ty), placement) in rule.ins.iter().zip(ins).zip(now) {
        let Some(Placement::Shard(dim)) = *placement else { continue };
        let dim = usize::from(dim);
        let Some(&factor) = factors[dim].first() else { continue };
        let num_other_parts =
            ty.layout.axes_of_dim(dim).filter(|&a| a != axis).map(|a| mesh.size(a)).product();
        if let Some((ins, outs)) = shard_factor(rule, factor, mesh.size(axis), num_other_parts, ins, outs) {
            ways.push(Way { ins, outs });
        }
    }
    ways.push(Way { ins: smallvec![None; ins.len()], outs: all_outs(None) });
    ways
}

/// Bytes each rank exchanges to bring `ty` to another placement along `axis`, times the same fraction for every operand.
fn move_bytes(mesh: &Mesh, axis: AxisId, ty: &TensorType, to: Option<Placement>) -> u64 {
    let from = ty.layout.get(axis);
    let others = ty.layout.iter().filter(|&(a, p)| a != axis && matches!(p, Placement::Shard(_)));
    let parts: u64 = others.map(|(a, _)| mesh.size(a)).product();
    let bytes = ty.size_bytes() / parts;
    match (from, to) {
        (from, to) if from == to => 0,
        // Every rank has it already.
        (None, _) => 0,
        (Some(Placement::Partial(_)), None) => 2 * bytes,
        (Some(_), _) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Placement::{Partial, Shard};
    use titan_ir::DType;

    const SUM: Placement = Partial(ReduceKind::Sum);

    /// Placements of the operands and the result on the only axis.
    fn check(
        rule: ShardRule,
        operands: &[(&[u64], Option<Placement>)],
        result: &[u64],
        ins: &[Option<Placement>],
        out: Option<Placement>,
    ) {
        let mesh = Mesh::new(&[("dp_shard", 4)]);
        let layout =
            |p: Option<Placement>| p.map_or(Layout::replicate(), |p| Layout::replicate().with(AxisId(0), p));
        let tys: Vec<TensorType> = operands
            .iter()
            .map(|(dims, p)| TensorType::new(DType::F32, dims).with_layout(layout(*p)))
            .collect();
        let result = TensorType::new(DType::F32, result);
        let choice = choose(&mesh, &rule, &tys.iter().collect::<Vec<_>>(), &[&result]);
        let expected = Choice { ins: ins.iter().map(|&p| layout(p)).collect(), outs: vec![layout(out)] };
        assert_eq!(choice, expected);
    }

    fn linear() -> ShardRule {
        ShardRule::einsum("bsk,nk->bsn").linear(Linear::Each)
    }

    #[test]
    fn a_batch_shard_stays() {
        let x = (&[8, 3, 5][..], Some(Shard(0)));
        check(linear(), &[x, (&[7, 5], None)], &[8, 3, 7], &[Some(Shard(0)), None], Some(Shard(0)));
    }

    #[test]
    fn a_reduced_factor_leaves_partial_sums() {
        let rule = ShardRule::einsum("bsn,bsk->nk").linear(Linear::Each);
        let cut = Some(Shard(0));
        check(rule, &[(&[8, 3, 7], cut), (&[8, 3, 5], cut)], &[7, 5], &[cut, cut], Some(SUM));
    }

    #[test]
    fn the_smaller_operand_moves() {
        let (x, w) = (&[8, 3, 5][..], &[7, 5][..]);
        let cut = Some(Shard(0));
        check(linear(), &[(x, cut), (w, cut)], &[8, 3, 7], &[cut, None], cut);
        check(linear(), &[(&[1, 1, 5], cut), (w, cut)], &[1, 1, 7], &[None, cut], Some(Shard(2)));
    }

    #[test]
    fn partial_sums_pass_where_the_op_is_linear_in_them() {
        let pointwise = |linear| ShardRule::pointwise(1, 2).linear(linear);
        let (p, r) = ((&[6][..], Some(SUM)), (&[6][..], None));
        check(pointwise(Linear::Joint), &[p, p], &[6], &[Some(SUM), Some(SUM)], Some(SUM));
        check(pointwise(Linear::Joint), &[p, r], &[6], &[None, None], None);
        check(pointwise(Linear::Each), &[p, r], &[6], &[Some(SUM), None], Some(SUM));
        check(pointwise(Linear::No), &[r, r], &[6], &[None, None], None);
        check(ShardRule::pointwise(0, 1), &[(&[], Some(SUM))], &[], &[None], None);
    }

    #[test]
    fn a_shared_dimension_is_cut_between_whole_parts() {
        let merge = || ShardRule::einsum("bs->(bs)");
        let cut = Some(Shard(0));
        check(merge(), &[(&[8, 3], cut)], &[24], &[cut], cut);
        check(merge(), &[(&[6, 3], cut)], &[18], &[None], None);
        check(merge(), &[(&[6, 4], Some(Shard(1)))], &[24], &[None], None);
    }
}
