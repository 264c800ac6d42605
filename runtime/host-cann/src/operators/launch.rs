//! Operands, and what a computation sees of them.

use super::compute::{Order, View};
use super::plan::Place;
use crate::span::Span;
use std::ops::Index;

/// What an operator does with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Input,
    Output,
    /// Both.
    Updated,
}

/// A tensor an operator was given.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    pub(super) name: String,
    /// Its descriptor.
    pub(super) handle: usize,
    pub(super) view: View,
    /// From the address of its memory to its first element.
    pub(super) offset_bytes: usize,
    pub(super) role: Role,
    /// Its number among the operands.
    pub(super) at: usize,
    /// Its place among tensor parameters, among inputs, among outputs, and in its list.
    pub(super) places: [usize; 4],
}

impl Tensor {
    pub(super) fn is_read(&self) -> bool {
        self.role != Role::Output
    }

    pub(super) fn is_written(&self) -> bool {
        self.role != Role::Input
    }

    pub(super) fn is_at(&self, place: Place) -> bool {
        let [any, input, output, element] = self.places;
        match place {
            Place::Any(at, e) => (at, e) == (any, element),
            Place::Input(at, e) => self.is_read() && (at, e) == (input, element),
            Place::Output(at, e) => self.is_written() && (at, e) == (output, element),
        }
    }

    /// The bytes from its first element to the end of its last.
    pub(super) fn span(&self) -> Span {
        Span { start: self.view.address, len: self.view.extent_bytes() }
    }

    /// Whether some element of both is in the same byte.
    pub(super) fn shares_bytes(&self, other: &Self) -> bool {
        if !self.span().overlaps(other.span()) {
            return false;
        }
        let (mine, theirs) = (rows(&self.view), rows(&other.view));
        let (mut a, mut b) = (mine.iter().peekable(), theirs.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            if x.overlaps(**y) {
                return true;
            }
            if x.start < y.start {
                a.next();
            } else {
                b.next();
            }
        }
        false
    }
}

/// The contiguous pieces of a view in the order of their addresses.
fn rows(view: &View) -> Vec<Span> {
    if view.num_elements() == 0 {
        return Vec::new();
    }
    let size = view.dtype.size_bytes();
    let mut order: Vec<usize> =
        (0..view.rank()).filter(|&d| view.dims[d] != 1 && view.strides[d] != 0).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(view.strides[d]));
    let mut outer = view.permuted(&order);
    let mut len = 1;
    while outer.strides.last() == Some(&len) {
        len *= outer.dims.pop().expect("there is a stride");
        outer.strides.pop();
    }
    outer.offsets().map(|at| Span { start: view.address + at * size, len: len * size }).collect()
}

/// One run of an operator.
pub(super) struct Launch<'a> {
    operands: &'a [Tensor],
    /// The order in which sums without a promised order are taken.
    pub(super) order: Order,
}

impl<'a> Launch<'a> {
    pub(super) fn new(operands: &'a [Tensor], deterministic: bool, seed: u64) -> Self {
        Self { operands, order: if deterministic { Order::Fixed } else { Order::Seeded(seed) } }
    }

    /// Where an optional tensor is.
    pub(super) fn view(&self, tensor: &Option<Tensor>) -> Option<&'a View> {
        tensor.as_ref().map(|tensor| &self.operands[tensor.at].view)
    }
}

impl Index<&Tensor> for Launch<'_> {
    type Output = View;

    fn index(&self, tensor: &Tensor) -> &View {
        &self.operands[tensor.at].view
    }
}
