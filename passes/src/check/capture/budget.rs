//! What captured graphs take from a device.

use super::collectives::Expansion;
use crate::check::device::{Findings, parts};
use titan_ir::ascend::{Call, Program};
use titan_ir::{AxisId, Plan};

/// Streams of a device.
pub const MAX_STREAMS: u64 = 1984;

/// Events of a device.
pub const MAX_EVENTS: u64 = 65_536;

/// Graphs with collectives that may be alive where AI CPUs unfold them.
pub const MAX_AI_CPU_GRAPHS: u64 = 6;

/// Tasks of a queue: a further stream is taken silently for what is more.
pub const QUEUE_TASKS: u64 = 2048;

/// Tasks an operator is taken to submit: conversions of its operands, and itself. Not measured.
pub const TASKS_PER_OPERATOR: u64 = 4;

/// Streams HCCL keeps for a communicator, and takes in every graph with its collectives.
///
/// **Source**: what public inference engines reserve; not documented.
pub const COMMUNICATOR_STREAMS: u64 = 40;
const COMMUNICATOR_STREAMS_PER_GRAPH: u64 = 2;

/// One of all ranks, and one per axis that does not hold them all.
fn num_communicators(plan: &Plan, program: &Program) -> u64 {
    let world = plan.mesh.num_ranks();
    let size = |axis: AxisId| plan.mesh.axes.get(axis.index()).map_or(1, |axis| axis.size);
    let parts = program.comm_axes.iter().filter(|&&axis| size(axis) < world).count() as u64;
    if program.comm_axes.is_empty() { 0 } else { 1 + parts }
}

/// Ranks up to which AI CPUs take a stream for each other rank.
const MAX_AI_CPU_RANKS: u64 = 16;

/// What a program takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Graphs.
    pub num_graphs: u64,
    /// Graphs with collectives.
    pub num_communicating_graphs: u64,
    /// Streams: those of graphs, those their queues overflow into, and HCCL's.
    pub num_streams: u64,
    /// Events: records of all graphs.
    pub num_events: u64,
    /// Tasks of the longest queue.
    pub longest_queue: u64,
}

impl Usage {
    /// What a program takes when collectives are unfolded so.
    pub fn of(plan: &Plan, program: &Program, expansion: Expansion) -> Self {
        let mut usage = Self {
            num_graphs: 0,
            num_communicating_graphs: 0,
            num_streams: COMMUNICATOR_STREAMS * num_communicators(plan, program),
            num_events: 0,
            longest_queue: 0,
        };
        for (segment, part) in parts(program) {
            usage.add(plan, program, (segment, part), expansion);
        }
        usage.num_events = usage.num_events.max(u64::from(program.num_events));
        usage
    }

    fn add(&mut self, plan: &Plan, program: &Program, (segment, part): (usize, usize), expansion: Expansion) {
        let submissions = &program.segments[segment].parts[part].submissions;
        let mut queues = vec![0; usize::from(program.num_streams)];
        let mut axes = Vec::new();
        for submission in submissions {
            let tasks = match submission.call {
                Call::Operator { .. } | Call::Collective { .. } => TASKS_PER_OPERATOR,
                _ => 1,
            };
            if let Some(queue) = queues.get_mut(usize::from(submission.stream)) {
                *queue += tasks;
            }
            self.num_events += u64::from(matches!(submission.call, Call::Record { .. }));
            if let Call::Collective { axis, .. } = submission.call
                && !axes.contains(&axis)
                && axis.index() < plan.mesh.axes.len()
            {
                axes.push(axis);
            }
        }
        self.num_graphs += 1;
        self.num_communicating_graphs += u64::from(!axes.is_empty());
        self.num_streams += queues.iter().map(|&tasks: &u64| tasks.div_ceil(QUEUE_TASKS)).sum::<u64>();
        self.longest_queue = queues.into_iter().chain([self.longest_queue]).max().unwrap_or(0);
        for axis in axes {
            let others = plan.mesh.size(axis).min(MAX_AI_CPU_RANKS).saturating_sub(1);
            let unfolding = if expansion == Expansion::AiCpu { others } else { 0 };
            self.num_streams += COMMUNICATOR_STREAMS_PER_GRAPH + unfolding;
        }
    }

    /// Holds it against what a device has.
    pub(super) fn check(&self, expansion: Expansion, findings: &mut Findings<'_>) {
        if self.num_streams > MAX_STREAMS {
            let message = format!("the graphs take {} of {MAX_STREAMS} streams", self.num_streams);
            findings.whole("T0554", message, "fewer layers or microbatches of a rank make shorter graphs");
        }
        if self.num_events > MAX_EVENTS {
            let message = format!("the graphs take {} of {MAX_EVENTS} events", self.num_events);
            findings.whole("T0555", message, "a larger titan.bucket_mib makes fewer collectives and events");
        }
        if expansion == Expansion::AiCpu && self.num_communicating_graphs > MAX_AI_CPU_GRAPHS {
            let message = format!(
                "{} graphs have collectives, of at most {MAX_AI_CPU_GRAPHS} where AI CPUs unfold them",
                self.num_communicating_graphs
            );
            findings.whole("T0556", message, "fewer guards or segments make fewer graphs");
        }
    }
}
