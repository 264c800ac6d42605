//! Sharding rules: an einsum over factors.
//!
//! `"bsk,nk->bsn"` names the factors of every dimension of every operand and result. A factor that is in a result
//! may be sharded along a mesh axis in all tensors that have it; one that is in operands only is reduced, and sharding it
//! leaves the result partial. A dimension that is a product of factors is written in parentheses, major first: `bs(he)`;
//! a shard of the dimension is a shard of the major factor.

use crate::ice;
use crate::kernel::ReduceKind;
use smallvec::SmallVec;

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

    /// Whether the factor is in no result.
    pub fn is_reduced(&self, factor: Factor) -> bool {
        !self.outs.iter().flatten().flatten().any(|&f| f == factor)
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
