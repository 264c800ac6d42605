//! Kernels a backend writes by hand or takes from its vendor: contractions, attention, scatter.

use super::RowKernel;
use crate::DType;
use serde::{Deserialize, Serialize};

/// How partial values combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ReduceKind {
    /// Sum.
    Sum,
    /// Maximum.
    Max,
}

/// A collective over one mesh axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CollectiveKind {
    /// Concatenates the ranks' buffers in rank order.
    AllGather,
    /// Reduces, then gives rank `r` part `r`.
    ReduceScatter(ReduceKind),
    /// Reduces; all ranks get the result.
    AllReduce(ReduceKind),
    /// Part `p` of rank `r`'s buffer becomes part `r` of rank `p`'s.
    AllToAll,
}

/// Matrix product `C[m, n] = sum over k of A[m, k] B[k, n]`, accumulated in f32, row-major operands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contract {
    /// Element type of A and B.
    pub dtype: DType,
    /// Element type of C, when there is no epilogue.
    pub out: DType,
    /// Rows of C.
    pub m: u64,
    /// Columns of C.
    pub n: u64,
    /// Contracted length.
    pub k: u64,
    /// A is stored `[k, m]`.
    pub trans_a: bool,
    /// B is stored `[n, k]`.
    pub trans_b: bool,
    /// A kernel called on every finished tile instead of storing C: its first input has `Access::Tile`; columns are `n`.
    pub epilogue: Option<RowKernel>,
}

/// Scaled dot-product attention. q, o: `[batch, q_tokens, heads, head_dim]`; k, v: `[batch, kv_tokens, kv_heads, head_dim]`;
/// lse: f32 `[batch, heads, q_tokens]`, natural log of the sum of exponentials of scaled scores. Query head `h` uses key head `h / (heads / kv_heads)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attention {
    /// Element type of q, k, v, o.
    pub dtype: DType,
    /// Sequences.
    pub batch: u64,
    /// Query tokens.
    pub q_tokens: u64,
    /// Key and value tokens.
    pub kv_tokens: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Elements of a head.
    pub head_dim: u64,
    /// Query `t` sees keys `0..=t`.
    pub causal: bool,
    /// Factor on the scores, as the bits of an f32.
    pub scale_bits: u32,
}

/// `out[v, :] = sum over t with ids[t] == v of rows[t, :]`, added in the order of t, accumulated in f32.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScatterAdd {
    /// Element type of the rows.
    pub dtype: DType,
    /// Element type of the result.
    pub out: DType,
    /// Rows of the result.
    pub num: u64,
    /// Number of ids.
    pub tokens: u64,
    /// Columns.
    pub cols: u64,
}

/// A kernel that is not generated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Native {
    /// Operands a, b, then the epilogue's further inputs; results c, or the epilogue's outputs.
    Contract(Contract),
    /// Operands q, k, v; results o, lse.
    Attention(Attention),
    /// Operands q, k, v, o, lse, d_o; results d_q, d_k, d_v.
    AttentionGrad(Attention),
    /// Operands ids, rows; result the table's gradient.
    ScatterAdd(ScatterAdd),
}
