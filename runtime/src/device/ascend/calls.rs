//! The calls of a program, bound to a rank: every address a pointer, every operator ready, so that issuing looks nothing up.

use super::arena::Arena;
use super::context::{Context, Place};
use super::hccl::Communicators;
use super::kernels::Functions;
use super::operators::Prepared;
use super::owned::{Event, Stream};
use super::work::{Collective, Work, issue};
use ascend_rs_sys::types::*;
use std::rc::Rc;
use titan_ir::Diag;
use titan_ir::ascend::{Call, DeviceKernels, Program, Submission};
use titan_ir::kernel::CollectiveKind;

/// A bound submission.
#[derive(Debug)]
struct Bound<'a> {
    works: Vec<Work<'a>>,
    stream: aclrtStream,
    stream_number: u8,
    source: u32,
}

/// The calls of all parts.
#[derive(Debug)]
pub(super) struct Calls<'a> {
    /// Per segment, per part.
    parts: Vec<Vec<Vec<Bound<'a>>>>,
}

/// What calls are bound to.
pub(super) struct Binder<'b, 'a> {
    pub(super) context: &'b Rc<Context<'a>>,
    pub(super) program: &'b Program,
    pub(super) kernels: &'b DeviceKernels,
    pub(super) arena: &'b Arena<'a>,
    pub(super) functions: &'b Functions<'a>,
    pub(super) streams: &'b [Stream<'a>],
    pub(super) events: &'b [Event<'a>],
    pub(super) communicators: &'b Communicators<'a>,
}

impl<'a> Calls<'a> {
    /// Binds all calls; phase one of every operator runs here.
    ///
    /// # Errors
    /// As [`Prepared::new`], T0756 when operators demand more workspace than was planned.
    pub(super) fn bind(binder: &Binder<'_, 'a>) -> Result<Self, Diag> {
        let mut parts = Vec::new();
        for (segment, of_segment) in binder.program.segments.iter().enumerate() {
            let mut bound = Vec::new();
            for (part, of_part) in of_segment.parts.iter().enumerate() {
                let calls = of_part.submissions.iter().enumerate();
                let calls = calls.map(|(call, submission)| {
                    let call = Some((call, submission.stream, submission.source));
                    binder.context.at(Some(Place { segment, part, call, captured: false }));
                    binder.bind(submission)
                });
                bound.push(calls.collect::<Result<Vec<_>, _>>()?);
            }
            parts.push(bound);
        }
        let calls = Self { parts };
        calls.check_workspace(binder.context)?;
        binder.context.at(None);
        Ok(calls)
    }

    /// Names the operator that demands most, if that is more than was planned: what it needs is enough for all.
    fn check_workspace(&self, context: &Context<'_>) -> Result<(), Diag> {
        let (mut most, mut num_short) = (None, 0);
        for (segment, parts) in self.parts.iter().enumerate() {
            for (part, calls) in parts.iter().enumerate() {
                for (call, bound) in calls.iter().enumerate() {
                    let [Work::Operator(operator)] = bound.works.as_slice() else { continue };
                    let call = Some((call, bound.stream_number, bound.source));
                    context.at(Some(Place { segment, part, call, captured: false }));
                    let Some(diag) = operator.shortage(context) else { continue };
                    num_short += 1;
                    let demanded = operator.demanded_bytes();
                    if most.as_ref().is_none_or(|(bytes, _)| demanded > *bytes) {
                        most = Some((demanded, diag));
                    }
                }
            }
        }
        let Some((_, diag)) = most else { return Ok(()) };
        Err(if num_short > 1 {
            diag.note(format!("{num_short} calls demand more, this one the most"))
        } else {
            diag
        })
    }

    /// Number of calls of a part.
    pub(super) fn len(&self, segment: usize, part: usize) -> usize {
        self.parts[segment][part].len()
    }

    /// Stream and instruction of the plan of a call.
    pub(super) fn place(&self, segment: usize, part: usize, call: usize) -> (u8, u32) {
        let bound = &self.parts[segment][part][call];
        (bound.stream_number, bound.source)
    }

    /// The stream a call goes to.
    pub(super) fn stream(&self, segment: usize, part: usize, call: usize) -> aclrtStream {
        self.parts[segment][part][call].stream
    }

    /// Queues all calls of a part, or records them if stream 0 is capturing.
    ///
    /// # Errors
    /// T0742 with the call's place.
    pub(super) fn issue_part(
        &self,
        context: &Context<'_>,
        segment: usize,
        part: usize,
        captured: bool,
    ) -> Result<(), Diag> {
        (0..self.len(segment, part)).try_for_each(|call| self.issue(context, segment, part, call, captured))
    }

