//! A roofline estimate of a step on an Ascend device: what its calls take at the peak of cores, memory and links, simulated over streams.
//!
//! It is an estimate from data sheets, not a measurement: [`Estimate::assumptions`] names every number it rests on.

mod calls;
mod network;

use calls::{Duration, Machine};
use network::Network;
use serde::Serialize;
use std::collections::BTreeMap;
use titan_ir::Plan;
use titan_ir::ascend::{Call, DeviceKernels, Part, Program, Soc};

/// A number the estimate rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assumption {
    /// What.
    pub name: &'static str,
    /// How much, with its unit.
    pub value: String,
    /// Where it comes from.
    pub source: &'static str,
}

/// A segment of the step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SegmentEstimate {
    /// `step`, `micro` or `update`.
    pub name: String,
    /// How often a step runs it.
    pub repeat: u64,
    /// Time of one run. **Units**: milliseconds.
    pub ms: f64,
}

/// Times of a step. **Units**: milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The whole step.
    pub step_ms: f64,
    /// Calls that the cube cores bound.
    pub cube_ms: f64,
    /// Calls that memory bounds.
    pub memory_ms: f64,
    /// Collectives.
    pub collective_ms: f64,
    /// What of them computing does not hide.
    pub exposed_ms: f64,
    /// Tokens a rank trains on in a second.
    pub tokens_per_second: f64,
    /// Floating-point operations of the model over those the cube cores could do. **Units**: percent.
    pub mfu_percent: f64,
    /// The parts of the step.
    pub segments: Vec<SegmentEstimate>,
    /// Everything that was assumed.
    pub assumptions: Vec<Assumption>,
}

/// What is known of the model.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Tokens of a rank in a step.
    pub tokens: u64,
    /// Operations of a token.
    pub flops_per_token: u64,
}

/// Times by what bounds a call. **Units**: seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    total: f64,
    cube: f64,
    memory: f64,
    collective: f64,
    exposed: f64,
}

/// Estimates a step.
pub fn estimate(plan: &Plan, program: &Program, kernels: &DeviceKernels, soc: &Soc, work: Work) -> Estimate {
    let machine = Machine::of(soc);
    let network = Network::of(soc.family);
    let mut step = Times::default();
    let mut segments = Vec::new();
    for (s, segment) in program.segments.iter().enumerate() {
        let mut once = Times::default();
        for part in &segment.parts {
            let durations: Vec<Duration> = durations(plan, kernels, s, part, &machine, &network);
            let times = simulate(part, &durations, usize::from(program.num_streams).max(1));
            once = sum(once, times, 1.0);
        }
        step = sum(step, once, segment.repeat as f64);
        segments.push(SegmentEstimate {
            name: segment.name.clone(),
            repeat: segment.repeat,
            ms: once.total * 1e3,
        });
    }
    let flops = work.tokens as f64 * work.flops_per_token as f64;
    // A program that does nothing takes no time.
    let per_second = |amount: f64| if step.total > 0.0 { amount / step.total } else { 0.0 };
    Estimate {
        step_ms: step.total * 1e3,
        cube_ms: step.cube * 1e3,
        memory_ms: step.memory * 1e3,
        collective_ms: step.collective * 1e3,
        exposed_ms: step.exposed * 1e3,
        tokens_per_second: per_second(work.tokens as f64),
        mfu_percent: per_second(flops) / machine.cube_flops_per_s * 100.0,
        segments,
        assumptions: [machine.assumptions(soc), network.assumptions()].concat(),
    }
}

fn sum(a: Times, b: Times, times: f64) -> Times {
    Times {
        total: a.total + b.total * times,
        cube: a.cube + b.cube * times,
        memory: a.memory + b.memory * times,
        collective: a.collective + b.collective * times,
        exposed: a.exposed + b.exposed * times,
    }
}

