//! Sharding rules: an einsum over factors.
//!
//! `"bsk,nk->bsn"` names the factors of every dimension of every operand and result. A factor that is in a result
//! may be sharded along a mesh axis in all tensors that have it; a result that lacks a factor of the operands is a reduction over it, and
//! sharding the factor leaves that result partial. A dimension that is a product of factors is written in parentheses, major first: `bs(he)`;
//! a shard of the dimension is a shard of the major factor.

use crate::kernel::ReduceKind;
use crate::{AxisId, Layout, Mesh, Placement, TensorType, ice};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A factor: one letter.
pub type Factor = char;

/// The factors of one tensor: per dimension, major first.
pub type Factors = Vec<SmallVec<[Factor; 2]>>;

/// How a result depends on partial operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linear {
    /// Not linearly: partial operands must be reduced first.
    No,
    /// Linearly in each operand alone: one operand may be partial where the others replicate (product, cast).
    Each,
    /// Linearly in all operands together: partial if all are (sum, difference).
    Joint,
}

/// The rule of one op for given operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardRule {
    /// Factors of the operands.
    pub ins: Vec<Factors>,
    /// Factors of the results.
    pub outs: Vec<Factors>,
    /// Factors that must not be sharded.
    pub replicated: Vec<Factor>,
    /// How sharded reduced factors combine.
    pub reduce: ReduceKind,
    /// How partial operands pass.
    pub linear: Linear,
}

impl ShardRule {
    /// The rule written as an einsum, e.g. `"bsk,nk->bsn"`; several results are separated by commas.
    pub fn einsum(spec: &str) -> Self {
        let Some((ins, outs)) = spec.split_once("->") else { ice!("sharding rule `{spec}` has no arrow") };
        Self {
            ins: ins.split(',').map(parse_factors).collect(),
            outs: outs.split(',').map(parse_factors).collect(),
            replicated: Vec::new(),
            reduce: ReduceKind::Sum,
            linear: Linear::No,
        }
    }

    /// The same dimensions in `num_ins` operands and one result.
    pub fn pointwise(rank: usize, num_ins: usize) -> Self {
        let tensor: Factors = (0..rank).map(|i| SmallVec::from_slice(&[letter(i)])).collect();
        Self {
            ins: vec![tensor.clone(); num_ins],
            outs: vec![tensor],
            replicated: Vec::new(),
            reduce: ReduceKind::Sum,
            linear: Linear::No,
        }
    }

    /// Forbids sharding these factors.
    pub fn replicate(mut self, factors: &str) -> Self {
        self.replicated.extend(factors.chars());
        self
    }

    /// States how partial operands pass.
    pub fn linear(mut self, linear: Linear) -> Self {
        self.linear = linear;
        self
    }
}

/// The layouts of the results that operands with these layouts imply. A factor no operand has is replicated.
///
/// # Errors
/// Why the rule does not accept the operands, without a full stop.
pub fn derive(rule: &ShardRule, ins: &[&Layout]) -> Result<Vec<Layout>, String> {
    let mut outs = vec![Layout::replicate(); rule.outs.len()];
    for axis in axes(ins) {
        for (layout, placement) in outs.iter_mut().zip(derive_axis(rule, ins, axis)?) {
            layout.set(axis, placement);
        }
    }
    Ok(outs)
}

/// Whether results may have these layouts: those that [`derive`] gives, or with a factor sharded that no operand has.
///
/// # Errors
/// Why not, without a full stop.
pub fn accepts(rule: &ShardRule, ins: &[&Layout], outs: &[&Layout]) -> Result<(), String> {
    let all: Vec<&Layout> = ins.iter().chain(outs).copied().collect();
    for axis in axes(&all) {
        let expected = derive_axis(rule, ins, axis)?;
        let given: Vec<Option<Placement>> = outs.iter().map(|l| l.get(axis)).collect();
        let free = ins.iter().all(|l| l.get(axis).is_none()).then(|| free_factor(rule, &given)).flatten();
        let expected = match free {
            Some(factor) => {
                rule.outs.iter().map(|f| place(f, factor, None)).collect::<Result<Vec<_>, _>>()?
            }
            None => expected,
        };
        if given != expected {
            return Err(format!("results are {given:?} along {axis:?}, the operands imply {expected:?}"));
        }
    }
    Ok(())
}

