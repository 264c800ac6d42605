//! Groups become launches.

use super::canon::{Bound, Draft, TILE};
use super::group::{Domain, Group};
use super::unit::{Source, Unit, Units};
use super::{BLOCK_ROWS, CHUNK};
use std::sync::Arc;
use titan_ir::kernel::fragment::Result as Out;
use titan_ir::kernel::{Access, Cols, Contract, Expr, ExprId, Fragment, KernelSpec, Native, Store};
use titan_ir::ops::launch::Launch;
use titan_ir::{DType, Func, Node, Op, TensorType, ValueId};

/// More partial sums than any kernel makes: one block.
const ONE_BLOCK_ROWS: u64 = 1 << 20;

/// Replaces the nodes of `func` by the kernels of `groups`, which are in execution order.
pub(super) fn rebuild(func: &mut Func, units: &Units, groups: &[Group]) {
    let mut builder = Builder { needed: needed(func, units, groups), func, units, nodes: Vec::new() };
    for group in groups {
        builder.group(group);
    }
    let nodes = builder.nodes;
    func.nodes = nodes;
}

/// Values that must be in memory: results, and what another group or a node outside groups reads.
fn needed(func: &Func, units: &Units, groups: &[Group]) -> Vec<bool> {
    let mut needed = vec![false; func.num_values()];
    func.results.iter().for_each(|r| needed[r.value.index()] = true);
    for group in groups {
        for &n in group.members.iter().filter(|&&n| units.live[n as usize]) {
            for v in units.reads(func, n as usize) {
                let inside =
                    units.defs[v.index()].is_some_and(|def| group.members.binary_search(&def).is_ok());
                needed[v.index()] |= !inside;
            }
        }
    }
    needed
}

struct Builder<'a> {
    needed: Vec<bool>,
    func: &'a mut Func,
    units: &'a Units,
    nodes: Vec<Node>,
}

/// A sum whose partial sums a kernel makes.
struct Partial {
    partials: ValueId,
    num: u64,
    cols: u64,
    sum: ValueId,
}

