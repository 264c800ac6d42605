//! The domain of a kernel as a tensor: rows and columns may each be several dimensions, so that a table is a broadcast and a block of rows
//! a dimension.

use super::Unfit;
use titan_ir::kernel::row::Rank;
use titan_ir::kernel::{Access, Cols, RowKernel};

/// Dimensions of the domain, rows first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rows: Vec<u64>,
    pub(super) cols: Vec<u64>,
}

impl Shape {
    /// The domain of `kernel` over `rows` rows, or elements of a flat domain.
    pub(super) fn of(kernel: &RowKernel, rows: u64) -> Result<Self, Unfit> {
        let cols = match kernel.cols {
            Cols::Static(cols) => cols,
            Cols::Flat { chunk } if kernel.has_row_reduction() => return Self::of_chunks(rows, chunk),
            Cols::Flat { .. } => return Ok(Self { rows: vec![], cols: vec![rows] }),
        };
        let mut shape = Self { rows: vec![rows], cols: vec![cols] };
        if let Some(block) = kernel.block_rows().filter(|&block| block < rows) {
            if !rows.is_multiple_of(block) {
                return Err(Unfit(format!("{rows} rows are no whole blocks of {block}")));
            }
            shape.rows = vec![rows / block, block];
        }
        for input in &kernel.inputs {
            if let Access::Table { row_div, row_mod, width } = input.access {
                shape.cut_for_table(rows, cols, [row_div, row_mod, width])?;
            }
        }
        Ok(shape)
    }

    fn of_chunks(len: u64, chunk: u64) -> Result<Self, Unfit> {
        if len <= chunk {
            return Ok(Self { rows: vec![1], cols: vec![len] });
        }
        if !len.is_multiple_of(chunk) {
            return Err(Unfit(format!("{len} elements are no whole chunks of {chunk}")));
        }
        Ok(Self { rows: vec![len / chunk], cols: vec![chunk] })
    }

    /// Cuts rows and columns so that a table is indexed by whole dimensions.
    fn cut_for_table(&mut self, rows: u64, cols: u64, [div, modulus, width]: [u64; 3]) -> Result<(), Unfit> {
        let period = div * modulus;
        if !rows.is_multiple_of(period) || !cols.is_multiple_of(width) {
            return Err(Unfit(format!("a table of {modulus} x {width} does not tile {rows} x {cols}")));
        }
        let keep = |dims: &[u64]| {
            let kept: Vec<u64> = dims.iter().copied().filter(|&d| d > 1).collect();
            if kept.is_empty() { vec![1] } else { kept }
        };
        let wanted = Self { rows: keep(&[rows / period, modulus, div]), cols: keep(&[cols / width, width]) };
        let uncut = Self { rows: vec![rows], cols: vec![cols] };
        if *self != uncut && *self != wanted {
            return Err(Unfit("tables and blocks of different shapes".to_owned()));
        }
        *self = wanted;
        Ok(())
    }

    /// All dimensions.
    pub(super) fn full(&self) -> Vec<u64> {
        [&self.rows[..], &self.cols].concat()
    }

    /// Dimensions of a value of this rank; none for a scalar.
    pub(super) fn of_rank(&self, rank: Rank) -> Vec<u64> {
        match rank {
            Rank::Scalar => vec![],
            Rank::Row => self.rows.clone(),
            Rank::Col => self.cols.clone(),
            Rank::Full => self.full(),
        }
    }

    /// Which dimensions of a value of rank `to` one of rank `from` lacks.
    pub(super) fn added(&self, from: Rank, to: Rank) -> Vec<usize> {
        let (rows, all) = (self.rows.len(), self.rows.len() + self.cols.len());
        match (from, to) {
            (Rank::Row, Rank::Full) => (rows..all).collect(),
            (Rank::Col, Rank::Full) => (0..rows).collect(),
            (Rank::Scalar, to) => (0..self.of_rank(to).len()).collect(),
            _ => vec![],
        }
    }

    /// The dimensions that are columns.
    pub(super) fn col_axes(&self) -> Vec<usize> {
        (self.rows.len()..self.rows.len() + self.cols.len()).collect()
    }

    /// The dimensions along which a block of rows is summed.
    pub(super) fn block_axes(&self, kernel: &RowKernel) -> Vec<usize> {
        let rows: u64 = self.rows.iter().product();
        let first =
            if kernel.block_rows().is_some_and(|block| block < rows) { self.rows.len() - 1 } else { 0 };
        (first..self.rows.len()).collect()
    }

    /// The innermost dimension.
    pub(super) fn innermost(&self) -> u64 {
        self.cols.last().copied().unwrap_or(1)
    }

    /// Dimensions of a table and which of the domain's it lacks.
    pub(super) fn table(&self, [div, modulus, width]: [u64; 3]) -> (Vec<u64>, Vec<usize>) {
        let mut dims = Vec::new();
        let mut added = Vec::new();
        let rows_cut = [self.rows.iter().product::<u64>() / (div * modulus), modulus, div];
        let cols_cut = [self.cols.iter().product::<u64>() / width, width];
        let cut = [(&rows_cut[..], 1), (&cols_cut[..], 1)];
        let mut axis = 0;
        for (parts, kept) in cut {
            let start = axis;
            for (i, &part) in parts.iter().enumerate() {
                if part == 1 {
                    continue;
                }
                if i == kept {
                    dims.push(part);
                } else {
                    added.push(axis);
                }
                axis += 1;
            }
            // Rows or columns of one element keep a dimension.
            if axis == start {
                added.push(axis);
                axis += 1;
            }
        }
        (dims, added)
    }
}