/// A factor that is a part of a dimension, or is in dimensions of different sizes, is only cut evenly: otherwise the parts would not match.
///
/// # Errors
/// Which factor is cut unevenly, without a full stop.
pub fn check_even(
    rule: &ShardRule,
    ins: &[&TensorType],
    outs: &[&TensorType],
    mesh: &Mesh,
) -> Result<(), String> {
    let tensors = rule.ins.iter().zip(ins).chain(rule.outs.iter().zip(outs));
    // Per cut factor: parts, size of a dimension it is in, whether any dimension differs from that or has more factors.
    let mut cut: BTreeMap<Factor, (u64, Vec<u64>, bool)> = BTreeMap::new();
    for (factors, ty) in tensors {
        for (dim, (letters, &size)) in factors.iter().zip(&ty.dims).enumerate() {
            let parts: u64 = ty.layout.axes_of_dim(dim).map(|axis| mesh.size(axis)).product();
            let (Some(&major), true) = (letters.first(), parts > 1) else { continue };
            let entry = cut.entry(major).or_insert_with(|| (parts, Vec::new(), false));
            entry.1.push(size);
            entry.2 |= letters.len() > 1 || entry.1[0] != size;
        }
    }
    for (factor, (parts, sizes, strict)) in cut {
        if let Some(size) = sizes.iter().find(|size| strict && !size.is_multiple_of(parts)) {
            return Err(format!(
                "factor `{factor}` cut into {parts} parts, but a dimension it is in is {size}"
            ));
        }
    }
    Ok(())
}

/// The axes on which any of the layouts is not replicate, outermost first.
fn axes(layouts: &[&Layout]) -> Vec<AxisId> {
    let mut axes: Vec<AxisId> = layouts.iter().flat_map(|l| l.iter().map(|(axis, _)| axis)).collect();
    axes.sort_unstable();
    axes.dedup();
    axes
}

fn derive_axis(rule: &ShardRule, ins: &[&Layout], axis: AxisId) -> Result<Vec<Option<Placement>>, String> {
    let placements: Vec<Option<Placement>> = ins.iter().map(|l| l.get(axis)).collect();
    let is_partial = |p: &&Option<Placement>| matches!(p, Some(Placement::Partial(_)));
    let num_partial = placements.iter().filter(is_partial).count();
    if num_partial > 0 {
        let sum = Some(Placement::Partial(ReduceKind::Sum));
        let passes = match rule.linear {
            Linear::No => false,
            Linear::Each => num_partial == 1 && placements.iter().all(|&p| p.is_none() || p == sum),
            Linear::Joint => placements.iter().all(|&p| p == sum),
        };
        let message =
            || format!("partial operands {placements:?} along {axis:?} where the op is not linear in them");
        return if passes { Ok(vec![sum; rule.outs.len()]) } else { Err(message()) };
    }
    let Some(factor) = sharded_factor(&rule.ins, &placements) else { return Ok(vec![None; rule.outs.len()]) };
    if rule.replicated.contains(&factor) {
        return Err(format!("factor `{factor}` is sharded along {axis:?} and must be replicated"));
    }
    for (i, (factors, &given)) in rule.ins.iter().zip(&placements).enumerate() {
        let expected = place(factors, factor, None)?;
        if given != expected {
            return Err(format!(
                "operand {i} is {given:?} along {axis:?}, expected {expected:?}: factor `{factor}` is sharded"
            ));
        }
    }
    let summed = Some(Placement::Partial(rule.reduce));
    rule.outs.iter().map(|factors| place(factors, factor, summed)).collect()
}