impl Builder<'_> {
    fn group(&mut self, group: &Group) {
        let first = group.members[0] as usize;
        match &self.units.units[first] {
            Unit::Plain if self.units.live[first] => self.nodes.push(self.func.nodes[first].clone()),
            Unit::Plain => {}
            Unit::Native(native) => {
                let node = &self.func.nodes[first];
                let ins: Vec<ValueId> = node.ins.iter().map(|&v| self.units.stored(v)).collect();
                let outs = node.outs.to_vec();
                if outs.iter().any(|v| self.needed[v.index()]) {
                    self.launch(first, KernelSpec::Native(native.clone()), (1, None), &ins, &outs);
                }
            }
            Unit::Fragment(_) | Unit::Contract(_) => match group.contract {
                Some(n) if group.members.len() == 1 => self.plain_contract(n as usize),
                Some(n) => self.epilogue(group, n as usize),
                None => self.row_kernel(group),
            },
        }
    }

    fn contract_of(&self, n: usize) -> (Contract, [ValueId; 2]) {
        let Unit::Contract(contract) = &self.units.units[n] else {
            titan_ir::ice!("fuse: not a contraction")
        };
        let ins = &self.func.nodes[n].ins;
        (contract.clone(), [self.units.stored(ins[0]), self.units.stored(ins[1])])
    }

    fn plain_contract(&mut self, n: usize) {
        let out = self.func.nodes[n].outs[0];
        if self.needed[out.index()] {
            let (contract, ins) = self.contract_of(n);
            self.launch(n, KernelSpec::Native(Native::Contract(contract)), (1, None), &ins, &[out]);
        }
    }

    fn epilogue(&mut self, group: &Group, n: usize) {
        let (mut contract, [a, b]) = self.contract_of(n);
        let (draft, _) = self.draft(group);
        if draft.has_outputs() {
            let bound = draft.finish(Cols::Static(contract.n), true);
            let ins: Vec<ValueId> = [a, b].into_iter().chain(bound.ins).collect();
            contract.epilogue = Some(bound.kernel);
            self.launch(n, KernelSpec::Native(Native::Contract(contract)), (1, None), &ins, &bound.outs);
        }
    }

    fn row_kernel(&mut self, group: &Group) {
        let (draft, partials) = self.draft(group);
        if !draft.has_outputs() {
            return;
        }
        let anchor = *group.members.last().expect("a group has members") as usize;
        let (cols, domain) = match group.domain {
            Some(Domain::Rows(rows, cols)) => (Cols::Static(cols), (rows, None)),
            Some(Domain::Elastic(len) | Domain::Flat(len)) => (Cols::Flat { chunk: CHUNK }, (1, Some(len))),
            None => titan_ir::ice!("fuse: a fragment without a domain"),
        };
        let Bound { kernel, ins, outs } = draft.finish(cols, false);
        self.launch(anchor, KernelSpec::Row(kernel), domain, &ins, &outs);
        for partial in partials {
            self.combine(anchor, &partial);
        }
    }

    /// The expressions of all members, and the sums that need a second kernel.
    fn draft(&mut self, group: &Group) -> (Draft, Vec<Partial>) {
        let mut draft = Draft::default();
        let mut exprs: Vec<(ValueId, ExprId)> = Vec::new();
        let mut partials = Vec::new();
        if let Some(n) = group.contract {
            let out = self.func.nodes[n as usize].outs[0];
            let tile = draft.input(None, TILE.dtype, TILE.access);
            let tile = draft.expr(Expr::Load(tile));
            let value = draft.rounded(tile, self.func.ty(out).dtype);
            exprs.push((out, value));
            self.store(&mut draft, out, Store::Full, value);
        }
        for &n in &group.members {
            let units = self.units;
            let Unit::Fragment(fragment) = &units.units[n as usize] else { continue };
            let values = self.inline(&mut draft, fragment, n as usize, &exprs);
            let outs = self.func.nodes[n as usize].outs.clone();
            for (&(result, dtype, expr), &out) in fragment.results.iter().zip(&outs) {
                let value = values[expr.index()];
                match result {
                    Out::Full | Out::Row => {
                        let value = draft.rounded(value, dtype);
                        exprs.push((out, value));
                        let store = if result == Out::Full { Store::Full } else { Store::Row };
                        self.store(&mut draft, out, store, value);
                    }
                    Out::ColSum | Out::AllSum if !self.needed[out.index()] => {}
                    Out::ColSum => partials.extend(self.col_sum(&mut draft, fragment, out, value)),
                    Out::AllSum => {
                        let len = fragment.rows * fragment.cols;
                        partials.extend(self.all_sum(&mut draft, len, out, value));
                    }
                }
            }
        }
        (draft, partials)
    }

    fn store(&self, draft: &mut Draft, out: ValueId, store: Store, value: ExprId) {
        if self.needed[out.index()] {
            draft.output(out, self.func.ty(out).dtype, store, value);
        }
    }

    /// Adds the expressions of a fragment; those in `exprs` serve as its operands without memory.
    fn inline(
        &self,
        draft: &mut Draft,
        fragment: &Fragment,
        n: usize,
        exprs: &[(ValueId, ExprId)],
    ) -> Vec<ExprId> {
        let ins = &self.func.nodes[n].ins;
        let mut values: Vec<ExprId> = Vec::with_capacity(fragment.exprs.len());
        for expr in &fragment.exprs {
            let value = match *expr {
                Expr::Load(k) => self.operand(draft, fragment, ins, k as usize, exprs),
                ref expr => draft.expr(expr.map(|e| values[e.index()])),
            };
            values.push(value);
        }
        values
    }

    fn operand(
        &self,
        draft: &mut Draft,
        fragment: &Fragment,
        ins: &[ValueId],
        k: usize,
        exprs: &[(ValueId, ExprId)],
    ) -> ExprId {
        let (value, access) = match (self.units.source(ins[k]), fragment.inputs[k].access) {
            (Source::Const(bits), _) => return draft.expr(Expr::Const(bits)),
            (Source::Repeat(v), _) => (v, Access::Scalar),
            (Source::Memory(v), Access::Gather { ids, num }) => {
                let id_value = self.units.stored(ins[ids as usize]);
                let id_input = &fragment.inputs[ids as usize];
                (v, Access::Gather { ids: draft.input(Some(id_value), id_input.dtype, id_input.access), num })
            }
            (Source::Memory(v), access) => match exprs.iter().find(|(made, _)| *made == v) {
                Some(&(_, expr)) => return expr,
                None => (v, access),
            },
        };
        let input = draft.input(Some(value), self.func.ty(value).dtype, access);
        draft.expr(Expr::Load(input))
    }

    /// Stores column sums of blocks of rows; one block of f32 is the sum itself.
    fn col_sum(
        &mut self,
        draft: &mut Draft,
        fragment: &Fragment,
        out: ValueId,
        value: ExprId,
    ) -> Option<Partial> {
        let (num, cols) = (fragment.rows.div_ceil(BLOCK_ROWS), fragment.cols);
        let store = Store::ColSum { block_rows: BLOCK_ROWS };
        if num == 1 && self.func.ty(out).dtype == DType::F32 {
            draft.output(out, DType::F32, store, value);
            return None;
        }
        let partials = self.func.new_value(TensorType::new(DType::F32, &[num, cols]));
        draft.output(partials, DType::F32, store, value);
        Some(Partial { partials, num, cols, sum: out })
    }

    /// Stores the sum of each chunk; one chunk is the sum itself.
    fn all_sum(&mut self, draft: &mut Draft, len: u64, out: ValueId, value: ExprId) -> Option<Partial> {
        let num = len.div_ceil(CHUNK);
        let sum = draft.expr(Expr::RowSum(value));
        if num == 1 {
            draft.output(out, self.func.ty(out).dtype, Store::Row, sum);
            return None;
        }
        let partials = self.func.new_value(TensorType::new(DType::F32, &[num]));
        draft.output(partials, DType::F32, Store::Row, sum);
        Some(Partial { partials, num, cols: 1, sum: out })
    }

    /// The kernels that add partial sums.
    fn combine(&mut self, anchor: usize, partial: &Partial) {
        let dtype = self.func.ty(partial.sum).dtype;
        let mut draft = Draft::default();
        let input = draft.input(Some(partial.partials), DType::F32, Access::Full);
        let load = draft.expr(Expr::Load(input));
        if self.func.ty(partial.partials).rank() == 1 {
            let next = self.all_sum(&mut draft, partial.num, partial.sum, load);
            let bound = draft.finish(Cols::Flat { chunk: CHUNK }, false);
            self.launch(
                anchor,
                KernelSpec::Row(bound.kernel),
                (1, Some(partial.num)),
                &bound.ins,
                &bound.outs,
            );
            if let Some(next) = next {
                self.combine(anchor, &next);
            }
            return;
        }
        let sum = if dtype == DType::F32 {
            partial.sum
        } else {
            self.func.new_value(TensorType::new(DType::F32, &[partial.cols]))
        };
        draft.output(sum, DType::F32, Store::ColSum { block_rows: ONE_BLOCK_ROWS }, load);
        let bound = draft.finish(Cols::Static(partial.cols), false);
        self.launch(anchor, KernelSpec::Row(bound.kernel), (partial.num, None), &bound.ins, &bound.outs);
        if sum != partial.sum {
            let mut draft = Draft::default();
            let input = draft.input(Some(sum), DType::F32, Access::Full);
            let load = draft.expr(Expr::Load(input));
            draft.output(partial.sum, dtype, Store::Full, load);
            let bound = draft.finish(Cols::Flat { chunk: CHUNK }, false);
            self.launch(
                anchor,
                KernelSpec::Row(bound.kernel),
                (1, Some(partial.cols)),
                &bound.ins,
                &bound.outs,
            );
        }
    }

    /// Appends a launch that stands for node `anchor`.
    fn launch(
        &mut self,
        anchor: usize,
        spec: KernelSpec,
        (rows, len): (u64, Option<u64>),
        ins: &[ValueId],
        outs: &[ValueId],
    ) {
        let results = outs.iter().map(|&v| self.func.ty(v).clone()).collect();
        let op: Op = Launch { spec: Arc::new(spec), rows, len, results }.into();
        let Node { loc, phase, .. } = self.func.nodes[anchor];
        self.nodes.push(Node { op, ins: ins.into(), outs: outs.into(), loc, phase });
    }
}
