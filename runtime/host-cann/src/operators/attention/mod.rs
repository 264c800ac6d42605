//! Attention and its gradient, block by block of queries. Legend of shapes: b batch, n heads, s queries, t keys, d head width.

mod backward;
mod forward;
mod layout;
mod mask;
mod settings;

use super::{Operator, Table};

pub(super) const OPERATORS: Table = &[
    ("aclnnFlashAttentionScore", (|args| forward::forward(args, 1)) as Operator),
    ("aclnnFlashAttentionScoreV2", |args| forward::forward(args, 2)),
    ("aclnnFlashAttentionScoreV3", |args| forward::forward(args, 3)),
    ("aclnnFlashAttentionScoreGrad", |args| backward::backward(args, 1)),
    ("aclnnFlashAttentionScoreGradV2", |args| backward::backward(args, 2)),
    ("aclnnFlashAttentionScoreGradV3", |args| backward::backward(args, 3)),
];

/// Queries of a block.
const BLOCK: usize = 128;
/// Copies of each row's maximum and sum.
const REPEATS: usize = 8;
/// Room of the system's own kernels.
const SYSTEM_BYTES: usize = 16 << 20;
