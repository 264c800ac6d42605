//! Communication between ranks.

mod exchange;
pub mod local;
mod meeting;

pub use local::{Call, Comm, Group, Part, Stopped, World};