/// How long each call of a part takes.
fn durations(
    plan: &Plan,
    kernels: &DeviceKernels,
    segment: usize,
    part: &Part,
    machine: &Machine,
    network: &Network,
) -> Vec<Duration> {
    // An instruction may be several calls of attention: they share its operations.
    let mut num_attentions: BTreeMap<u32, u64> = BTreeMap::new();
    for one in part.submissions.iter().filter(|one| calls::is_attention(&one.call)) {
        *num_attentions.entry(one.source).or_default() += 1;
    }
    let of = |one: &titan_ir::ascend::Submission| match &one.call {
        Call::Collective { kind, axis, element, src_len, .. } => {
            Duration::Collective(network.seconds(&plan.mesh, *kind, *axis, src_len * element.size_bytes()))
        }
        call => {
            let instr = plan.segments.get(segment).and_then(|s| s.instrs.get(one.source as usize));
            let calls = num_attentions.get(&one.source).copied().unwrap_or(1);
            machine.duration(call, kernels, instr.map_or(0, |i| i.flops / calls))
        }
    };
    part.submissions.iter().map(of).collect()
}

/// Runs a part: a stream runs its calls one after the other, and waits where it waits.
fn simulate(part: &Part, durations: &[Duration], num_streams: usize) -> Times {
    let mut clocks = vec![0.0_f64; num_streams];
    let mut events: BTreeMap<u32, f64> = BTreeMap::new();
    let mut times = Times::default();
    let mut computing = 0.0;
    for (one, duration) in part.submissions.iter().zip(durations) {
        let Some(clock) = clocks.get_mut(usize::from(one.stream)) else { continue };
        match one.call {
            Call::Record { event } => drop(events.insert(event, *clock)),
            Call::Wait { event } => *clock = clock.max(events.get(&event).copied().unwrap_or(0.0)),
            _ => *clock += duration.seconds(),
        }
        match *duration {
            Duration::Cube(seconds) => times.cube += seconds,
            Duration::Memory(seconds) => times.memory += seconds,
            Duration::Collective(seconds) => times.collective += seconds,
        }
        if one.stream == 0 && !matches!(duration, Duration::Collective(_)) {
            computing += duration.seconds();
        }
    }
    times.total = clocks.into_iter().fold(0.0, f64::max);
    times.exposed = times.total - computing;
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_ir::ascend::Submission;

    /// A part from calls with their stream; work lasts as many seconds as it has bytes.
    fn simulated(calls: &[(u8, Call)]) -> Times {
        let submissions: Vec<Submission> = calls
            .iter()
            .map(|(stream, call)| Submission { call: call.clone(), stream: *stream, source: 0 })
            .collect();
        let durations: Vec<Duration> = calls
            .iter()
            .map(|(stream, call)| match call {
                Call::Zero { size_bytes, .. } if *stream == 0 => Duration::Memory(*size_bytes as f64),
                Call::Zero { size_bytes, .. } => Duration::Collective(*size_bytes as f64),
                _ => Duration::Memory(0.0),
            })
            .collect();
        simulate(&Part { submissions, guard: Vec::new() }, &durations, 2)
    }

    fn work(seconds: u64) -> Call {
        Call::Zero { dst: 0, size_bytes: seconds }
    }

    #[test]
    fn streams_overlap_between_events() {
        let (fork, join) = (Call::Record { event: 0 }, Call::Record { event: 1 });
        let with = |between: u64| {
            simulated(&[
                (0, work(3)),
                (0, fork.clone()),
                (1, Call::Wait { event: 0 }),
                (1, work(10)),
                (1, join.clone()),
                (0, work(between)),
                (0, Call::Wait { event: 1 }),
                (0, work(2)),
            ])
        };
        let hidden = with(12);
        assert_eq!((hidden.total, hidden.collective, hidden.exposed), (17.0, 10.0, 0.0));
        let exposed = with(4);
        assert_eq!((exposed.total, exposed.memory, exposed.exposed), (15.0, 9.0, 6.0));
        let serial = simulated(&[(0, work(3)), (1, work(10))]);
        assert_eq!(serial.total, 10.0, "nothing waits");
    }
}
