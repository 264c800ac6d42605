//! Elements in other places, and elements of a pattern.

mod joins;
mod moves;
mod patterns;

use super::{Operator, Table};

/// Operators that move.
pub(super) const OPERATORS: Table = &[
    ("aclnnPermute", moves::permute as Operator),
    ("aclnnSlice", moves::slice),
    ("aclnnExpand", moves::expand),
    ("aclnnRepeat", moves::repeat),
    ("aclnnFlip", moves::flip),
    ("aclnnCat", joins::cat),
    ("aclnnStack", joins::stack),
    ("aclnnSplitWithSize", joins::split_with_size),
    ("aclnnSplitTensor", joins::split_tensor),
    ("aclnnArange", patterns::arange),
    ("aclnnOneHot", patterns::one_hot),
    ("aclnnTril", |args| patterns::triangle(args, patterns::Side::Lower)),
    ("aclnnTriu", |args| patterns::triangle(args, patterns::Side::Upper)),
];
