//! A tensor in memory: where, which type, and how far apart.

use super::{DType, Element, Lane, each_element};

/// Strided memory. Strides count elements and are not negative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    /// Address of the first element.
    pub(crate) address: usize,
}

/// Strides of a row-major tensor.
fn contiguous_strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    strides
}

impl View {
    /// A row-major tensor.
    pub(crate) fn contiguous(dtype: DType, dims: &[usize], address: usize) -> Self {
        Self { dtype, dims: dims.to_vec(), strides: contiguous_strides(dims), address }
    }

    /// A row-major tensor over the values of a slice, which must outlive its use.
    pub(crate) fn of_f32(values: &mut [f32], dims: &[usize]) -> Self {
        assert_eq!(values.len(), dims.iter().product::<usize>(), "a value for every element");
        Self::contiguous(DType::F32, dims, values.as_mut_ptr() as usize)
    }

    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
    }

    pub(crate) fn num_elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Elements from the first to the end of the last.
    pub(crate) fn extent(&self) -> usize {
        if self.num_elements() == 0 {
            return 0;
        }
        self.dims.iter().zip(&self.strides).map(|(d, s)| (d - 1) * s).sum::<usize>() + 1
    }

    /// Bytes from the first element to the end of the last.
    pub(crate) fn extent_bytes(&self) -> usize {
        self.extent() * self.dtype.size_bytes()
    }

    /// Whether elements follow each other in row-major order.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&dim, &stride) in self.dims.iter().zip(&self.strides).rev() {
            if dim != 1 && stride != expected {
                return false;
            }
            expected *= dim;
        }
        true
    }

    /// The same elements with dimensions in another order.
    pub(crate) fn permuted(&self, order: &[usize]) -> Self {
        Self {
            dims: order.iter().map(|&d| self.dims[d]).collect(),
            strides: order.iter().map(|&d| self.strides[d]).collect(),
            ..self.clone()
        }
    }

    /// The elements repeated to `dims`; each dimension, from the last, is that of `dims` or 1.
    pub(crate) fn broadcast(&self, dims: &[usize]) -> Self {
        let lead = dims.len() - self.rank();
        let stride = |i: usize| {
            if i < lead || (self.dims[i - lead] == 1 && dims[i] != 1) { 0 } else { self.strides[i - lead] }
        };
        Self { dims: dims.to_vec(), strides: (0..dims.len()).map(stride).collect(), ..self.clone() }
    }

    /// Its first element, without dimensions.
    pub(crate) fn broadcast_element(&self) -> Self {
        Self { dims: Vec::new(), strides: Vec::new(), ..self.clone() }
    }

    /// The `len` elements of a dimension from `start` on.
    pub(crate) fn sliced(&self, dim: usize, start: usize, len: usize) -> Self {
        let mut view = self.clone();
        view.dims[dim] = len;
        view.address += start * self.strides[dim] * self.dtype.size_bytes();
        view
    }

    /// One index of a dimension, which is gone then.
    pub(crate) fn at(&self, dim: usize, index: usize) -> Self {
        let mut view = self.sliced(dim, index, 1);
        view.dims.remove(dim);
        view.strides.remove(dim);
        view
    }

    /// Reads `into.len()` elements from element `start`, `stride` apart.
    pub(crate) fn load<L: Lane>(&self, start: usize, stride: usize, into: &mut [L]) {
        each_element!(self.dtype, E => load::<E, L>(self.address + start * size_of::<E>(), stride, into));
    }

    /// Writes elements from element `start`, `stride` apart, each rounded once.
    pub(crate) fn store<L: Lane>(&self, start: usize, stride: usize, from: &[L]) {
        each_element!(self.dtype, E => store::<E, L>(self.address + start * size_of::<E>(), stride, from));
    }

    /// One element.
    pub(crate) fn get<L: Lane>(&self, at: usize) -> L {
        let mut value = [L::default()];
        self.load(at, 1, &mut value);
        value[0]
    }

    /// All elements in row-major order.
    pub(crate) fn to_vec<L: Lane>(&self) -> Vec<L> {
        let mut values = vec![L::default(); self.num_elements()];
        self.read(&mut values);
        values
    }

    /// Reads all elements in row-major order.
    pub(crate) fn read<L: Lane>(&self, into: &mut [L]) {
        let (outer, inner) = self.split_last();
        for (row, chunk) in outer.offsets().zip(into.chunks_mut(inner.0.max(1))) {
            self.load(row, inner.1, chunk);
        }
    }

    /// Writes all elements from row-major order.
    pub(crate) fn assign<L: Lane>(&self, values: &[L]) {
        let (outer, inner) = self.split_last();
        for (row, chunk) in outer.offsets().zip(values.chunks(inner.0.max(1))) {
            self.store(row, inner.1, chunk);
        }
    }

    fn split_last(&self) -> (Self, (usize, usize)) {
        let mut outer = self.clone();
        match (outer.dims.pop(), outer.strides.pop()) {
            (Some(dim), Some(stride)) => (outer, (dim, stride)),
            _ => (outer, (1, 1)),
        }
    }

    /// Element offsets in row-major order.
    pub(crate) fn offsets(&self) -> Offsets<'_> {
        Offsets { view: self, index: vec![0; self.rank()], at: 0, left: self.num_elements() }
    }
}

/// Reads elements of a view, which lie at `address`, `stride` apart.
fn load<E: Element, L: Lane>(address: usize, stride: usize, into: &mut [L]) {
    let first = address as *const E;
    // SAFETY: the scheduler found the view's extent inside a live allocation, which stays while its task runs.
    let element = |i: usize| L::of(unsafe { first.add(i).read_unaligned() });
    match stride {
        0 => into.fill(element(0)),
        1 => into.iter_mut().enumerate().for_each(|(i, x)| *x = element(i)),
        _ => into.iter_mut().enumerate().for_each(|(i, x)| *x = element(i * stride)),
    }
}

/// Writes elements of a view.
fn store<E: Element, L: Lane>(address: usize, stride: usize, from: &[L]) {
    let first = address as *mut E;
    for (i, &x) in from.iter().enumerate() {
        // SAFETY: as for `load`.
        unsafe { first.add(i * stride).write_unaligned(x.round::<E>()) };
    }
}

/// Counts through the dimensions of a view, the last fastest.
pub(crate) struct Offsets<'a> {
    view: &'a View,
    index: Vec<usize>,
    at: usize,
    left: usize,
}

impl Iterator for Offsets<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        for dim in (0..self.index.len()).rev() {
            self.index[dim] += 1;
            self.at += self.view.strides[dim];
            if self.index[dim] < self.view.dims[dim] {
                break;
            }
            self.at -= self.view.strides[dim] * self.view.dims[dim];
            self.index[dim] = 0;
        }
        Some(at)
    }
}
