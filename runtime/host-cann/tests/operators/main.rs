//! The operators through the shared library: what they give against torch's numbers, and what they refuse.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../support/mod.rs"]
mod support;

mod call;
mod executors;
mod nulls;
mod numbers;
mod orders;
mod refusals;
mod tensors;