/// The factor of the first sharded tensor.
fn sharded_factor(tensors: &[Factors], placements: &[Option<Placement>]) -> Option<Factor> {
    tensors.iter().zip(placements).find_map(|(factors, placement)| match placement {
        Some(Placement::Shard(dim)) => factors.get(usize::from(*dim))?.first().copied(),
        Some(Placement::Partial(_)) | None => None,
    })
}

/// The factor sharded in the results, if no operand has it.
fn free_factor(rule: &ShardRule, outs: &[Option<Placement>]) -> Option<Factor> {
    let factor = sharded_factor(&rule.outs, outs)?;
    let is_new = !rule.ins.iter().flatten().flatten().any(|&f| f == factor);
    (is_new && !rule.replicated.contains(&factor)).then_some(factor)
}

/// The placement of a tensor when `factor` is sharded; `absent` where the tensor does not have it.
fn place(factors: &Factors, factor: Factor, absent: Option<Placement>) -> Result<Option<Placement>, String> {
    match factors.iter().position(|dim| dim.contains(&factor)) {
        None => Ok(absent),
        Some(dim) if factors[dim][0] == factor => {
            Ok(Some(Placement::Shard(u8::try_from(dim).expect("few dimensions"))))
        }
        Some(dim) => Err(format!("factor `{factor}` is not the major one of dimension {dim}")),
    }
}

/// The `i`-th factor letter of generated rules.
pub fn letter(i: usize) -> Factor {
    char::from(b'a' + u8::try_from(i).expect("few dimensions"))
}

fn parse_factors(text: &str) -> Factors {
    let mut dims = Factors::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '(' => dims.push(chars.by_ref().take_while(|&c| c != ')').collect()),
            c => dims.push(SmallVec::from_slice(&[c])),
        }
    }
    dims
}

#[cfg(test)]
mod tests {
    use super::*;
    use Placement::{Partial, Shard};

    const SUM: Option<Placement> = Some(Partial(ReduceKind::Sum));

    fn layout(placement: Option<Placement>) -> Layout {
        placement.map_or(Layout::replicate(), |p| Layout::replicate().with(AxisId(0), p))
    }

    fn check(rule: &ShardRule, ins: &[Option<Placement>], expected: Option<&[Option<Placement>]>) {
        let ins: Vec<Layout> = ins.iter().map(|&p| layout(p)).collect();
        let outs = derive(rule, &ins.iter().collect::<Vec<_>>()).ok();
        assert_eq!(outs, expected.map(|outs| outs.iter().map(|&p| layout(p)).collect::<Vec<_>>()));
    }

    #[test]
    fn results_follow_from_operands() {
        let linear = ShardRule::einsum("bsk,nk->bsn").linear(Linear::Each);
        check(&linear, &[Some(Shard(0)), None], Some(&[Some(Shard(0))]));
        check(&linear, &[Some(Shard(2)), Some(Shard(1))], Some(&[SUM]));
        check(&linear, &[SUM, None], Some(&[SUM]));
        check(&linear, &[SUM, SUM], None);
        check(&linear, &[Some(Shard(2)), None], None);
        check(&ShardRule::einsum("ab->ab").replicate("b"), &[Some(Shard(1))], None);
        check(&ShardRule::einsum("ab->(ab)"), &[Some(Shard(0))], Some(&[Some(Shard(0))]));
        check(&ShardRule::einsum("ab->(ab)"), &[Some(Shard(1))], None);
        check(
            &ShardRule::einsum("ab,ab->ab,b"),
            &[Some(Shard(0)), Some(Shard(0))],
            Some(&[Some(Shard(0)), SUM]),
        );
    }

    #[test]
    fn a_new_factor_may_be_sharded() {
        let broadcast = ShardRule::einsum("b->ab");
        let accepts = |input, out| accepts(&broadcast, &[&layout(input)], &[&layout(out)]).is_ok();
        assert!(
            accepts(None, None) && accepts(None, Some(Shard(0))) && accepts(Some(Shard(0)), Some(Shard(1)))
        );
        assert!(
            !accepts(None, Some(Shard(1))) && !accepts(None, SUM) && !accepts(Some(Shard(0)), Some(Shard(0)))
        );
    }
}
