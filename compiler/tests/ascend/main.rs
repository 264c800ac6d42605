//! Programs for Ascend against the f64 meaning of what they were lowered from. Operators are computed by a small interpreter
//! written from the vendor's documentation; it shares nothing with the lowering.

#![expect(clippy::unwrap_used, reason = "a test helper's failure is the test's failure")]

mod documented;
#[expect(dead_code, reason = "it serves another test too")]
#[path = "../codegen/generate.rs"]
mod generate;
mod image;
mod llama3;
mod lowered;
mod machine;
mod memory;
mod operators;
mod ops;
mod random;
mod ranks;
mod signatures;
