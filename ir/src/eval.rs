//! The reference evaluator.

use crate::Dims;

/// A tensor of the evaluator: f64, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Dimensions.
    pub dims: Dims,
    /// Elements.
    pub data: Vec<f64>,
}
