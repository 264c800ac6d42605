//! The memory an instruction of the plan touches, and what its calls touch of it.

use super::access::Access;
use super::intervals::Range;
use super::regions::Place;
use crate::check::buffers;
use crate::check::device::{Findings, Site};
use crate::emit_plan::KernelTable;
use titan_ir::ascend::{Call, Program};
use titan_ir::plan::Action;
use titan_ir::{Diag, Plan};

/// What an instruction does.
#[derive(Debug, Clone, Default)]
struct Footprint {
    /// Merged and sorted.
    reads: Vec<Range>,
    writes: Vec<Range>,
    /// Written by its calls so far.
    written: Vec<Range>,
}

/// The instructions of a segment.
#[derive(Debug)]
pub(super) struct Footprints<'a> {
    plan: &'a Plan,
    segment: usize,
    all: Vec<Footprint>,
    /// The instruction whose calls are walked.
    current: u32,
}

impl<'a> Footprints<'a> {
    /// # Errors
    /// Why the plan itself makes no sense.
    pub(super) fn of(
        plan: &'a Plan,
        program: &Program,
        segment: usize,
        kernels: &KernelTable,
    ) -> Result<Self, String> {
        let instrs = plan.segments[segment].instrs.iter();
        let all = instrs.map(|instr| {
            let list = buffers::footprint(&instr.action, &plan.mesh, kernels)?;
            let ranges = |writes: bool| {
                let chosen = list.iter().filter(|a| a.writes == writes && a.len_bytes > 0);
                merged(
                    chosen
                        .map(|a| (program.address(a.address), program.address(a.address) + a.len_bytes))
                        .collect(),
                )
            };
            Ok(Footprint { reads: ranges(false), writes: ranges(true), written: Vec::new() })
        });
        Ok(Self { plan, segment, all: all.collect::<Result<_, String>>()?, current: 0 })
    }

    /// The next call: of the same instruction as the one before, or of a later one.
    pub(super) fn begin(&mut self, site: &Site<'_>, findings: &mut Findings<'_>) {
        let source = site.submission.source;
        let Some(instr) = self.plan.segments[self.segment].instrs.get(source as usize) else {
            let message = format!("the plan has no instruction {source}");
            return findings.at(site, "T0566", &message, "name the instruction the call is part of");
        };
        if source < self.current {
            let message =
                format!("a call of instruction {source} behind one of instruction {}", self.current);
            findings.at(site, "T0566", &message, "keep the order of the plan");
        }
        self.current = self.current.max(source);
        if let Call::Collective { kind, axis, element, .. } = site.submission.call {
            let meant = matches!(instr.action, Action::Collective { kind: k, axis: a, dtype, .. }
                if (k, a, dtype.into()) == (kind, axis, element));
            if !meant {
                findings.at(
                    site,
                    "T0566",
                    "the plan has no such collective here",
                    "keep kind, axis and element type",
                );
            }
        }
    }

    /// A read: of what the instruction reads or makes, of a table, or of scratch.
    pub(super) fn read(
        &self,
        site: &Site<'_>,
        (access, place): (&Access, Option<Place>),
        findings: &mut Findings<'_>,
    ) {
        let Some(footprint) = self.of_plan(site, place) else { return };
        let range = access.range();
        if !covers(&footprint.reads, range) && !covers(&footprint.writes, range) {
            let message = format!("{} reads memory that its instruction does not", access.what);
            findings.at(site, "T0565", &message, "read operands of the instruction, tables or scratch");
        }
    }

    /// A write: of what the instruction makes, or of scratch.
    pub(super) fn write(
        &mut self,
        site: &Site<'_>,
        (access, place): (&Access, Option<Place>),
        findings: &mut Findings<'_>,
    ) {
        let range = access.range();
        let Some(footprint) = self.of_plan(site, place) else { return };
        if covers(&footprint.writes, range) {
            self.all[site.submission.source as usize].written.push(range);
        } else {
            let message = format!("{} is written where its instruction writes nothing", access.what);
            findings.at(site, "T0565", &message, "write results of the instruction, or scratch");
        }
    }

    /// The footprint that counts for an operand, if it is in the plan's memory.
    fn of_plan(&self, site: &Site<'_>, place: Option<Place>) -> Option<&Footprint> {
        let is_plans = matches!(place, Some(Place::State | Place::Step));
        self.all.get(site.submission.source as usize).filter(|_| is_plans)
    }

    /// The end of the segment: everything the plan writes is written.
    pub(super) fn end(&mut self, findings: &mut Findings<'_>) {
        self.current = 0;
        for (instr, footprint) in self.plan.segments[self.segment].instrs.iter().zip(&mut self.all) {
            let written = merged(std::mem::take(&mut footprint.written));
            if let Some((at, _)) = footprint.writes.iter().find(|range| !covers(&written, **range)) {
                let path = self.plan.locs.get(instr.loc as usize).cloned().unwrap_or_default();
                let message = format!("no call writes what its instruction writes from byte {at} on");
                let help = "lower every instruction of the plan as a whole";
                findings.add(Diag::new("T0566", message).at(path).help(help));
            }
        }
    }
}

/// Ranges that touch become one.
fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::new();
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// Whether merged ranges hold all of a range.
fn covers(ranges: &[Range], (start, end): Range) -> bool {
    let before = ranges.partition_point(|range| range.0 <= start);
    before.checked_sub(1).is_some_and(|i| end <= ranges[i].1)
}