    /// Queues one call.
    ///
    /// # Errors
    /// T0742 with the call's place.
    pub(super) fn issue(
        &self,
        context: &Context<'_>,
        segment: usize,
        part: usize,
        call: usize,
        captured: bool,
    ) -> Result<(), Diag> {
        let bound = &self.parts[segment][part][call];
        let place = Some((call, bound.stream_number, bound.source));
        context.at(Some(Place { segment, part, call: place, captured }));
        bound.works.iter().try_for_each(|work| issue(work, context, bound.stream))
    }

    /// Every operator: name, workspace demanded, whether it is planned anew for every run.
    pub(super) fn operators(&self) -> impl Iterator<Item = (&'static str, u64, bool)> {
        let works = self.parts.iter().flatten().flatten().flat_map(|bound| &bound.works);
        works.filter_map(|work| match work {
            Work::Operator(op) => Some((op.name(), op.demanded_bytes(), op.is_one_shot())),
            _ => None,
        })
    }
}

impl<'a> Binder<'_, 'a> {
    fn bind(&self, submission: &Submission) -> Result<Bound<'a>, Diag> {
        let Submission { call, stream, source } = submission;
        let number = usize::from(*stream);
        let works = match call {
            Call::Operator { name, args } => {
                let workspace = self.program.workspaces.get(number).copied().unwrap_or_default();
                vec![Work::Operator(Box::new(Prepared::new(
                    self.context,
                    name,
                    args,
                    self.arena,
                    workspace,
                )?))]
            }
            Call::Kernel { kernel, args } => {
                let of_kernel = &self.kernels.kernels[*kernel as usize];
                let address = |(&at, arg): (&u64, &titan_ir::ascend::KernelArg)| {
                    self.arena.at(at, arg.size_bytes()).expose_provenance() as u64
                };
                vec![Work::Kernel {
                    function: self.functions.get(*kernel),
                    num_blocks: of_kernel.num_blocks,
                    args: args.iter().zip(&of_kernel.args).map(address).collect(),
                }]
            }
            Call::Collective { kind, axis, element, src_len, src, dst } => {
                let (comm, num_ranks) = self.communicators.along(*axis);
                let bytes = element.size_bytes();
                let dst_len = match kind {
                    CollectiveKind::AllGather => src_len * num_ranks,
                    CollectiveKind::ReduceScatter(_) => src_len / num_ranks,
                    CollectiveKind::AllReduce(_) | CollectiveKind::AllToAll => *src_len,
                };
                vec![Work::Collective(Collective {
                    kind: *kind,
                    comm,
                    src: self.arena.at(*src, src_len * bytes),
                    dst: self.arena.at(*dst, dst_len * bytes),
                    src_len: *src_len,
                    num_ranks,
                    dtype: HcclDataType(element.hccl_code()),
                })]
            }
            Call::Copy { src, dst, size_bytes } => vec![self.copy(*src, *dst, *size_bytes)],
            Call::RankSlice { axis, src, src_bytes, dst, size_bytes } => {
                let position = self.context.plan.mesh.coordinate(self.context.rank, *axis);
                let start = (position * size_bytes).min(*src_bytes);
                let copied = (*size_bytes).min(src_bytes - start);
                let copy = self.copy(src + start, *dst, copied);
                let zero = self.zero(dst + copied, size_bytes - copied);
                [(copied, copy), (size_bytes - copied, zero)]
                    .into_iter()
                    .filter_map(|(n, work)| (n > 0).then_some(work))
                    .collect()
            }
            Call::Zero { dst, size_bytes } => vec![self.zero(*dst, *size_bytes)],
            Call::Record { event } => vec![Work::Record(self.events[*event as usize].get())],
            Call::Wait { event } => vec![Work::Wait(self.events[*event as usize].get())],
        };
        Ok(Bound { works, stream: self.streams[number].get(), stream_number: *stream, source: *source })
    }

    fn copy(&self, src: u64, dst: u64, size_bytes: u64) -> Work<'a> {
        let (src, dst) = (self.arena.at(src, size_bytes), self.arena.at(dst, size_bytes));
        Work::Copy { dst, src, size_bytes: size_bytes as usize }
    }

    fn zero(&self, dst: u64, size_bytes: u64) -> Work<'a> {
        Work::Zero { dst: self.arena.at(dst, size_bytes), size_bytes: size_bytes as usize }
    }
}
