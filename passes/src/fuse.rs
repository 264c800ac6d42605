//! `fuse`: ops become kernels.
//!
//! Every op states its lowering. Fragments are grouped into generated kernels so that intermediates stay in registers;
//! a group over a contraction's result becomes its epilogue. What is left are launches, collectives, views and copies.
//!
//! Exact: an intermediate whose type is bf16 is rounded inside the kernel, sums keep their tree whatever the group.
//! Groups grow greedily, pairs that save most memory traffic first; ties go by program order, so that equal layers give
//! equal kernels.

mod build;
mod canon;
mod group;
mod order;
mod pairs;
mod unit;

use crate::pass::{Changed, NumericsClass, Pass, PassCx};
use titan_ir::{DiagResult, Func, Module, Stage};

/// Elements of a chunk of a flat kernel.
pub const CHUNK: u64 = 16 * 1024;

/// Rows whose column sums are one partial sum.
pub const BLOCK_ROWS: u64 = 32;

/// The pass.
#[derive(Debug, Clone, Copy)]
pub struct Fuse {
    /// Most operands and results of a generated kernel; 0 keeps every op a kernel of its own.
    pub max_operands: usize,
    /// Whether a contraction may take a kernel as its epilogue.
    pub epilogues: bool,
}

impl Default for Fuse {
    fn default() -> Self {
        Self { max_operands: 24, epilogues: true }
    }
}

impl Pass for Fuse {
    fn name(&self) -> &'static str {
        "fuse"
    }

    fn summary(&self) -> &'static str {
        "group ops into kernels"
    }

    fn numerics(&self) -> NumericsClass {
        NumericsClass::Exact
    }

    fn stages(&self) -> &'static [Stage] {
        &[Stage::Local]
    }

    fn run(&self, module: &mut Module, _cx: &mut PassCx) -> DiagResult<Changed> {
        for func in &mut module.funcs {
            fuse(func, *self);
        }
        module.stage = Stage::Kernels;
        Ok(Changed::Yes)
    }
}

/// Fuses one function.
fn fuse(func: &mut Func, options: Fuse) {
    let units = unit::Units::of(func);
    let mut groups = group::Groups::new(func, &units, options);
    if options.max_operands > 0 {
        for pair in pairs::pairs(func, &units) {
            groups.merge(pair.a, pair.b);
        }
    }
    let members = groups.finish();
    build::rebuild(func, &units, &members);
}
