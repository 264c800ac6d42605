//! Replaying a plan on the CPU.

mod bind;
mod replay;

pub use bind::{Bound, BoundSegment, Memory, Step};
pub use replay::{Profile, Rank, StepError};
