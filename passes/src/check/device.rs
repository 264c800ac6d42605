//! What the checkers of device programs share: names of places and a bounded list of findings.

use std::fmt::Write;
use titan_ir::ascend::{Call, Program, Submission};
use titan_ir::{Diag, Diags, Plan};

/// Findings after which a walk stops: the first explain the rest.
const MAX_FINDINGS: usize = 10;

/// Where a submission is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) segment: usize,
    pub(super) part: usize,
    pub(super) index: usize,
    pub(super) submission: &'a Submission,
}

/// All submissions of a part with their places.
pub(super) fn sites(program: &Program, segment: usize, part: usize) -> impl Iterator<Item = Site<'_>> {
    let all = program.segments[segment].parts[part].submissions.iter().enumerate();
    all.map(move |(index, submission)| Site { segment, part, index, submission })
}

/// Segment and part of every part of a program.
pub(super) fn parts(program: &Program) -> impl Iterator<Item = (usize, usize)> + '_ {
    program.segments.iter().enumerate().flat_map(|(s, segment)| (0..segment.parts.len()).map(move |p| (s, p)))
}

/// The name of a call in messages.
pub(super) fn call_name(call: &Call) -> String {
    match call {
        Call::Operator { name, .. } => name.clone(),
        Call::Kernel { kernel, .. } => format!("generated kernel {kernel}"),
        Call::Collective { kind, .. } => format!("collective {kind:?}"),
        Call::Copy { .. } => "copy".to_owned(),
        Call::RankSlice { .. } => "rank slice".to_owned(),
        Call::Zero { .. } => "zero".to_owned(),
        Call::Record { event } => format!("record of event {event}"),
        Call::Wait { event } => format!("wait for event {event}"),
    }
}

/// What a checker found so far.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    plan: &'a Plan,
    program: &'a Program,
    found: Diags,
}

impl<'a> Findings<'a> {
    pub(super) fn new(plan: &'a Plan, program: &'a Program) -> Self {
        Self { plan, program, found: Diags::default() }
    }

    /// Whether more would not help.
    pub(super) fn is_full(&self) -> bool {
        self.found.0.len() >= MAX_FINDINGS
    }

    /// Adds a finding about a submission: what is wrong, and what to do.
    pub(super) fn at(&mut self, site: &Site<'_>, code: &'static str, message: &str, help: &str) {
        if self.is_full() {
            return;
        }
        let call = call_name(&site.submission.call);
        let mut place = String::new();
        let segment = &self.program.segments[site.segment].name;
        let _ = write!(
            place,
            "submission {} of part {} of `{segment}`, stream {}",
            site.index, site.part, site.submission.stream
        );
        let diag = Diag::new(code, format!("{call}: {message}")).at(self.path(site)).note(place).help(help);
        self.found.push(diag);
    }

    /// Adds a finding about the whole program.
    pub(super) fn whole(&mut self, code: &'static str, message: String, help: &str) {
        self.add(Diag::new(code, message).help(help));
    }

    /// Adds a finding.
    pub(super) fn add(&mut self, diag: Diag) {
        if !self.is_full() {
            self.found.push(diag);
        }
    }

    pub(super) fn finish(self) -> Result<(), Diags> {
        if self.found.has_errors() { Err(self.found) } else { Ok(()) }
    }

    /// The module path of a submission.
    fn path(&self, site: &Site<'_>) -> String {
        let segment = self.plan.segments.get(site.segment);
        let instr = segment.and_then(|s| s.instrs.get(site.submission.source as usize));
        let path = instr.and_then(|i| self.plan.locs.get(i.loc as usize)).cloned().unwrap_or_default();
        if path.is_empty() { "the model".to_owned() } else { path }
    }
}
