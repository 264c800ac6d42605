//! Buffers: no byte is read before it is written, overwritten while it is needed, or touched by two streams at once.
//!
//! Two proofs over the instructions of a plan, which share nothing with placement:
//! * *order*: every pair of accesses to a byte of which one writes is ordered by streams and events (vector clocks);
//! * *provenance*: what an operand reads is what the node that defines it wrote, byte for byte, through views, copies and
//!   microbatches; after a step every state and output holds what the module says.
//!
//! Segments that repeat are walked twice: what holds between the first two microbatches holds between all.

mod access;
mod clock;
mod memory;
mod origin;

pub(super) use crate::check::buffers::access::accesses as footprint;

use crate::check::buffers::access::{Access, accesses};
use crate::check::buffers::clock::Clocks;
use crate::check::buffers::memory::Memory;
use crate::check::buffers::origin::{Expected, Origin, Origins};
use crate::emit_plan::KernelTable;
use crate::pass::{Check, PassCx};
use titan_ir::plan::{ALIGN_BYTES, Action, Arena, Instr, Plan};
use titan_ir::{Diag, Diags, Module, Role};

/// The check of the plan in the context.
#[derive(Debug, Clone, Copy, Default)]
pub struct Buffers;

impl Check for Buffers {
    fn name(&self) -> &'static str {
        "buffers"
    }

    fn summary(&self) -> &'static str {
        "prove that no buffer is overwritten while it is needed"
    }

    fn run(&self, module: &Module, cx: &PassCx) -> Result<(), Diags> {
        cx.plan.as_ref().map_or(Ok(()), |plan| check(plan, module, &cx.kernels))
    }
}

/// Findings after which the walk stops: the first explain the rest.
const MAX_FINDINGS: usize = 10;

/// Proves a plan of `module`.
///
/// # Errors
/// T0503 with the module path, for every access that is out of bounds, unordered, or not of the bytes meant.
pub fn check(plan: &Plan, module: &Module, kernels: &KernelTable) -> Result<(), Diags> {
    let mut walk = Walk {
        plan,
        kernels,
        memory: Memory::default(),
        clocks: Clocks::default(),
        origins: Origins::new(module),
        found: Diags::default(),
    };
    for tensor in plan.tensors.iter().filter(|t| t.role.is_some_and(|r| r != Role::GradAccum)) {
        let origin = walk.origins.state(&tensor.name);
        walk.memory.host_write(tensor.address, tensor.size_bytes, origin);
    }
    for segment in &plan.segments {
        for _ in 0..segment.repeat.min(2) {
            walk.origins.enter(&segment.name);
            for instr in &segment.instrs {
                walk.instr(instr);
            }
            walk.leave(&segment.name);
        }
    }
    walk.outputs();
    if walk.found.has_errors() { Err(walk.found) } else { Ok(()) }
}

struct Walk<'a> {
    plan: &'a Plan,
    kernels: &'a KernelTable,
    memory: Memory,
    clocks: Clocks,
    origins: Origins<'a>,
    found: Diags,
}

impl Walk<'_> {
    fn instr(&mut self, instr: &Instr) {
        match instr.action {
            Action::Record { event } => self.clocks.record(instr.stream, event),
            Action::Wait { event } => {
                if !self.clocks.wait(instr.stream, event) {
                    self.report(instr, format!("event {event} is waited for and was never recorded"));
                }
            }
            _ => self.work(instr),
        }
    }

    fn work(&mut self, instr: &Instr) {
        let list = match accesses(&instr.action, &self.plan.mesh, self.kernels) {
            Ok(list) => list,
            Err(message) => return self.report(instr, message),
        };
        let time = self.clocks.tick(instr.stream);
        let mut expected = self.origins.next(&instr.action);
        if expected.surplus {
            self.report(instr, "the module has no such node".to_owned());
        }
        for access in &list {
            self.bounds(instr, access);
        }
        for (i, a) in list.iter().enumerate().filter(|(_, a)| a.writes) {
            for b in list[..i].iter().filter(|b| b.overlaps(a) && !a.may_share(b)) {
                self.report(instr, format!("{} is written over {}", a.what, b.what));
            }
        }
        for access in list.iter().filter(|a| !a.writes) {
            self.read(instr, access, time, &mut expected);
        }
        for access in list.iter().filter(|a| a.writes) {
            let origin = expected.write().unwrap_or_default();
            let (address, len_bytes) = (access.address, access.len_bytes);
            let result = self.memory.write(address, len_bytes, origin, (instr.stream, time), &self.clocks);
            if let Err(conflict) = result {
                self.report(instr, format!("{} {}", access.what, conflict.text()));
            }
        }
    }

    fn read(&mut self, instr: &Instr, access: &Access, time: u64, expected: &mut Expected) {
        let wanted = expected.read();
        let (address, len_bytes) = (access.address, access.len_bytes);
        match self.memory.read(address, len_bytes, (instr.stream, time), &self.clocks) {
            Err(conflict) => self.report(instr, format!("{} {}", access.what, conflict.text())),
            Ok(seen) => {
                expected.seen(&seen);
                let other = wanted.and_then(|wanted| seen.into_iter().find(|&o| o != wanted));
                if let (Some(wanted), Some(other)) = (wanted, other) {
                    let (wanted, other) = (self.origins.describe(wanted), self.origins.describe(other));
                    let message = format!("{} reads {other} where {wanted} was", access.what);
                    self.report(instr, message);
                }
            }
        }
    }

    fn bounds(&mut self, instr: &Instr, access: &Access) {
        let arena_bytes = match access.address.arena {
            Arena::State => self.plan.state_bytes,
            Arena::Step => self.plan.step_bytes,
        };
        let end = access.address.offset_bytes + access.len_bytes;
        if end > arena_bytes {
            self.report(instr, format!("{} ends at byte {end} of an arena of {arena_bytes}", access.what));
        }
        if !access.unaligned && !access.address.offset_bytes.is_multiple_of(ALIGN_BYTES) {
            self.report(
                instr,
                format!("{} is at byte {}, unaligned", access.what, access.address.offset_bytes),
            );
        }
    }

    /// After a segment every state it updates holds the new value.
    fn leave(&mut self, segment: &str) {
        let Some(updated) = self.origins.leave() else {
            self.found.push(Diag::new("T0503", format!("planning fault: `{segment}` leaves nodes out")));
            return;
        };
        for (name, origin) in updated {
            self.holds(segment, name, origin);
        }
    }

    /// After the step every output holds its value.
    fn outputs(&mut self) {
        for (name, origin) in self.origins.outputs() {
            self.holds("step", name, origin);
        }
    }

    fn holds(&mut self, segment: &str, name: &str, origin: Origin) {
        let Some(tensor) = self.plan.tensors.iter().find(|t| t.name == name) else {
            self.found.push(Diag::new("T0503", format!("the plan has no tensor `{name}`")).at(segment));
            return;
        };
        let seen = self.memory.peek(tensor.address, tensor.size_bytes);
        if seen.is_empty() || seen.iter().any(|&o| o != origin) {
            let message = format!("after `{segment}` tensor `{name}` does not hold its value");
            self.found.push(Diag::new("T0503", message).at(name));
        }
    }

    fn report(&mut self, instr: &Instr, message: String) {
        if self.found.0.len() < MAX_FINDINGS {
            let path = self.plan.locs.get(instr.loc as usize).cloned().unwrap_or_default();
            self.found.push(Diag::new("T0503", format!("planning fault: {message}")).at(path));
        }
    }
}
