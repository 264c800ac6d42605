//! Artifacts that are wrong in one place: tests of the tests.

use super::runs::{Run, Settings, command, train};
use crate::programs::{Work, finish, read_metrics, stderr};
use std::net::TcpListener;
use std::path::Path;
use titan_ir::artifact::{Artifact, encode, program_section};
use titan_ir::ascend::{Arg, Call, Part, Program};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Compute does not wait for the first collective it waits for.
    ComputeDoesNotWait,
    /// Communication does not wait for what it sends.
    CommunicationDoesNotWait,
    /// The last join of the side stream is missing.
    NoJoin,
    /// The workspace is smaller than operators ask for.
    SmallWorkspace,
    /// The workspace begins where scratch does.
    WorkspaceOverScratch,
    /// A gather writes to a buffer whose readers have not run.
    EarlyReuse,
    /// A product is never computed.
    LostCall,
    /// An operand is moved past the end of the arena.
    OutsideArena,
    /// Rank 1 issues two collectives in the other order.
    SwappedCollectives,
    /// Rank 1 gives half of the elements to a collective.
    ShortCollective,
}

impl Mutant {
    /// All.
    pub const ALL: [Self; 10] = [
        Self::ComputeDoesNotWait,
        Self::CommunicationDoesNotWait,
        Self::NoJoin,
        Self::SmallWorkspace,
        Self::WorkspaceOverScratch,
        Self::EarlyReuse,
        Self::LostCall,
        Self::OutsideArena,
        Self::SwappedCollectives,
        Self::ShortCollective,
    ];

    /// In words.
    pub fn what(self) -> &'static str {
        match self {
            Self::ComputeDoesNotWait => "compute does not wait for a collective",
            Self::CommunicationDoesNotWait => "communication does not wait for compute",
            Self::NoJoin => "the side stream is not joined",
            Self::SmallWorkspace => "the workspace is too small",
            Self::WorkspaceOverScratch => "the workspace lies over scratch",
            Self::EarlyReuse => "a gather writes over a buffer still in use",
            Self::LostCall => "a product is missing",
            Self::OutsideArena => "an operand lies outside the arena",
            Self::SwappedCollectives => "two collectives are swapped on rank 1",
            Self::ShortCollective => "a collective is shorter on rank 1",
        }
    }

    /// Whether only rank 1 runs it: the ranks are then two processes.
    fn is_of_one_rank(self) -> bool {
        matches!(self, Self::SwappedCollectives | Self::ShortCollective)
    }

    fn apply(self, program: &mut Program) {
        match self {
            Self::SmallWorkspace => program.workspaces[0].size_bytes = 64,
            Self::WorkspaceOverScratch => program.workspaces[0].at = program.scratch.at,
            Self::OutsideArena => {
                let end = program.arena_bytes;
                let part = busiest(program);
                let at = positions(part, is_product)[0];
                if let Call::Operator { args, .. } = &mut part.submissions[at].call
                    && let Some(Arg::Tensor(tensor)) = args.first_mut()
                {
                    tensor.at = end;
                }
            }
            other => other.apply_to_part(busiest(program)),
        }
    }

    fn apply_to_part(self, part: &mut Part) {
        let gathers = collectives(part);
        match self {
            Self::ComputeDoesNotWait => {
                let at = positions(part, |call| matches!(call, Call::Wait { .. }));
                remove(part, *at.iter().find(|&&i| part.submissions[i].stream == 0).expect("compute waits"));
            }
            Self::CommunicationDoesNotWait => {
                let waits = positions(part, |call| matches!(call, Call::Wait { .. }));
                let mut later = waits.into_iter().filter(|&i| part.submissions[i].stream == 1).skip(1);
                remove(part, later.next().expect("communication waits more than once"));
            }
            Self::NoJoin => {
                let at = positions(part, |call| matches!(call, Call::Wait { .. }));
                remove(part, *at.iter().rev().find(|&&i| part.submissions[i].stream == 0).expect("a join"));
            }
            Self::EarlyReuse => {
                let first = destination(&part.submissions[gathers[0]].call);
                *destination_mut(&mut part.submissions[gathers[1]].call) = first;
            }
            Self::LostCall => {
                let at = positions(part, is_product)[0];
                remove(part, at);
            }
            Self::SwappedCollectives => {
                // With no event between them, so that nothing but the order is wrong.
                let length = |at: usize| match part.submissions[at].call {
                    Call::Collective { src_len, .. } => src_len,
                    _ => 0,
                };
                let swappable = |&&at: &&usize| gathers.contains(&(at + 1)) && length(at) != length(at + 1);
                let at = *gathers.iter().find(swappable).expect("collectives of one bucket");
                part.submissions.swap(at, at + 1);
            }
            Self::ShortCollective => {
                if let Call::Collective { src_len, .. } = &mut part.submissions[gathers[0]].call {
                    *src_len /= 2;
                }
            }
            Self::SmallWorkspace | Self::WorkspaceOverScratch | Self::OutsideArena => {}
        }
    }
}

