//! Groups of nodes that become one kernel, and when two of them may merge.

use super::Fuse;
use super::order::Order;
use super::unit::{Source, Unit, Units};
use titan_ir::kernel::fragment::Result as Out;
use titan_ir::kernel::{Access, Expr, Fragment};
use titan_ir::{DType, Func, ValueId};

/// Most nodes of a group: bounds the size of generated code.
const MAX_MEMBERS: usize = 48;

/// What a group loops over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    /// That many elements in any arrangement.
    Elastic(u64),
    /// That many elements in chunks: sums over all elements take their tree from the chunks.
    Flat(u64),
    /// Rows and columns.
    Rows(u64, u64),
}

impl Domain {
    /// The domain of a fragment.
    fn of(fragment: &Fragment) -> Self {
        let len = fragment.rows * fragment.cols;
        if fragment.results.iter().any(|r| r.0 == Out::AllSum) {
            Self::Flat(len)
        } else if fragment.elastic {
            Self::Elastic(len)
        } else {
            Self::Rows(fragment.rows, fragment.cols)
        }
    }

    /// A domain that is both.
    fn join(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Elastic(n), Self::Rows(r, c)) | (Self::Rows(r, c), Self::Elastic(n)) => {
                (n == r * c).then_some(Self::Rows(r, c))
            }
            (Self::Elastic(n), Self::Flat(m)) | (Self::Flat(m), Self::Elastic(n)) => {
                (n == m).then_some(Self::Flat(m))
            }
            (a, b) => (a == b).then_some(a),
        }
    }
}

/// Nodes of one kernel.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// In program order.
    pub(super) members: Vec<u32>,
    /// What it loops over; `None` for a node that no group may have.
    pub(super) domain: Option<Domain>,
    /// The contraction among the members.
    pub(super) contract: Option<u32>,
    /// Whether rows must be whole: no tile of a contraction may be given to it.
    whole_rows: bool,
}

/// All groups of a function.
#[derive(Debug)]
pub(super) struct Groups<'a> {
    func: &'a Func,
    units: &'a Units,
    options: Fuse,
    order: Order,
    /// One per representative of `order`.
    groups: Vec<Group>,
    /// Per value the nodes that read it.
    readers: Vec<Vec<u32>>,
    is_result: Vec<bool>,
}

impl<'a> Groups<'a> {
    /// Every node a group.
    pub(super) fn new(func: &'a Func, units: &'a Units, options: Fuse) -> Self {
        let mut readers = vec![Vec::new(); func.num_values()];
        let mut edges = Vec::new();
        for n in (0..func.nodes.len()).filter(|&n| units.live[n]) {
            let node = u32::try_from(n).expect("fewer than 2^32 nodes");
            for v in units.reads(func, n) {
                readers[v.index()].push(node);
                edges.extend(units.defs[v.index()].map(|def| (def, node)));
            }
        }
        let mut is_result = vec![false; func.num_values()];
        func.results.iter().for_each(|r| is_result[r.value.index()] = true);
        let groups = (0u32..).zip(&units.units).map(|(n, unit)| Group::of(n, unit)).collect();
        let order = Order::new(func.nodes.len(), edges.into_iter());
        Self { func, units, options, order, groups, readers, is_result }
    }

    /// Merges the groups of two nodes if they may be one kernel.
    pub(super) fn merge(&mut self, a: u32, b: u32) {
        let (a, b) = (self.order.find(a), self.order.find(b));
        if a == b {
            return;
        }
        if let Some(merged) = self.merged(a, b)
            && self.order.merge(a, b)
        {
            let rep = self.order.find(a);
            self.groups[rep as usize] = merged;
        }
    }

    /// The groups of live nodes, each in program order of its members; groups in an order that respects
    /// dependencies and otherwise goes by first members.
    pub(super) fn finish(self) -> Vec<Group> {
        let reps: Vec<u32> = (0u32..).take(self.groups.len()).map(|n| self.order.find(n)).collect();
        super::order::by_first_member(&reps, self.groups, |n| {
            let reads = self.units.live[n as usize].then(|| self.units.reads(self.func, n as usize));
            reads.into_iter().flatten().filter_map(|v| self.units.defs[v.index()]).collect()
        })
    }

