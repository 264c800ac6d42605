//! Capture: every part of a device program can be recorded as a graph and replayed.
//!
//! The rules are those of the vendor's runtime, written down here and nowhere in what lowers plans:
//! * [`join`]: streams enter a capture by an event of it, and come back to the stream it began on;
//! * [`operators`]: nothing that reads back from the device, copies from the host, or freezes what should change;
//! * [`collectives`]: what the communication library can do inside a capture, by generation of device;
//! * [`budget`]: streams, queue entries, events and graphs.
//!
//! A part holds no call that makes the host wait, by its type: the host reads guards between parts.
//!
//! **Source**: documentation of `aclmdlRICapture*` and of HCCL in graph capture, CANN 8.5; the state machine was observed on the vendor's
//! runtime without a device.

pub mod budget;
pub mod collectives;
mod join;
mod operators;

use crate::check::device::{Findings, parts};
use budget::Usage;
use collectives::Expansion;
use titan_ir::ascend::{Program, Soc};
use titan_ir::{Diags, Plan};

/// Proves that every part of a plan's program can be captured on a device.
///
/// # Errors
/// T0550 a stream or event that does not exist; T0551, T0552, T0553 a stream that is not forked, a wait for what is not recorded, a stream that
/// is not joined; T0554, T0555, T0556 too many streams, events or graphs; T0557, T0559 an operator that cannot be captured, or only with
/// a value that then never changes; T0558 a collective that cannot be captured there. Each names the module.
pub fn check(plan: &Plan, program: &Program, soc: &Soc) -> Result<(), Diags> {
    check_with(plan, program, soc, Expansion::of_family(soc.family))
}

/// As [`check`], with collectives run in a way of the caller's choice.
///
/// # Errors
/// As [`check`].
pub fn check_with(plan: &Plan, program: &Program, soc: &Soc, expansion: Expansion) -> Result<(), Diags> {
    let mut findings = Findings::new(plan, program);
    for (segment, part) in parts(program) {
        join::check(program, segment, part, &mut findings);
        operators::check(program, segment, part, &mut findings);
        collectives::check(plan, program, (segment, part), (soc, expansion), &mut findings);
    }
    Usage::of(plan, program, expansion).check(expansion, &mut findings);
    findings.finish()
}