fn remove(part: &mut Part, at: usize) {
    part.submissions.remove(at);
}

fn is_product(call: &Call) -> bool {
    matches!(call, Call::Operator { name, .. } if name == "aclnnMm")
}

fn destination(call: &Call) -> u64 {
    let Call::Collective { dst, .. } = call else { panic!("{call:?} is no collective") };
    *dst
}

fn destination_mut(call: &mut Call) -> &mut u64 {
    let Call::Collective { dst, .. } = call else { panic!("{call:?} is no collective") };
    dst
}

/// The part with most collectives.
fn busiest(program: &mut Program) -> &mut Part {
    let parts = program.segments.iter_mut().flat_map(|s| &mut s.parts);
    parts.max_by_key(|part| collectives(part).len()).expect("a program has parts")
}

/// Where the collectives of a part are.
fn collectives(part: &Part) -> Vec<usize> {
    positions(part, |call| matches!(call, Call::Collective { .. }))
}

/// Where the calls of a part are that `wanted` accepts.
fn positions(part: &Part, wanted: impl Fn(&Call) -> bool) -> Vec<usize> {
    (0..part.submissions.len()).filter(|&i| wanted(&part.submissions[i].call)).collect()
}

/// Rewrites the Ascend program for `world_size` ranks of the artifact at `path`; all hashes agree again.
///
/// # Panics
/// When the file is no Ascend artifact.
pub fn rewrite(path: &Path, world_size: u64, change: impl FnOnce(&mut Program)) {
    let bytes = std::fs::read(path).expect("an artifact");
    let artifact = Artifact::parse(&bytes).unwrap_or_else(|e| panic!("{e}"));
    let mut program = artifact.program(world_size).unwrap_or_else(|e| panic!("{e}"));
    change(&mut program);
    let name = program_section(world_size);
    let section = |(section, _): (&str, usize)| {
        let bytes = if section == name {
            postcard::to_allocvec(&program).expect("a program encodes")
        } else {
            artifact.section(section).expect("a section that is listed").to_vec()
        };
        (section.to_owned(), bytes)
    };
    let sections: Vec<_> = artifact.sections().map(section).collect();
    std::fs::write(path, encode(&sections)).expect("a folder that can be written");
}

/// Runs a mutant of `whole.titan` and says who caught it: the first line of the error, or what differs.
pub(super) fn run(work: &Work, mutant: Mutant, whole: &Run, settings: Settings) -> Option<String> {
    std::fs::copy(work.path("whole.titan"), work.path("mutant.titan")).expect("a copy");
    rewrite(&work.path("mutant.titan"), settings.ranks, |program| mutant.apply(program));
    if mutant.is_of_one_rank() {
        return run_processes(work, whole);
    }
    match train(work, "mutant", settings, &[]) {
        Err(output) => Some(first_error(&stderr(&output))),
        Ok(run) if run.count("races") > 0 => Some(format!("{} races", run.count("races"))),
        Ok(run) => (run.bits() != whole.bits()).then(|| "the numbers differ".to_owned()),
    }
}

/// Runs rank 0 of the whole program and rank 1 of the mutant, each a process.
fn run_processes(work: &Work, whole: &Run) -> Option<String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
    let rendezvous = free.to_string();
    let start = |name: &str, rank: &str| {
        let settings = Settings { ranks: 1, captures: true, seed: 1 };
        let args =
            ["--world-size", "2", "--first-rank", rank, "--first-device", rank, "--rendezvous", &rendezvous];
        let run = format!("process-{rank}");
        command(work, name, &run, settings, &args)
            .env("HCCL_EXEC_TIMEOUT", "20")
            .spawn()
            .expect("titan-run starts")
    };
    let children = [start("whole", "0"), start("mutant", "1")];
    let outputs = children.map(finish);
    if let Some(failed) = outputs.iter().find(|output| !output.status.success()) {
        return Some(first_error(&stderr(failed)));
    }
    let steps = read_metrics(&work.path("process-0.jsonl"));
    (super::bits(&steps) != whole.bits()).then(|| "the numbers differ".to_owned())
}

/// Characters of an error that are shown.
const LONGEST: usize = 150;

/// What a program said went wrong.
fn first_error(text: &str) -> String {
    let line = text.lines().find(|line| line.starts_with("error") || line.contains("panicked"));
    let at = line.and_then(|line| text.find(line)).unwrap_or(0);
    let mut lines = text[at..].lines();
    let first = lines.next().unwrap_or("failed silently");
    // What a thread that panicked has to say is in the next line.
    let said = if first.contains("panicked") { lines.next().unwrap_or(first) } else { first };
    // The end tells who and what.
    let tail = said.chars().count().saturating_sub(LONGEST);
    if tail == 0 { said.to_owned() } else { format!("... {}", said.chars().skip(tail).collect::<String>()) }
}