    /// The union of two groups, or `None` if it may not be a kernel; cycles are not looked for.
    fn merged(&self, a: u32, b: u32) -> Option<Group> {
        let (a, b) = (&self.groups[a as usize], &self.groups[b as usize]);
        let domain = a.domain?.join(b.domain?)?;
        let whole_rows = a.whole_rows || b.whole_rows;
        if a.contract.is_some() && b.contract.is_some() {
            return None;
        }
        let contract = a.contract.or(b.contract);
        if contract.is_some()
            && (whole_rows || !self.options.epilogues || !matches!(domain, Domain::Rows(..)))
        {
            return None;
        }
        let mut members: Vec<u32> = a.members.iter().chain(&b.members).copied().collect();
        members.sort_unstable();
        let fits = members.len() <= MAX_MEMBERS
            && members.iter().all(|&n| self.reads_fit(n, &members))
            && self.num_operands(&members) <= self.options.max_operands;
        fits.then_some(Group { members, domain: Some(domain), contract, whole_rows })
    }

    /// Whether node `n` reads what other members make in a way that registers can serve.
    fn reads_fit(&self, n: u32, members: &[u32]) -> bool {
        let inside = |v: ValueId| self.units.defs[v.index()].filter(|def| members.binary_search(def).is_ok());
        let Unit::Fragment(fragment) = &self.units.units[n as usize] else {
            return self.units.reads(self.func, n as usize).all(|v| inside(v).is_none());
        };
        let operands = self.func.nodes[n as usize].ins.iter().zip(&fragment.inputs);
        operands.enumerate().all(|(k, (&v, input))| match self.units.source(v) {
            Source::Const(_) => true,
            Source::Repeat(v) => inside(v).is_none(),
            Source::Memory(v) => inside(v).is_none_or(|def| {
                self.func.ty(v).dtype != DType::I32
                    && result_of(self.func, self.units, def, v) == access_result(input.access)
                    && (!is_swapped(fragment, k)
                        || matches!(self.units.units[def as usize], Unit::Contract(_)))
            }),
        })
    }

    /// Operands and results of the kernel of `members`.
    fn num_operands(&self, members: &[u32]) -> usize {
        let inside = |n: &u32| members.binary_search(n).is_ok();
        let mut values: Vec<ValueId> = Vec::new();
        for &n in members {
            let reads = self.units.reads(self.func, n as usize);
            values.extend(reads.filter(|v| !self.units.defs[v.index()].is_some_and(|def| inside(&def))));
        }
        values.sort_unstable();
        values.dedup();
        let made = members.iter().flat_map(|&n| &self.func.nodes[n as usize].outs);
        let kept = made.filter(|v| self.is_result[v.index()] || !self.readers[v.index()].iter().all(inside));
        values.len() + kept.count()
    }
}

impl Group {
    fn of(n: u32, unit: &Unit) -> Self {
        let (domain, contract, whole_rows) = match unit {
            Unit::Fragment(f) => {
                let reduces = f.exprs.iter().any(|e| matches!(e, Expr::RowSum(_) | Expr::RowMax(_)));
                (Some(Domain::of(f)), None, reduces || f.results.iter().any(|r| r.0 != Out::Full))
            }
            Unit::Contract(c) => (Some(Domain::Rows(c.m, c.n)), Some(n), false),
            Unit::Native(_) | Unit::Plain => (None, None, false),
        };
        Self { members: vec![n], domain, contract, whole_rows }
    }
}

/// How value `v` comes out of node `def`.
fn result_of(func: &Func, units: &Units, def: u32, v: ValueId) -> Option<Out> {
    let at = func.nodes[def as usize].outs.iter().position(|&out| out == v);
    match &units.units[def as usize] {
        Unit::Fragment(fragment) => at.map(|at| fragment.results[at].0),
        Unit::Contract(_) => Some(Out::Full),
        Unit::Native(_) | Unit::Plain => None,
    }
}

/// The result that an access can read without memory.
fn access_result(access: Access) -> Option<Out> {
    match access {
        Access::Full => Some(Out::Full),
        Access::Row => Some(Out::Row),
        Access::Col | Access::Scalar | Access::Table { .. } | Access::Gather { .. } | Access::Tile => None,
    }
}

/// Whether operand `k` is read at the neighbour column.
fn is_swapped(fragment: &Fragment, k: usize) -> bool {
    let mut swapped = vec![false; fragment.exprs.len()];
    for (i, expr) in fragment.exprs.iter().enumerate().rev() {
        if matches!(expr, Expr::SwapPairs(_)) || swapped[i] {
            expr.operands().for_each(|e| swapped[e.index()] = true);
        }
    }
    fragment.exprs.iter().zip(swapped).any(|(e, s)| s && matches!(e, Expr::Load(i) if *i as usize == k))
}
