//! Which keys a query sees.

use crate::fault::Fault;
use crate::operators::check::{MASKS, ensure, invalid};
use crate::operators::compute::{Rows, View};
use crate::operators::launch::Tensor;
use ascend_rs_sys::types::ACL_ERROR_RT_AICORE_EXCEPTION;
use std::ops::Range;

/// Rows and columns of the mask that stands for any causal one.
const COMPRESSED: usize = 2048;

/// A rule for masks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sparse {
    /// 0: a mask of all scores, and a window.
    Window { before: i64, after: i64 },
    /// 1: a mask of all scores.
    Whole,
    /// 2 to 4: a window around the diagonal of the first or last token, by the compressed mask.
    Band { before: i64, after: i64, from_end: bool },
}

impl Sparse {
    /// The rule of `sparseMode`, with what mask it demands.
    pub(super) fn of(
        code: i64,
        [before, after]: [i64; 2],
        mask: Option<&Tensor>,
        [batch, heads, queries, keys]: [usize; 4],
    ) -> Result<Self, Fault> {
        let everything = i64::from(i32::MAX);
        let rule = match code {
            0 => Self::Window { before, after },
            1 => Self::Whole,
            2 => Self::Band { before: everything, after: 0, from_end: false },
            3 => Self::Band { before: everything, after: 0, from_end: true },
            4 => Self::Band { before, after, from_end: true },
            5 | 6 => return Err(invalid(format!("sparseMode {code} is not implemented on this host"))),
            _ => return Err(invalid(format!("sparseMode is {code}; allowed: 0 to 6"))),
        };
        let Some(mask) = mask else {
            ensure(code == 0, || format!("attenMask is null; sparseMode {code} needs one"))?;
            return Ok(rule);
        };
        mask.is_of(MASKS)?;
        if let Self::Band { .. } = rule {
            mask.has_dims(&[COMPRESSED; 2], &format!("the mask of sparseMode {code}"))?;
            return Ok(rule);
        }
        let scores = [queries, keys];
        let leads: [&[usize]; 4] = [&[], &[1, 1], &[batch, 1], &[batch, heads]];
        let fits = leads.iter().any(|lead| mask.dims() == [lead, &scores[..]].concat());
        ensure(fits, || {
            format!(
                "{} has shape {:?}; allowed with sparseMode {code}: [{queries}, {keys}] after nothing, \
                 [1, 1], [{batch}, 1] or [{batch}, {heads}]",
                mask.name,
                mask.dims()
            )
        })?;
        Ok(rule)
    }
}

/// A rule with the mask it is for.
pub(super) struct Mask<'a> {
    pub(super) rule: Sparse,
    pub(super) view: Option<&'a View>,
    pub(super) queries: usize,
    pub(super) keys: usize,
}

impl Mask<'_> {
    /// The compressed mask is what it stands for.
    ///
    /// # Errors
    /// 507015: it is not 1 above the diagonal and 0 elsewhere.
    pub(super) fn verify(&self) -> Result<(), Fault> {
        let (Sparse::Band { .. }, Some(view)) = (self.rule, self.view) else { return Ok(()) };
        let rows = Rows::new(view, 1);
        let mut row = vec![0i64; rows.width()];
        for index in 0..rows.len() {
            rows.load(index, &mut row);
            if let Some(column) = (0..row.len()).find(|&j| row[j] != i64::from(j > index)) {
                let text = format!(
                    "attenMask is not 1 above the diagonal and 0 elsewhere: row {index}, column {column}"
                );
                return Err(Fault::new(ACL_ERROR_RT_AICORE_EXCEPTION, text));
            }
        }
        Ok(())
    }

    /// The keys that some window of a query spans.
    pub(super) fn window(&self, query: usize) -> Range<usize> {
        let (before, after, from_end) = match self.rule {
            Sparse::Whole => return 0..self.keys,
            Sparse::Window { .. } if self.view.is_none() => return 0..self.keys,
            Sparse::Window { before, after } => (before, after, false),
            Sparse::Band { before, after, from_end } => (before, after, from_end),
        };
        let shift = if from_end { self.keys as i64 - self.queries as i64 } else { 0 };
        let centre = query as i64 + shift;
        let place = |at: i64| at.clamp(0, self.keys as i64) as usize;
        let (from, to) = (place(centre.saturating_sub(before)), place(centre.saturating_add(after) + 1));
        from..to.max(from)
    }

    /// For each key whether it is masked out, as numbers, unless windows say all.
    pub(super) fn row(&self, batch: usize, head: usize, query: usize, into: &mut [f32]) -> bool {
        let (Sparse::Window { .. } | Sparse::Whole, Some(view)) = (self.rule, self.view) else {
            return false;
        };
        if view.rank() == 2 {
            view.at(0, query).read(into);
            return true;
        }
        let place = |dim: usize, index: usize| if view.dims[dim] == 1 { 0 } else { index };
        view.at(0, place(0, batch)).at(0, place(1, head)).at(0, query).read(into);
        true
    }
}
