//! Device races: a program does what its plan does, and no two of its calls touch a byte at once.
//!
//! Proofs over the calls of a [`Program`], which share nothing with what lowers plans:
//! * [`regions`]: state, step, tables, scratch and workspaces lie apart; every operand lies in one of them; tables are never written, and
//!   workspaces belong to the operators of one stream;
//! * *order*: every pair of accesses to a byte of which one writes is ordered by streams and events (vector clocks);
//! * [`footprint`]: the calls of an instruction write what it writes, and read what it reads, or scratch that they have written
//!   themselves; instructions keep the plan's order. So what the buffer check proves of the plan holds for the program;
//! * [`derived`]: a slot, which later instructions of its part may read, is read only while what it was computed from is unchanged.
//!
//! Segments that repeat are walked twice: what holds between the first two microbatches holds between all. A part begins and ends on
//! stream 0, which the capture check proves, so parts follow each other.

mod access;
mod derived;
mod footprint;
mod intervals;
mod memory;
mod regions;

use crate::check::device::{Findings, Site, sites};
use crate::emit_plan::KernelTable;
use access::{Access, accesses};
use derived::Derived;
use footprint::Footprints;
use memory::{Clocks, Memory, When, Writer};
use regions::{Place, Regions};
use titan_ir::ascend::{Call, DeviceKernels, Program};
use titan_ir::plan::Action;
use titan_ir::{Diags, Plan, Role};

/// Proves a plan's program.
///
/// # Errors
/// T0560 two accesses that are not ordered; T0561 an address outside its region; T0562 a table that is written; T0563 a workspace that is missing or
/// not the stream's own; T0564 a read of bytes nothing has written; T0565 an access the plan's instruction does not make; T0566 something
/// the plan does and the program does not, or in another order.
pub fn check(
    plan: &Plan,
    program: &Program,
    device_kernels: &DeviceKernels,
    kernels: &KernelTable,
) -> Result<(), Diags> {
    let mut findings = Findings::new(plan, program);
    let regions = Regions::of(program);
    regions.check(plan, program, &mut findings);
    if plan.segments.len() != program.segments.len() {
        let message = format!(
            "a plan of {} segments became a program of {}",
            plan.segments.len(),
            program.segments.len()
        );
        findings.whole("T0566", message, "lower every segment of the plan");
        return findings.finish();
    }
    let mut walk = Walk {
        plan,
        program,
        device_kernels,
        regions,
        memory: Memory::default(),
        derived: Derived::default(),
        clocks: Clocks::new(usize::from(program.num_streams).max(1)),
        num_parts: 0,
    };
    walk.host_writes();
    for segment in 0..program.segments.len() {
        walk.segment(segment, kernels, &mut findings);
    }
    findings.finish()
}

struct Walk<'a> {
    plan: &'a Plan,
    program: &'a Program,
    device_kernels: &'a DeviceKernels,
    regions: Regions,
    memory: Memory,
    derived: Derived,
    clocks: Clocks,
    /// Parts of the segments and repetitions before.
    num_parts: u32,
}

/// Written before the first step.
const BY_HOST: Writer = Writer { part: u32::MAX, instr: 0 };

