//! Communication between ranks.

pub mod local;

pub use local::{Call, Comm, Group, Stopped, World};
