//! Tensor types.

use crate::{DType, Layout};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Dimensions, outermost first; empty for a scalar.
pub type Dims = SmallVec<[u64; 4]>;

/// Results of a shape rule.
pub type Types = SmallVec<[TensorType; 2]>;

/// A statically shaped tensor and where it lives.
///
/// Dimensions are global up to the stage `Sharded` and per rank from `Local` on, where every layout is replicate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub dims: Dims,
    /// Placement on the mesh.
    pub layout: Layout,
}

impl TensorType {
    /// A replicated tensor.
    pub fn new(dtype: DType, dims: &[u64]) -> Self {
        Self { dtype, dims: dims.into(), layout: Layout::replicate() }
    }

    /// A scalar.
    pub fn scalar(dtype: DType) -> Self {
        Self::new(dtype, &[])
    }

    /// The same shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self { dtype, ..self.clone() }
    }

    /// The same shape and element type with another layout.
    pub fn with_layout(&self, layout: Layout) -> Self {
        Self { layout, ..self.clone() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn num_elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Bytes of all elements.
    pub fn size_bytes(&self) -> u64 {
        self.num_elements() * self.dtype.size_bytes() as u64
    }

    /// The last dimension, 1 for a scalar.
    pub fn cols(&self) -> u64 {
        self.dims.last().copied().unwrap_or(1)
    }

    /// The product of all but the last dimension.
    pub fn rows(&self) -> u64 {
        self.dims.split_last().map_or(1, |(_, lead)| lead.iter().product())
    }

    /// Whether shape and element type agree, layouts aside.
    pub fn same_tensor(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.dims == other.dims
    }
}