impl Walk<'_> {
    fn host_writes(&mut self) {
        let tensors = self.plan.tensors.iter();
        for tensor in tensors.filter(|t| t.role.is_some_and(|role| role != Role::GradAccum)) {
            let at = self.program.address(tensor.address);
            self.memory.write((at, at + tensor.size_bytes), When::START, BY_HOST, &self.clocks);
        }
        for table in &self.program.tables {
            let range = (table.at, table.at + table.fill.size_bytes());
            self.memory.write(range, When::START, BY_HOST, &self.clocks);
        }
    }

    fn segment(&mut self, segment: usize, kernels: &KernelTable, findings: &mut Findings<'_>) {
        let mut footprints = match Footprints::of(self.plan, self.program, segment, kernels) {
            Ok(footprints) => footprints,
            Err(message) => return findings.whole("T0566", message, "lower the plan the artifact holds"),
        };
        let of_plan = &self.plan.segments[segment];
        let of_program = &self.program.segments[segment];
        if (&of_plan.name, of_plan.repeat) != (&of_program.name, of_program.repeat) {
            let message = format!("segment `{}` of the plan became `{}`", of_plan.name, of_program.name);
            findings.whole("T0566", message, "keep name and repetitions of a segment");
        }
        for _ in 0..of_program.repeat.min(2) {
            for (part, content) in of_program.parts.iter().enumerate() {
                for site in sites(self.program, segment, part) {
                    self.submission(&site, &mut footprints, findings);
                }
                self.guard(&content.guard, findings);
                self.num_parts += 1;
            }
            footprints.end(findings);
        }
        self.guards(segment, findings);
    }

    fn submission(&mut self, site: &Site<'_>, footprints: &mut Footprints<'_>, findings: &mut Findings<'_>) {
        let stream = usize::from(site.submission.stream);
        if stream >= self.clocks.num_streams() || findings.is_full() {
            // A stream that does not exist is the capture check's.
            return;
        }
        match site.submission.call {
            Call::Record { event } => return self.clocks.record(stream, event),
            Call::Wait { event } => return self.clocks.wait(stream, event),
            _ => {}
        }
        let list = match accesses(&site.submission.call, &self.plan.mesh, self.device_kernels) {
            Ok(list) => list,
            Err(message) => return findings.at(site, "T0561", &message, "pass the operands of the kernel"),
        };
        if matches!(site.submission.call, Call::Operator { .. }) && !self.regions.has_workspace(stream) {
            let message = "its stream has no workspace";
            findings.at(site, "T0563", message, "plan a workspace for every stream that runs operators");
        }
        footprints.begin(site, findings);
        let when = self.clocks.tick(stream);
        let writer = Writer { part: self.num_parts, instr: site.submission.source };
        let places: Vec<Option<Place>> =
            list.iter().map(|access| self.place(site, access, findings)).collect();
        overlaps(site, &list, findings);
        for (access, place) in list.iter().zip(&places).filter(|(a, _)| a.reads) {
            self.read(site, (access, *place), (when, writer), findings);
            footprints.read(site, (access, *place), findings);
        }
        self.derived.call(&list, &places);
        for (access, place) in list.iter().zip(&places).filter(|(a, _)| a.writes) {
            let conflict = self.memory.write(access.range(), when, writer, &self.clocks);
            if let Some(conflict) = conflict {
                let message = format!("{} {}", access.what, conflict.text());
                findings.at(site, "T0560", &message, ORDER_THEM);
            }
            footprints.write(site, (access, *place), findings);
        }
    }

    fn place(&self, site: &Site<'_>, access: &Access, findings: &mut Findings<'_>) -> Option<Place> {
        let (at, end) = access.range();
        let Some(place) = self.regions.place(at, end) else {
            let message =
                format!("{} is at bytes {at} to {end}, across or outside of all regions", access.what);
            findings.at(site, "T0561", &message, "keep every operand inside one region of the arena");
            return None;
        };
        if !at.is_multiple_of(access.align_bytes) {
            let message =
                format!("{} is at byte {at}, not a multiple of {}", access.what, access.align_bytes);
            findings.at(site, "T0561", &message, "align operands as the library asks");
        }
        match place {
            Place::Table if access.writes => {
                let message = format!("{} is written into a constant table", access.what);
                findings.at(site, "T0562", &message, "tables are for reading: write to scratch");
            }
            Place::Workspace => {
                let message = format!("{} is in a workspace, which operators overwrite", access.what);
                findings.at(site, "T0563", &message, "keep values in scratch");
            }
            _ => {}
        }
        Some(place)
    }

    fn read(
        &mut self,
        site: &Site<'_>,
        (access, place): (&Access, Option<Place>),
        (when, reader): (When, Writer),
        findings: &mut Findings<'_>,
    ) {
        let seen = self.memory.read(access.range(), when, &self.clocks);
        if let Some(conflict) = seen.conflict {
            let message = format!("{} {}", access.what, conflict.text());
            findings.at(site, "T0560", &message, ORDER_THEM);
        } else if !seen.is_whole {
            let message = format!("{} reads bytes that nothing has written", access.what);
            findings.at(site, "T0564", &message, "write them first");
        } else if place == Some(Place::Scratch) && seen.writers.iter().any(|&w| w != reader) {
            let message = format!("{} reads scratch that another instruction has left", access.what);
            findings.at(site, "T0565", &message, "scratch lives within the calls of one instruction");
        } else if place == Some(Place::Slot) && seen.writers.iter().any(|w| w.part != reader.part) {
            let message = format!("{} reads a slot that another part has left", access.what);
            findings.at(site, "T0565", &message, "slots live within one part");
        } else if place == Some(Place::Slot) && !self.derived.is_current(access) {
            let message = format!("{} reads a slot computed from memory that has changed since", access.what);
            findings.at(site, "T0565", &message, "compute it again");
        }
    }

    /// What the host reads after a part, when stream 0 is done.
    fn guard(&mut self, guard: &[(String, u64)], findings: &mut Findings<'_>) {
        let when = self.clocks.tick(0);
        for (name, at) in guard {
            let seen = self.memory.read((*at, at + 4), when, &self.clocks);
            if seen.conflict.is_some() || !seen.is_whole {
                let message = format!("guard `{name}` is read before stream 0 knows it is written");
                findings.whole("T0560", message, ORDER_THEM);
            }
        }
    }

    /// The guards of a segment are those of the plan, in its order.
    fn guards(&self, segment: usize, findings: &mut Findings<'_>) {
        let wanted: Vec<(&str, u64)> = self.plan.segments[segment]
            .instrs
            .iter()
            .filter_map(
                |instr| if let Action::Guard { scalars } = &instr.action { Some(scalars) } else { None },
            )
            .flatten()
            .map(|(name, address)| (name.as_str(), self.program.address(*address)))
            .collect();
        let parts = self.program.segments[segment].parts.iter();
        let found: Vec<(&str, u64)> =
            parts.flat_map(|p| &p.guard).map(|(name, at)| (name.as_str(), *at)).collect();
        if wanted != found {
            let message = format!(
                "segment `{}` guards {found:?} where the plan guards {wanted:?}",
                self.program.segments[segment].name
            );
            findings.whole("T0566", message, "end a part at every guard of the plan");
        }
    }
}

const ORDER_THEM: &str = "record an event behind the first access and wait for it before the second";

/// A result of a call lies on another operand as a whole or not at all.
fn overlaps(site: &Site<'_>, list: &[Access], findings: &mut Findings<'_>) {
    for (i, written) in list.iter().enumerate().filter(|(_, a)| a.writes) {
        for (_, other) in list.iter().enumerate().filter(|(j, other)| *j != i && (!other.writes || *j < i)) {
            let apart =
                written.at + written.len_bytes <= other.at || other.at + other.len_bytes <= written.at;
            let same = (written.at, written.len_bytes) == (other.at, other.len_bytes) && !other.writes;
            if !apart && !same {
                let message = format!("{} lies on a part of {}", written.what, other.what);
                findings.at(site, "T0560", &message, "give the result memory of its own");
            }
        }
    }
}
