//! What documentation demands of parameters. Every failure is 161002 with the parameter's name.

use super::compute::DType::{self, *};
use super::launch::Tensor;
use crate::fault::Fault;
use ascend_rs_sys::types::*;
use std::ops::RangeInclusive;

/// Types most operators of a training step take.
pub(super) const FLOATS: &[DType] = &[F32, F16, Bf16];
/// Floats, those of 64 bits too.
pub(super) const ALL_FLOATS: &[DType] = &[F32, F16, Bf16, F64];
/// Types of indices.
pub(super) const INDICES: &[DType] = &[I64, I32];
/// Types arithmetic takes.
pub(super) const NUMBERS: &[DType] = &[F32, F16, F64, I32, I64, I16, I8, U8, Bool, Bf16];
/// Types that are moved.
pub(super) const ALL: &[DType] = &[F32, F16, F64, I32, I64, I16, I8, U8, U16, U32, U64, Bool, Bf16];
/// Types of masks.
pub(super) const MASKS: &[DType] = &[Bool, U8];

/// 161002.
pub(super) fn invalid(text: String) -> Fault {
    Fault::new(ACLNN_ERR_PARAM_INVALID, text)
}

/// Fails with `text` unless `holds`.
pub(super) fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(invalid(text())) }
}

impl Tensor {
    pub(super) fn dtype(&self) -> DType {
        self.view.dtype
    }

    pub(super) fn dims(&self) -> &[usize] {
        &self.view.dims
    }

    pub(super) fn rank(&self) -> usize {
        self.view.rank()
    }

    /// Its type is one of `allowed`.
    pub(super) fn is_of(&self, allowed: &[DType]) -> Result<(), Fault> {
        ensure(allowed.contains(&self.dtype()), || {
            let names: Vec<_> = allowed.iter().map(|dtype| dtype.name()).collect();
            format!("{} has type {}; allowed: {}", self.name, self.dtype(), names.join(", "))
        })
    }

    /// Its type is that of `other`.
    pub(super) fn is_typed_as(&self, other: &Self) -> Result<(), Fault> {
        ensure(self.dtype() == other.dtype(), || {
            let (mine, theirs) = (self.dtype(), other.dtype());
            format!("{} has type {mine} and {} has {theirs}; they must agree", self.name, other.name)
        })
    }

    /// Its number of dimensions is in a range.
    pub(super) fn has_rank(&self, allowed: RangeInclusive<usize>) -> Result<(), Fault> {
        ensure(allowed.contains(&self.rank()), || {
            let (low, high) = (allowed.start(), allowed.end());
            format!("{} has {} dimensions; allowed: {low} to {high}", self.name, self.rank())
        })
    }

    /// Its shape is `dims`, which is that of `what`.
    pub(super) fn has_dims(&self, dims: &[usize], what: &str) -> Result<(), Fault> {
        ensure(self.dims() == dims, || {
            format!("{} has shape {:?}; that of {what} is {dims:?}", self.name, self.dims())
        })
    }

    /// Its shape is that of `other`.
    pub(super) fn is_shaped_as(&self, other: &Self) -> Result<(), Fault> {
        self.has_dims(other.dims(), &other.name)
    }

    /// Its elements follow each other.
    pub(super) fn is_contiguous(&self) -> Result<(), Fault> {
        ensure(self.view.is_contiguous(), || {
            let (dims, strides) = (self.dims(), &self.view.strides);
            format!("{} must be contiguous; its shape is {dims:?}, its strides {strides:?}", self.name)
        })
    }

    /// It can hold results of type `result`: no category is lost.
    pub(super) fn can_hold(&self, result: DType) -> Result<(), Fault> {
        ensure(result.category() <= self.dtype().category(), || {
            format!("{} has type {}, which cannot hold the result's {result}", self.name, self.dtype())
        })
    }
}

/// The shape tensors broadcast to.
pub(super) fn broadcast(tensors: &[&Tensor]) -> Result<Vec<usize>, Fault> {
    let rank = tensors.iter().map(|t| t.rank()).max().unwrap_or(0);
    let mut dims = vec![1; rank];
    for tensor in tensors {
        let lead = rank - tensor.rank();
        for (i, &dim) in tensor.dims().iter().enumerate() {
            let joint = &mut dims[lead + i];
            ensure(dim == *joint || dim == 1 || *joint == 1, || {
                let shapes: Vec<_> = tensors.iter().map(|t| format!("{} {:?}", t.name, t.dims())).collect();
                format!("shapes cannot be broadcast: {}", shapes.join(", "))
            })?;
            if dim != 1 {
                *joint = dim;
            }
        }
    }
    Ok(dims)
}

/// `dim` counted from the front, of `rank` dimensions.
pub(super) fn dimension(dim: i64, rank: usize, name: &str) -> Result<usize, Fault> {
    let size = rank.max(1) as i64;
    ensure((-size..size).contains(&dim), || format!("{name} is {dim}; allowed: {} to {}", -size, size - 1))?;
    Ok(dim.rem_euclid(size) as usize)
}

/// Dimensions to reduce, ascending: all if none are listed.
pub(super) fn dimensions(dims: &[i64], rank: usize, name: &str) -> Result<Vec<usize>, Fault> {
    if dims.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut found: Vec<usize> = dims.iter().map(|&d| dimension(d, rank, name)).collect::<Result<_, _>>()?;
    found.sort_unstable();
    let unique = found.windows(2).all(|pair| pair[0] != pair[1]);
    ensure(unique, || format!("{name} lists a dimension twice: {dims:?}"))?;
    if rank == 0 {
        found.clear();
    }
    Ok(found)
}

/// A shape without `axes`, or with 1 for them.
pub(super) fn reduced(dims: &[usize], axes: &[usize], keep: bool) -> Vec<usize> {
    let dims = dims.iter().enumerate();
    if keep {
        dims.map(|(i, &d)| if axes.contains(&i) { 1 } else { d }).collect()
    } else {
        dims.filter(|(i, _)| !axes.contains(i)).map(|(_, &d)| d).collect()
    }
}
