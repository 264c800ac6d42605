//! In which order the values of a kernel become known.
//!
//! A row is done in phases. Phase `p` is one loop over the columns that computes the reductions whose operands need `p` earlier
//! reductions in a row; `Row` values that depend on them follow it. A last loop stores. Values per element are not kept between loops but computed again.

use titan_ir::kernel::row::Rank;
use titan_ir::kernel::{Expr, ExprId, RowKernel, Store};

/// When each expression is computed.
pub(super) struct Schedule {
    /// How each expression varies.
    pub(super) ranks: Vec<Rank>,
    /// Phases to finish before the expression is known.
    pub(super) phases: Vec<u32>,
    /// Number of phases.
    pub(super) num_phases: u32,
    /// Expressions whose value is used in a column loop or reduced or stored per element.
    pub(super) is_used_by_columns: Vec<bool>,
}

impl Schedule {
    pub(super) fn of(kernel: &RowKernel) -> Self {
        let ranks = kernel.ranks();
        let mut phases: Vec<u32> = Vec::with_capacity(kernel.exprs.len());
        let mut is_used_by_columns = vec![false; kernel.exprs.len()];
        for (expr, rank) in kernel.exprs.iter().zip(&ranks) {
            let before = expr.operands().map(|e| phases[e.index()]).max().unwrap_or(0);
            phases.push(before + u32::from(is_reduction(expr)));
            if !is_fixed(*rank) || is_reduction(expr) {
                expr.operands().for_each(|e| is_used_by_columns[e.index()] = true);
            }
        }
        for output in kernel.outputs.iter().filter(|o| o.store != Store::Row) {
            is_used_by_columns[output.value.index()] = true;
        }
        let num_phases = phases.iter().copied().max().unwrap_or(0);
        Self { ranks, phases, num_phases, is_used_by_columns }
    }

    /// The values per row (or the same for all rows) known after `phase` phases and not before, without the reductions themselves.
    pub(super) fn fixed(&self, kernel: &RowKernel, rank: Rank, phase: u32) -> Vec<ExprId> {
        ids(kernel)
            .filter(|e| self.ranks[e.index()] == rank && self.phases[e.index()] == phase)
            .filter(|e| !is_reduction(&kernel.exprs[e.index()]))
            .collect()
    }

    /// The reductions that phase `phase` computes.
    pub(super) fn reductions(&self, kernel: &RowKernel, phase: u32) -> Vec<ExprId> {
        ids(kernel)
            .filter(|e| is_reduction(&kernel.exprs[e.index()]) && self.phases[e.index()] == phase + 1)
            .collect()
    }

    /// What a column loop must compute to know `roots`, in order.
    pub(super) fn columns(&self, kernel: &RowKernel, roots: impl Iterator<Item = ExprId>) -> Vec<ExprId> {
        let mut is_needed = vec![false; kernel.exprs.len()];
        roots.for_each(|e| is_needed[e.index()] = true);
        for e in (0..kernel.exprs.len()).rev() {
            if is_needed[e] && !is_fixed(self.ranks[e]) {
                kernel.exprs[e].operands().for_each(|e| is_needed[e.index()] = true);
            }
        }
        ids(kernel).filter(|e| is_needed[e.index()] && !is_fixed(self.ranks[e.index()])).collect()
    }
}

/// Whether a value of this rank is the same for all columns.
pub(super) fn is_fixed(rank: Rank) -> bool {
    matches!(rank, Rank::Scalar | Rank::Row)
}

fn is_reduction(expr: &Expr) -> bool {
    matches!(expr, Expr::RowSum(_) | Expr::RowMax(_))
}

fn ids(kernel: &RowKernel) -> impl Iterator<Item = ExprId> {
    (0..u32::try_from(kernel.exprs.len()).expect("few expressions")).map(ExprId)
}
