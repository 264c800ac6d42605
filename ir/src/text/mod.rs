//! The text form of modules: complete, so that parsing what was printed gives the module back.
//!
//! ```text
//! stage = sharded
//! mesh = [dp_shard = 8]
//!
//! func @step(
//!   %0: f32[512, 256] @ [dp_shard:S0] {role = param, name = "output.weight", init = zeros},
//!   %1: f32[4, 256] {role = input, name = "x", init = host},
//! ) repeat 1 {
//!   %2 = reshard %0 {to = @[]} : f32[512, 256] loc("output")
//!   %3 = einsum %1, %2 {spec = "bk,nk->bn", out = f32} : f32[4, 512] loc("output")
//!   %4 = neg %3 : f32[4, 512] @ [dp_shard:P(sum)] loc("output") in backward
//!   output "loss" = %4
//! }
//! ```
//! Values are numbered in print order; hand-written names (`%x`) and types left out (then inferred) are read too, and `//` starts a
//! comment. An attribute is a number, a word, a string, dimensions `[2, 3]`, a mesh axis `@tp`, a layout `@[tp:S0]`, types
//! `(f32[2], bf16[3])` or a kernel (see [`crate::kernel::text`]). Floats keep their bits.

pub(crate) mod cursor;
mod init;
mod lexer;
mod parser;
mod printer;

pub use parser::parse;
pub use printer::print;
