//! How a tensor of heads is laid out.

use crate::fault::Fault;
use crate::operators::check::{ensure, invalid};
use crate::operators::compute::View;
use crate::operators::launch::Tensor;

/// The order of dimensions; H is heads times width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Bsh,
    Sbh,
    Bsnd,
    Bnsd,
}

impl Layout {
    pub(super) fn of(text: Option<&str>) -> Result<Self, Fault> {
        match text {
            Some("BSH") => Ok(Self::Bsh),
            Some("SBH") => Ok(Self::Sbh),
            Some("BSND") => Ok(Self::Bsnd),
            Some("BNSD") => Ok(Self::Bnsd),
            other => Err(invalid(format!("inputLayout is {other:?}; allowed: BSH, SBH, BSND, BNSD"))),
        }
    }

    /// The order that makes it batch, heads, tokens, width, once H is split.
    fn order(self) -> [usize; 4] {
        match self {
            Self::Bnsd => [0, 1, 2, 3],
            Self::Bsh | Self::Bsnd => [0, 2, 1, 3],
            Self::Sbh => [1, 2, 0, 3],
        }
    }

    fn has_joint_heads(self) -> bool {
        matches!(self, Self::Bsh | Self::Sbh)
    }

    /// The tensor as batch, heads, tokens, width; `width` splits H where heads are joined.
    pub(super) fn heads(self, view: &View, width: usize) -> View {
        let mut view = view.clone();
        if self.has_joint_heads() {
            let (joint, stride) = (view.dims[2], view.strides[2]);
            view.dims.splice(2.., [joint / width.max(1), width]);
            view.strides.splice(2.., [width * stride, stride]);
        }
        view.permuted(&self.order())
    }

    /// The width of a head, of which `query` has `num_heads`.
    pub(super) fn width(self, query: &Tensor, num_heads: usize) -> Result<usize, Fault> {
        let rank = if self.has_joint_heads() { 3 } else { 4 };
        query.has_rank(rank..=rank)?;
        let last = query.dims()[rank - 1];
        if !self.has_joint_heads() {
            return Ok(last);
        }
        ensure(num_heads > 0 && last.is_multiple_of(num_heads), || {
            format!("{} has {last} columns, no multiple of headNum {num_heads}", query.name)
        })?;
        Ok(last / num_heads)
    }

    /// Batch, heads, tokens and width of a tensor, whose type and rank are those of `query`.
    pub(super) fn dims(self, tensor: &Tensor, query: &Tensor, width: usize) -> Result<[usize; 4], Fault> {
        tensor.is_typed_as(query)?;
        tensor.has_rank(query.rank()..=query.rank())?;
        let last = *tensor.dims().last().expect("its rank was checked");
        ensure(width > 0 && last.is_multiple_of(width), || {
            format!("{} has {last} columns, no multiple of the head width {width}", tensor.name)
        })?;
        let view = self.heads(&tensor.view, width);
        Ok([view.dims[0], view.dims[1], view.dims[2], view.dims[3]])
    }
}
