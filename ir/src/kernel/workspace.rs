//! Scratch memory of native CPU kernels, known at build so that the plan counts it.

use super::{Attention, Contract};
use serde::{Deserialize, Serialize};

/// Row stride, in elements, of the f32 accumulator tile an epilogue reads ([`Access::Tile`](super::Access)).
pub const TILE_LD: u64 = 512;

/// Scratch of one kernel call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Bytes shared by all threads of the rank.
    pub shared_bytes: u64,
    /// Bytes of each thread.
    pub per_thread_bytes: u64,
}

impl Workspace {
    /// Enough for either.
    pub fn max(self, other: Self) -> Self {
        Self {
            shared_bytes: self.shared_bytes.max(other.shared_bytes),
            per_thread_bytes: self.per_thread_bytes.max(other.per_thread_bytes),
        }
    }
}

/// Scratch of a contraction.
pub fn contract(_spec: &Contract) -> Workspace {
    Workspace::default()
}

/// Scratch of attention, forward.
pub fn attention(_spec: &Attention) -> Workspace {
    Workspace::default()
}

/// Scratch of attention, backward.
pub fn attention_grad(_spec: &Attention) -> Workspace {
    Workspace::default()
}
