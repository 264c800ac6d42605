//! A rank on an Ascend device.
//!
//! All is made at load: the arena, the kernels, the communicators, phase one of every operator. The first step is issued call by call:
//! it warms up what CANN makes at first use, and it is step 1 of the training like any other. Then every part is captured once,
//! which executes nothing, and all later steps replay the graphs.

mod arena;
mod backend;
mod cache;
mod calls;
mod cann;
mod context;
mod device;
mod diagnose;
mod graph;
mod hccl;
mod kernels;
mod operators;
mod owned;
mod ports;
mod tables;
#[cfg(test)]
mod tests;
mod work;

use super::{Inputs, RankError, StepError};
use crate::comm::Comm;
use crate::diagnose::Stop;
use crate::exec::Profile;
use crate::load::{AscendCode, Loaded};
use crate::metrics::info;
use crate::pool::Pool;
pub(crate) use backend::Backend;
pub(crate) use cann::Cann;

use arena::Arena;
use calls::{Binder, Calls};
use context::{Context, Place};
use graph::Graph;
use hccl::{Communicators, Join};
use kernels::{Functions, Objects};
use owned::{Event, Stream};
use ports::Ports;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;
use titan_ir::ascend::Program;
use titan_ir::plan::{Action, PlanTensor};
use titan_ir::{Diag, DiagResult};

/// How a program is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// Issue every step call by call.
    pub(crate) eager: bool,
    /// Map the arena piece by piece.
    pub(crate) expandable_segments: bool,
    /// Wait after every call, and count its time.
    pub(crate) profiled: bool,
}

/// A rank's place in the run.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    /// Rank in the run.
    pub(crate) rank: u64,
    /// Device of this machine.
    pub(crate) device: i32,
    /// The ranks of this process.
    pub(crate) comm: Comm,
}

/// A rank on a device. Fields are dropped in this order: graphs first, the device last.
#[derive(Debug)]
pub(crate) struct Ascend<'a> {
    /// Per segment, per part: its graph, unless the part is empty.
    graphs: Vec<Vec<Option<Graph<'a>>>>,
    calls: Calls<'a>,
    _communicators: Communicators<'a>,
    _events: Vec<Event<'a>>,
    streams: Vec<Stream<'a>>,
    ports: Ports<'a>,
    arena: Arena<'a>,
    _functions: Functions<'a>,
    context: Rc<Context<'a>>,
    loaded: &'a Loaded,
    program: &'a Program,
    code: &'a AscendCode,
    manner: Manner,
    /// Shown and filled parts of state tensors, on their way.
    staging: RefCell<Vec<f32>>,
    pool: Pool,
    profile: Option<Profile>,
    /// Whether the work queued may never end, because a rank is missing.
    abandoned: bool,
}

