//! A tensor as rows: the elements of its last dimensions, for each index of the first.

use super::{Lane, View};

/// Rows of a view.
#[derive(Debug)]
pub(crate) struct Rows {
    inner: View,
    starts: Vec<usize>,
}

impl Rows {
    /// Rows of all but the first `kept` dimensions.
    pub(crate) fn new(view: &View, kept: usize) -> Self {
        let (mut outer, mut inner) = (view.clone(), view.clone());
        outer.dims.truncate(kept);
        outer.strides.truncate(kept);
        inner.dims.drain(..kept);
        inner.strides.drain(..kept);
        Self { starts: outer.offsets().collect(), inner }
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Elements of a row.
    pub(crate) fn width(&self) -> usize {
        self.inner.num_elements()
    }

    /// The elements of a row.
    pub(crate) fn row(&self, index: usize) -> View {
        let address = self.inner.address + self.starts[index] * self.inner.dtype.size_bytes();
        View { address, ..self.inner.clone() }
    }

    /// Reads a row.
    pub(crate) fn load<L: Lane>(&self, index: usize, into: &mut [L]) {
        self.row(index).read(into);
    }

    /// Writes a row, rounding each element once.
    pub(crate) fn store<L: Lane>(&self, index: usize, values: &[L]) {
        self.row(index).assign(values);
    }
}
