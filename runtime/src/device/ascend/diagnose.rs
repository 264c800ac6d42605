//! After a step met a value that is not finite: issue it again, one call at a time, and name the first such value.
//!
//! Nothing of the state has been written when a guard stops a step, so the second run computes what the first did.

use super::Ascend;
use super::context::Place;
use crate::device::{Inputs, RankError};
use crate::diagnose::{Bad, Finding, Stop, describe, stored_value};
use half::bf16;
use titan_ir::Diag;
use titan_ir::ascend::{Arg, Call, Element, Submission, TensorArg};
use titan_ir::kernel::CollectiveKind;

/// What a call writes.
struct Written {
    element: Element,
    at: u64,
    len: u64,
}

/// Runs the step again, up to the guard, and gives this rank's first value that is not finite.
pub(super) fn find(device: &Ascend<'_>, inputs: &Inputs<'_>, at: Stop) -> Result<Option<Finding>, RankError> {
    let mut found = stored_value(device, &device.loaded.plan)?;
    let (context, stream) = (&device.context, device.streams[0].get());
    device.ports.fill(inputs);
    device.ports.begin(context, stream)?;
    for (index, segment) in device.program.segments.iter().enumerate().take(at.segment + 1) {
        for microbatch in 0..segment.repeat {
            device.ports.load(context, microbatch as usize, stream)?;
            context.synchronize(stream)?;
            for part in 0..segment.parts.len() {
                // Parts after the guard write the state.
                if index == at.segment && part > 0 && device.stop_of_previous(index, part) == Some(at) {
                    break;
                }
                for call in 0..device.calls.len(index, part) {
                    device.calls.issue(context, index, part, call, false)?;
                    context.synchronize(device.calls.stream(index, part, call))?;
                    if found.is_none() {
                        context.at(Some(Place { segment: index, part, call: None, captured: false }));
                        found = check(device, [index, part, call], microbatch)?;
                    }
                }
            }
        }
    }
    Ok(found)
}

impl Ascend<'_> {
    /// The guard at the end of the part before, if it has one.
    fn stop_of_previous(&self, segment: usize, part: usize) -> Option<Stop> {
        let guarded = !self.program.segments[segment].parts[part - 1].guard.is_empty();
        guarded.then(|| self.stop_of(segment, part - 1))
    }
}

fn check(
    device: &Ascend<'_>,
    [segment, part, call]: [usize; 3],
    microbatch: u64,
) -> Result<Option<Finding>, Diag> {
    let submissions = &device.program.segments[segment].parts[part].submissions;
    let submission = &submissions[call];
    let instr = &device.loaded.plan.segments[segment].instrs[submission.source as usize];
    let program = device.program;
    let is_of_the_plan =
        |at: u64| [program.state, program.step].iter().any(|region| (region.at..region.end()).contains(&at));
    // What is between the calls of one instruction may be anything.
    let mut results = written(device, &submissions[..=call]);
    results.retain(|written| is_of_the_plan(written.at));
    for (result, written) in results.iter().enumerate() {
        if let Some((element, value)) = scan(device, written)? {
            let what = describe(&device.loaded.plan, instr, &Bad { result, element, value });
            return Ok(Some(Finding { order: (segment, microbatch, submission.source as usize + 1), what }));
        }
    }
    Ok(None)
}

/// What the last of `submissions` writes.
fn written(device: &Ascend<'_>, submissions: &[Submission]) -> Vec<Written> {
    let Some((last, before)) = submissions.split_last() else { return Vec::new() };
    let whole = |t: &TensorArg| Written {
        element: t.element,
        at: t.at,
        len: t.extent_bytes() / t.element.size_bytes(),
    };
    match &last.call {
        Call::Operator { args, .. } => {
            let tensors = args.iter().flat_map(|arg| match arg {
                Arg::Tensor(tensor) => std::slice::from_ref(tensor),
                Arg::Tensors(tensors) => tensors,
                _ => &[],
            });
            tensors.filter(|t| t.access.writes()).map(whole).collect()
        }
        Call::Kernel { kernel, args } => {
            let of_kernel = device.code.kernels.kernels[*kernel as usize].args.iter();
            let written = of_kernel.zip(args).filter(|(arg, _)| arg.access.writes());
            written
                .map(|(arg, &at)| Written {
                    element: arg.element,
                    at,
                    len: arg.size_bytes() / arg.element.size_bytes(),
                })
                .collect()
        }
        Call::Collective { kind, axis, element, src_len, dst, .. } => {
            let ranks = device.loaded.plan.mesh.size(*axis);
            let len = match kind {
                CollectiveKind::AllGather => src_len * ranks,
                CollectiveKind::ReduceScatter(_) => src_len / ranks,
                CollectiveKind::AllReduce(_) | CollectiveKind::AllToAll => *src_len,
            };
            vec![Written { element: *element, at: *dst, len }]
        }
        // A result an operator could not write in place: of the type in which it was computed.
        Call::Copy { src, dst, size_bytes } => {
            let of_source = (1..=before.len()).rev().map(|len| &before[..len]);
            let of_source = of_source.take_while(|s| s.last().is_some_and(|s| s.source == last.source));
            let computed = of_source.flat_map(|s| written(device, s)).find(|written| written.at == *src);
            computed
                .map(|Written { element, .. }| Written {
                    element,
                    at: *dst,
                    len: size_bytes / element.size_bytes(),
                })
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The first element that is not finite, and its value.
fn scan(device: &Ascend<'_>, written: &Written) -> Result<Option<(u64, f32)>, Diag> {
    if !matches!(written.element, Element::F32 | Element::Bf16) {
        return Ok(None);
    }
    let size_bytes = written.len * written.element.size_bytes();
    let mut bytes = vec![0; size_bytes as usize];
    // SAFETY: in the arena, and nothing is queued.
    unsafe { device.context.read(&mut bytes, device.arena.at(written.at, size_bytes))? };
    let first = |values: &mut dyn Iterator<Item = f32>| {
        values.zip(0..).find(|(value, _)| !value.is_finite()).map(|(value, i)| (i, value))
    };
    Ok(match written.element {
        Element::F32 => {
            let word = |b: &[u8]| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
            first(&mut bytes.chunks_exact(4).map(word))
        }
        _ => first(&mut bytes.chunks_exact(2).map(|b| bf16::from_ne_bytes([b[0], b[1]]).to_f32())),
    })
}
