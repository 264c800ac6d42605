//! Generated CPU kernels against their meaning.

#![expect(clippy::unwrap_used, reason = "a test helper's failure is the test's failure")]

mod accuracy;
mod generate;
mod image;
mod known;
mod random;
