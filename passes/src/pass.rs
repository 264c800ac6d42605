//! What a pass and a check are.

use crate::emit_plan::KernelTable;
use std::fmt;
use titan_ir::{Diag, DiagResult, Diags, Module, Plan, Stage};

/// Whether a pass left the module as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// Something was rewritten.
    Yes,
    /// The module is as before.
    No,
}

impl From<bool> for Changed {
    fn from(changed: bool) -> Self {
        if changed { Self::Yes } else { Self::No }
    }
}

/// What a pass may do to numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumericsClass {
    /// The evaluator gives the same bits before and after, in the element types of the module.
    Exact,
    /// Sums may be taken in another order or rounded at other places: opt-in, named in the artifact.
    Reassociating,
}

/// A transformation of a module. Options are fields of the pass value.
pub trait Pass: fmt::Debug {
    /// Kebab-case: the name on the command line, of the file and of the filetest folder.
    fn name(&self) -> &'static str;

    /// One line for `titanc opt --list`.
    fn summary(&self) -> &'static str;

    /// What it may do to numbers.
    fn numerics(&self) -> NumericsClass;

    /// Stages of the modules it takes; the manager refuses others.
    fn stages(&self) -> &'static [Stage];

    /// Transforms the module. A pass that lifts the module to the next stage sets `module.stage`.
    ///
    /// # Errors
    /// The first finding that is the user's to solve.
    fn run(&self, module: &mut Module, cx: &mut PassCx) -> DiagResult<Changed>;
}

/// An independent proof about a module. Shares no code with the pass it judges.
pub trait Check: fmt::Debug {
    /// Kebab-case.
    fn name(&self) -> &'static str;

    /// One line.
    fn summary(&self) -> &'static str;

    /// Judges the module and what passes have put in `cx`.
    ///
    /// # Errors
    /// All findings.
    fn run(&self, module: &Module, cx: &PassCx) -> Result<(), Diags>;
}

/// What passes hand to later passes and to the caller beside the module.
#[derive(Debug, Default)]
pub struct PassCx {
    /// Findings that do not stop the build.
    pub warnings: Vec<Diag>,
    /// The plan, once `emit-plan` has run.
    pub plan: Option<Plan>,
    /// Generated kernels of all plans emitted in this context.
    pub kernels: KernelTable,
}