impl<'a> Ascend<'a> {
    /// Makes a rank ready. `meet` gives how the ranks find each other once all have come so far; it gets this rank's root info if
    /// the rank is to give it.
    ///
    /// # Errors
    /// What CANN says, and what the artifact and the device disagree on.
    pub(crate) fn open(
        cann: &'static Cann,
        loaded: &'a Loaded,
        (code, objects): (&'a AscendCode, &Objects),
        seat: Seat,
        pool: Pool,
        manner: Manner,
        meet: impl FnOnce(
            &dyn Fn() -> DiagResult<Box<ascend_rs_sys::types::HcclRootInfo>>,
        ) -> Result<Join, RankError>,
    ) -> Result<Self, RankError> {
        let (plan, program, seat_rank) = (&loaded.plan, &code.program, seat.rank);
        let context = Context::new(cann, plan, seat.rank, seat.device, seat.comm)?;
        let arena = Arena::new(&context, program.arena_bytes, &program.memory, manner.expandable_segments)?;
        tables::write(&context, program, &arena)?;
        let functions = Functions::load(&context, &code.kernels, objects)?;
        let streams = (0..program.num_streams.max(1)).map(|_| context.stream());
        let streams = streams.collect::<Result<Vec<_>, _>>()?;
        let events = (0..program.num_events).map(|_| context.event()).collect::<Result<Vec<_>, _>>()?;
        let ports = Ports::new(&context, program, &arena)?;
        let communicators = if plan.mesh.num_ranks() > 1 {
            let join = meet(&|| hccl::root_info(&context))?;
            Communicators::new(&context, program, &join)?
        } else {
            Communicators::none()
        };
        let calls = Calls::bind(&Binder {
            context: &context,
            program,
            kernels: &code.kernels,
            arena: &arena,
            functions: &functions,
            streams: &streams,
            events: &events,
            communicators: &communicators,
        })?;
        if seat_rank == 0 && manner.eager {
            info("Issuing every step call by call: nothing is captured");
        }
        let profile = manner.profiled.then(|| {
            let spent_ns = plan.segments.iter().map(|s| vec![0; s.instrs.len()]).collect();
            Profile { spent_ns, num_steps: 0 }
        });
        Ok(Self {
            graphs: Vec::new(),
            calls,
            _communicators: communicators,
            _events: events,
            streams,
            ports,
            arena,
            _functions: functions,
            context,
            loaded,
            program,
            code,
            manner,
            staging: RefCell::default(),
            pool,
            profile,
            abandoned: false,
        })
    }

    /// Captures every part, in the same order on all ranks.
    fn capture(&mut self) -> Result<(), Diag> {
        let stream = self.streams[0].get();
        for (segment, of_segment) in self.program.segments.iter().enumerate() {
            let mut graphs = Vec::new();
            for part in 0..of_segment.parts.len() {
                let place = Place { segment, part, call: None, captured: true };
                self.context.at(Some(place));
                let issue = || {
                    self.calls.issue_part(&self.context, segment, part, true)?;
                    self.context.at(Some(place));
                    Ok(())
                };
                let is_empty = self.calls.len(segment, part) == 0;
                graphs.push(if is_empty {
                    None
                } else {
                    Some(Graph::capture(&self.context, stream, issue)?)
                });
            }
            self.graphs.push(graphs);
        }
        self.context.at(None);
        if self.context.rank == 0 {
            let num_graphs = self.graphs.iter().flatten().flatten().count();
            let num_calls = self.program.submissions().count();
            let graphs = if num_graphs == 1 { "graph" } else { "graphs" };
            info(&format!(
                "Captured the step: {num_calls} calls in {num_graphs} {graphs}, replayed from now on"
            ));
        }
        Ok(())
    }

    /// Runs a part: its graph where there is one, else call by call.
    fn run_part(&mut self, segment: usize, part: usize) -> Result<(), RankError> {
        let stream = self.streams[0].get();
        if let Some(graph) = self.graphs.get(segment).map(|graphs| &graphs[part]) {
            self.context.at(Some(Place { segment, part, call: None, captured: false }));
            return Ok(graph.as_ref().map_or(Ok(()), |graph| graph.replay(&self.context, stream))?);
        }
        let Some(profile) = &mut self.profile else {
            return Ok(self.calls.issue_part(&self.context, segment, part, false)?);
        };
        for call in 0..self.calls.len(segment, part) {
            let start = Instant::now();
            self.calls.issue(&self.context, segment, part, call, false)?;
            self.context.synchronize(self.calls.stream(segment, part, call))?;
            let (_, source) = self.calls.place(segment, part, call);
            profile.spent_ns[segment][source as usize] +=
                u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        }
        Ok(())
    }

    fn run_step(&mut self, inputs: &Inputs<'_>) -> Result<(), StepError> {
        let stream = self.streams[0].get();
        let program = self.program;
        self.context.at(None);
        self.ports.fill(inputs);
        self.ports.begin(&self.context, stream)?;
        for (index, segment) in program.segments.iter().enumerate() {
            for microbatch in 0..segment.repeat as usize {
                self.ports.load(&self.context, microbatch, stream)?;
                for (part, of_part) in segment.parts.iter().enumerate() {
                    self.run_part(index, part)?;
                    if !of_part.guard.is_empty() {
                        self.ports.fetch_guard(&self.context, &of_part.guard, &self.arena, stream)?;
                        self.context.synchronize(stream)?;
                        if !self.ports.is_finite(of_part.guard.len()) {
                            self.ports.fetch(&self.context, stream)?;
                            self.context.synchronize(stream)?;
                            return Err(StepError::NotFinite(self.stop_of(index, part)));
                        }
                    }
                }
            }
        }
        self.ports.fetch(&self.context, stream)?;
        self.context.synchronize(stream)?;
        self.context.at(None);
        Ok(())
    }

    /// The guard at the end of a part, as the plan has it.
    fn stop_of(&self, segment: usize, part: usize) -> Stop {
        let guarded = self.program.segments[segment].parts[..=part].iter().filter(|p| !p.guard.is_empty());
        let instrs = self.loaded.plan.segments[segment].instrs.iter().enumerate();
        let mut guards = instrs.filter(|(_, i)| matches!(i.action, Action::Guard { .. })).map(|(i, _)| i);
        let instr = guards.nth(guarded.count() - 1);
        Stop {
            segment,
            instr: instr.unwrap_or_else(|| titan_ir::ice!("a guarded part has a guard in the plan")),
        }
    }

    fn state_at(&self, tensor: &PlanTensor) -> *mut std::ffi::c_void {
        self.arena.at(self.program.address(tensor.address), tensor.size_bytes)
    }
}
