//! The mesh of ranks, and where tensors live on it.

use crate::id::AxisId;
use crate::kernel::ReduceKind;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// One axis of the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// `dp_replicate`, `dp_shard`, `tp`, ...
    pub name: String,
    /// Ranks along it, at least 1.
    pub size: u64,
}

/// A grid of ranks, axes outermost first: the last axis varies fastest with the rank number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mesh {
    /// Axes, outermost first.
    pub axes: Vec<Axis>,
}

impl Mesh {
    /// A mesh of these axes.
    pub fn new(axes: &[(&str, u64)]) -> Self {
        Self { axes: axes.iter().map(|&(name, size)| Axis { name: name.to_owned(), size }).collect() }
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u64 {
        self.axes.iter().map(|a| a.size).product()
    }

    /// The axis of that name.
    pub fn axis(&self, name: &str) -> Option<AxisId> {
        self.axes.iter().position(|a| a.name == name).map(AxisId::new)
    }

    /// Ranks along an axis.
    pub fn size(&self, axis: AxisId) -> u64 {
        self.axes[axis.index()].size
    }

    /// Ranks between neighbours of an axis: the product of the sizes inside it.
    pub fn stride(&self, axis: AxisId) -> u64 {
        self.axes[axis.index() + 1..].iter().map(|a| a.size).product()
    }

    /// The position of a rank along an axis.
    pub fn coordinate(&self, rank: u64, axis: AxisId) -> u64 {
        rank / self.stride(axis) % self.size(axis)
    }

    /// The ranks that differ from `rank` only along `axis`, in order of their coordinate.
    pub fn group(&self, rank: u64, axis: AxisId) -> Vec<u64> {
        let stride = self.stride(axis);
        let first = rank - self.coordinate(rank, axis) * stride;
        (0..self.size(axis)).map(|i| first + i * stride).collect()
    }
}

/// Where a tensor is along one mesh axis, when it is not simply on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Placement {
    /// Cut along a dimension; torch's chunk rule: chunks of `ceil(n / ranks)`, the last ones short or empty.
    Shard(u8),
    /// Every rank holds an addend (or a candidate for the maximum).
    Partial(ReduceKind),
}

/// A tensor's placement on every mesh axis; an axis that is not listed replicates.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Layout(SmallVec<[(AxisId, Placement); 2]>);

impl Layout {
    /// On every rank.
    pub fn replicate() -> Self {
        Self::default()
    }

    /// The placement along an axis, `None` for replicate.
    pub fn get(&self, axis: AxisId) -> Option<Placement> {
        self.0.iter().find(|(a, _)| *a == axis).map(|(_, p)| *p)
    }

    /// Sets (or with `None` clears) the placement along an axis.
    pub fn set(&mut self, axis: AxisId, placement: Option<Placement>) {
        self.0.retain(|(a, _)| *a != axis);
        if let Some(placement) = placement {
            let at = self.0.iter().position(|(a, _)| *a > axis).unwrap_or(self.0.len());
            self.0.insert(at, (axis, placement));
        }
    }

    /// The same with one more placement.
    pub fn with(mut self, axis: AxisId, placement: Placement) -> Self {
        self.set(axis, Some(placement));
        self
    }

    /// Placements other than replicate, outermost axis first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (AxisId, Placement)> + '_ {
        self.0.iter().copied()
    }

    /// Whether every axis replicates.
    pub fn is_replicate(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any axis holds partial values.
    pub fn has_partial(&self) -> bool {
        self.0.iter().any(|(_, p)| matches!(p, Placement::Partial(_)))
    }

    /// Axes that cut dimension `dim`, outermost first.
    pub fn axes_of_dim(&self, dim: usize) -> impl Iterator<Item = AxisId> + '_ {
        self.0
            .iter()
            .filter(move |(_, p)| matches!(p, Placement::Shard(d) if usize::from(*d) == dim))
            .map(|(a, _)| *a)
    }

    /// Per-rank dimensions: each cut dimension is `ceil(n / ranks)`, padded on the last ranks.
    pub fn local_dims(&self, mesh: &Mesh, dims: &[u64]) -> SmallVec<[u64; 4]> {
        let cut = |(dim, &n): (usize, &u64)| {
            let parts: u64 = self.axes_of_dim(dim).map(|a| mesh.size(a)).product();
            n.div_ceil(parts)
        };
        dims.iter().enumerate().map(cut).collect()
    }
}
