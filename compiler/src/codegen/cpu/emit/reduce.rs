//! Reductions over the columns of a row.

use super::super::address::Columns;
use super::super::builder::{Builder, Cmp, Elem, Val};
use super::super::math;
use super::{Emitter, Row, whole_row};
use titan_ir::ice;
use titan_ir::kernel::{BinaryFn, Expr, ExprId};

/// Columns that a reduction adds side by side: column `j` goes to partial result `j % BLOCK`, counted from the first column of the
/// row. The partial results are then combined in halves: `k` with `k + BLOCK / 2`, and so on. Equal at every level.
pub(super) const BLOCK: u32 = 64;

impl<'c, 'a> Emitter<'_, '_, 'c, 'a> {
    /// One phase: the reductions that can be done now.
    pub(super) fn reduce(&mut self, phase: u32, row: &Row<'c, 'a>) {
        let reductions = self.schedule.reductions(self.kernel, phase);
        let operands: Vec<(Reduce, ExprId)> = reductions
            .iter()
            .map(|id| match self.kernel.exprs[id.index()] {
                Expr::RowMax(x) => (Reduce::Max, x),
                Expr::RowSum(x) => (Reduce::Sum, x),
                _ => ice!("not a reduction"),
            })
            .collect();
        let loops = Reduction {
            needed: self.schedule.columns(self.kernel, operands.iter().map(|&(_, x)| x)),
            operands,
            row,
        };
        let partial = self.reduce_columns(&loops);
        let num = partial.len() / reductions.len();
        for ((id, (reduce, _)), partial) in
            reductions.iter().zip(&loops.operands).zip(partial.chunks_exact(num))
        {
            let value = self.fold(*reduce, partial.to_vec());
            self.set_fixed(*id, value);
        }
    }

    /// The partial results of each reduction, `BLOCK / lanes` vectors each.
    fn reduce_columns(&self, loops: &Reduction<'_, 'c, 'a>) -> Vec<Val<'c, 'a>> {
        let (b, lanes) = (self.b, self.lanes);
        let num = (BLOCK / lanes) as usize;
        let (low, high) = self.arguments.cols;
        let block = i64::from(BLOCK);
        let mut partial: Vec<Val<'c, 'a>> = loops
            .operands
            .iter()
            .flat_map(|(reduce, _)| std::iter::repeat_n(b.f32(reduce.neutral(), lanes), num))
            .collect();
        let end = self.whole_steps(block);
        let at = |first, k: usize| {
            let k = b.int(Elem::I64, i64::try_from(k).expect("few vectors") * i64::from(lanes), 1);
            b.same("arith.addi", &[first, k])
        };
        if whole_row(self.kernel).is_none_or(|cols| cols >= block) {
            partial = b.for_loop((low, end, block), &partial, |first, partial| {
                let mut partial = partial.to_vec();
                for k in 0..num {
                    self.reduce_vector(
                        loops,
                        &mut partial,
                        k,
                        Columns { first: at(first, k), mask: None, lanes },
                    );
                }
                partial
            });
        }
        match whole_row(self.kernel) {
            Some(cols) => {
                let rest = cols % block;
                for (k, start) in (0..rest).step_by(lanes as usize).enumerate() {
                    let first = b.int(Elem::I64, cols - rest + start, 1);
                    let mask = (rest - start < i64::from(lanes)).then(|| self.mask(first));
                    self.reduce_vector(loops, &mut partial, k, Columns { first, mask, lanes });
                }
            }
            None => {
                b.if_then_yield(b.compare(Cmp::Lt, end, high), &mut partial, |partial| {
                    for k in 0..num {
                        let first = at(end, k);
                        let mask = Some(self.mask(first));
                        self.reduce_vector(loops, partial, k, Columns { first, mask, lanes });
                    }
                });
            }
        }
        partial
    }

    /// Adds one vector of columns to partial result `k` of each reduction.
    fn reduce_vector(
        &self,
        loops: &Reduction<'_, 'c, 'a>,
        partial: &mut [Val<'c, 'a>],
        k: usize,
        at: Columns<'c, 'a>,
    ) {
        let b = self.b;
        let values = self.columns(&loops.needed, loops.row, at);
        let num = partial.len() / loops.operands.len();
        for (r, &(reduce, operand)) in loops.operands.iter().enumerate() {
            let value = self.lanes_of(&values, operand);
            let value = match at.mask {
                None => value,
                Some(mask) => b.select(mask, value, b.f32(reduce.neutral(), at.lanes)),
            };
            let slot = &mut partial[r * num + k];
            *slot = reduce.combine(b, *slot, value);
        }
    }

    /// Combines partial results in halves.
    fn fold(&self, reduce: Reduce, mut partial: Vec<Val<'c, 'a>>) -> Val<'c, 'a> {
        let b = self.b;
        while partial.len() > 1 {
            let upper = partial.split_off(partial.len() / 2);
            for (low, high) in partial.iter_mut().zip(upper) {
                *low = reduce.combine(b, *low, high);
            }
        }
        let mut vector = partial[0];
        while vector.lanes > 2 {
            let half = i64::from(vector.lanes / 2);
            let part = |from: i64| b.shuffle(vector, &(from..from + half).collect::<Vec<_>>());
            vector = reduce.combine(b, part(0), part(half));
        }
        reduce.combine(b, b.lane(vector, 0), b.lane(vector, 1))
    }
}

/// The loops of one phase.
struct Reduction<'r, 'c, 'a> {
    needed: Vec<ExprId>,
    operands: Vec<(Reduce, ExprId)>,
    row: &'r Row<'c, 'a>,
}

#[derive(Debug, Clone, Copy)]
enum Reduce {
    Sum,
    Max,
}

impl Reduce {
    fn neutral(self) -> f32 {
        match self {
            Self::Sum => 0.0,
            Self::Max => f32::NEG_INFINITY,
        }
    }

    fn combine<'c, 'a>(self, b: &Builder<'c, 'a>, x: Val<'c, 'a>, y: Val<'c, 'a>) -> Val<'c, 'a> {
        let f = match self {
            Self::Sum => BinaryFn::Add,
            Self::Max => BinaryFn::Max,
        };
        math::binary(b, f, x, y)
    }
}
