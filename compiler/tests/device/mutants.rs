//! Mutants: a program with one thing wrong. Every lost event and every wrong region is found. Of lost calls and moved operands most are: what
//! happens within the scratch of one instruction is arithmetic, which no checker here judges, and some mutants are no worse than the original.

use crate::sample::Sample;
use std::collections::BTreeMap;
use titan_ir::ascend::{Arg, Call, Program, Region, Submission};

/// A submission by segment, part and number.
type At = (usize, usize, usize);

fn all(program: &Program) -> Vec<(At, &Submission)> {
    let mut all = Vec::new();
    for (s, segment) in program.segments.iter().enumerate() {
        for (p, part) in segment.parts.iter().enumerate() {
            all.extend(part.submissions.iter().enumerate().map(|(i, one)| ((s, p, i), one)));
        }
    }
    all
}

fn calls(program: &mut Program, (s, p, _): At) -> &mut Vec<Submission> {
    &mut program.segments[s].parts[p].submissions
}

/// Addresses of a call that it may only read or write where it does.
fn addresses(call: &mut Call) -> Vec<&mut u64> {
    match call {
        Call::Operator { args, .. } => args
            .iter_mut()
            .flat_map(|arg| match arg {
                Arg::Tensor(tensor) => vec![&mut tensor.at],
                Arg::Tensors(list) => list.iter_mut().map(|t| &mut t.at).collect(),
                _ => Vec::new(),
            })
            .collect(),
        Call::Kernel { args, .. } => args.iter_mut().collect(),
        Call::Collective { src, dst, .. }
        | Call::Copy { src, dst, .. }
        | Call::RankSlice { src, dst, .. } => {
            vec![src, dst]
        }
        Call::Zero { dst, .. } => vec![dst],
        Call::Record { .. } | Call::Wait { .. } => Vec::new(),
    }
}

/// How many mutants there are, how many are found, and by which codes.
#[derive(Debug, Default)]
struct Score {
    num_mutants: usize,
    num_found: usize,
    codes: BTreeMap<&'static str, usize>,
}

impl Score {
    fn add(&mut self, found: Option<&'static str>) {
        self.num_mutants += 1;
        self.num_found += usize::from(found.is_some());
        if let Some(code) = found {
            *self.codes.entry(code).or_default() += 1;
        }
    }

    /// At least so many percent are found.
    fn must_find(&self, what: &str, style: &str, percent: usize) {
        assert!(self.num_mutants > 0, "{style}: no mutants: {what}");
        let enough = self.num_found * 100 >= self.num_mutants * percent;
        assert!(enough, "{style}: {what}: {self:?}");
    }
}

fn is_event(call: &Call) -> bool {
    matches!(call, Call::Record { .. } | Call::Wait { .. })
}

fn score(
    sample: &Sample,
    which: impl Fn(&Submission) -> bool,
    change: impl Fn(&mut Program, At) -> bool,
) -> Score {
    let mut score = Score::default();
    for (at, _) in all(&sample.program).into_iter().filter(|(_, one)| which(one)) {
        let mut mutant = sample.program.clone();
        if change(&mut mutant, at) {
            score.add(sample.found(&mutant));
        }
    }
    score
}

/// With the percentages of lost calls and moved operands that are found at least.
fn check(style: &str, lost_percent: usize, moved_percent: usize) {
    let sample = Sample::of_style(style);
    assert_eq!(sample.found(&sample.program), None, "{style}: the program itself");
    let drop_it = |program: &mut Program, at: At| {
        calls(program, at).remove(at.2);
        true
    };
    score(&sample, |one| is_event(&one.call), drop_it).must_find("an event or wait is missing", style, 100);
    score(&sample, |one| !is_event(&one.call), drop_it).must_find("a call is missing", style, lost_percent);
    let other_stream = |program: &mut Program, at: At| {
        calls(program, at)[at.2].stream ^= 1;
        true
    };
    // A collective among the computations is slower, not wrong; so is a cast of a weight on the stream that then gathers it.
    let computes = |one: &Submission| one.stream == 0 && !is_event(&one.call);
    score(&sample, computes, other_stream).must_find("a call on the other stream", style, 75);
    score(&sample, |one| is_event(&one.call), other_stream).must_find(
        "an event on the other stream",
        style,
        100,
    );
    let swap = |program: &mut Program, at: At| {
        let calls = calls(program, at);
        let differ = at.2 + 1 < calls.len() && calls[at.2].source != calls[at.2 + 1].source;
        if differ {
            calls.swap(at.2, at.2 + 1);
        }
        differ
    };
    score(&sample, |one| !is_event(&one.call), swap).must_find("neighbours swapped", style, 95);
    moved(&sample, style, moved_percent);
    regions(&sample, style);
}

/// Every address in turn is that of a buffer which is in use: the result of the call before.
fn moved(sample: &Sample, style: &str, percent: usize) {
    let mut score = Score::default();
    let mut live = None;
    for (at, one) in all(&sample.program) {
        let mut call = one.call.clone();
        let own: Vec<u64> = addresses(&mut call).iter().map(|at| **at).collect();
        if let Some(live) = live.filter(|live| !own.contains(live)) {
            for i in 0..own.len() {
                let mut mutant = sample.program.clone();
                *addresses(&mut calls(&mut mutant, at)[at.2].call)[i] = live;
                score.add(sample.found(&mutant));
            }
        }
        live = own.last().copied().or(live);
    }
    score.must_find("an operand at a buffer in use", style, percent);
}

/// Regions that are too small, or that lie on each other.
fn regions(sample: &Sample, style: &str) {
    let mut score = Score::default();
    let mut with = |change: &dyn Fn(&mut Program)| {
        let mut mutant = sample.program.clone();
        change(&mut mutant);
        score.add(sample.found(&mutant));
    };
    with(&|program| program.scratch.size_bytes /= 2);
    with(&|program| program.scratch.at = program.step.at);
    with(&|program| program.step.size_bytes -= 64);
    with(&|program| program.workspaces[0] = Region { at: program.scratch.at, ..program.workspaces[0] });
    with(&|program| program.workspaces.clear());
    with(&|program| program.arena_bytes -= program.workspaces[0].size_bytes);
    with(&|program| program.tables[0].at = program.state.at);
    with(&|program| program.num_streams = 1);
    with(&|program| program.num_events -= 1);
    with(&|program| program.comm_axes.clear());
    with(&|program| program.segments.truncate(1));
    with(&|program| {
        program.segments.iter_mut().for_each(|s| s.parts.iter_mut().for_each(|p| p.guard.clear()))
    });
    score.must_find("regions and counts", style, 100);
}

#[test]
fn mutants_of_operators_are_found() {
    check("aclnn", 60, 60);
}

#[test]
fn mutants_of_generated_kernels_are_found() {
    check("fused", 80, 80);
}
