//! An Ascend program at a glance.

use super::{KernelSummary, StreamCalls, Summary};
use crate::report::{bytes, grouped, plural};
use crate::roofline::Estimate;
use std::fmt::Write;
use titan_ir::ascend::Soc;
use titan_passes::check::capture::budget::{MAX_EVENTS, MAX_STREAMS, QUEUE_TASKS};
use titan_passes::check::capture::collectives::min_cann;

/// What the device needs, and the kernels all programs share.
pub(in super::super) fn kernels_text(soc: &Soc, kernels: &KernelSummary) -> String {
    let (major, minor) = min_cann(soc.family);
    let mut text = format!("needs: {} with CANN {major}.{minor} or newer\n", soc.name);
    let KernelSummary { num_kernels, num_compiled, mlir_bytes, object_bytes } = *kernels;
    let state = match num_compiled {
        _ if num_kernels == 0 => return text + "code:  operators only\n",
        0 => "to be compiled on the device machine".to_owned(),
        n if n == num_kernels => format!("compiled, {}", bytes(object_bytes)),
        n => format!("{n} of them compiled, {}", bytes(object_bytes)),
    };
    let num_kernels = plural(num_kernels as u64, "generated kernel");
    let _ = writeln!(text, "code:  {num_kernels}, {} of MLIR, {state}", bytes(mlir_bytes));
    text
}

/// Streams, operators, graphs, memory and estimate of a program.
pub(in super::super) fn program_text(summary: &Summary) -> String {
    let mut text = String::new();
    for (number, stream) in summary.streams.iter().enumerate() {
        let _ = writeln!(text, "  stream {number}: {}", stream_text(stream));
    }
    let mut counted: Vec<_> = summary.operators.iter().collect();
    counted.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let operators: Vec<String> =
        counted.into_iter().map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
    for (i, line) in operators.chunks(4).enumerate() {
        let _ = writeln!(text, "  {:<11}{}", if i == 0 { "operators:" } else { "" }, line.join(", "));
    }
    let _ = writeln!(
        text,
        "  kernels:   {} of {} launches in the plan run as operators",
        grouped(summary.num_launches_as_operators),
        grouped(summary.num_launches),
    );
    for unfit in &summary.as_operators {
        let kernels = plural(unfit.num_kernels, "different kernel");
        let _ = writeln!(text, "             {kernels}: {}", unfit.reason);
    }
    for (i, graph) in summary.graphs.iter().enumerate() {
        let guard = if graph.guard.is_empty() {
            String::new()
        } else {
            format!(", then guard {}", graph.guard.join(" "))
        };
        let calls = plural(graph.num_submissions as u64, "call");
        let part = 1 + summary.graphs[..i].iter().filter(|g| g.segment == graph.segment).count();
        let _ =
            writeln!(text, "  graph:     {} x {}, part {part}: {calls}{guard}", graph.segment, graph.repeat);
    }
    let budget = &summary.budget;
    let _ = writeln!(
        text,
        "  budget:    at most {} of {MAX_STREAMS} streams, {} of {MAX_EVENTS} events, at most {} tasks of one stream (one more stream per {QUEUE_TASKS})",
        grouped(budget.num_streams),
        grouped(budget.num_events),
        grouped(budget.longest_queue),
    );
    let workspaces: Vec<String> = summary.workspace_bytes.iter().map(|w| bytes(*w)).collect();
    let _ = writeln!(
        text,
        "  memory:    arena {}, of it scratch {}, tables {}, workspace {}; HCCL {}",
        bytes(summary.arena_bytes),
        bytes(summary.scratch_bytes),
        bytes(summary.tables_bytes),
        workspaces.join(" + "),
        bytes(summary.hccl_bytes),
    );
    estimate_text(&mut text, &summary.estimate);
    text
}

fn stream_text(stream: &StreamCalls) -> String {
    let counts = [
        (stream.num_operators, "operator"),
        (stream.num_kernels, "generated kernel"),
        (stream.num_collectives, "collective"),
        (stream.num_copies, "transfer"),
        (stream.num_events, "event"),
    ];
    let shown = counts.iter().filter(|(count, _)| *count > 0);
    shown.map(|(count, noun)| plural(*count, noun)).collect::<Vec<_>>().join(", ")
}

fn estimate_text(text: &mut String, estimate: &Estimate) {
    let _ = writeln!(
        text,
        "  estimate:  {:.1} ms a step, {} tokens a second and rank, {:.1} % of the cube peak; a roofline, not a measurement",
        estimate.step_ms,
        grouped(estimate.tokens_per_second as u64),
        estimate.mfu_percent,
    );
    let _ = writeln!(
        text,
        "             calls bound by the cube {:.1} ms, by memory {:.1} ms; collectives {:.1} ms, of which {:.1} ms are not hidden",
        estimate.cube_ms, estimate.memory_ms, estimate.collective_ms, estimate.exposed_ms,
    );
    for segment in &estimate.segments {
        let _ = writeln!(text, "             {} x {}: {:.1} ms", segment.name, segment.repeat, segment.ms);
    }
}

/// What estimates rest on.
pub(in super::super) fn assumptions_text(estimate: &Estimate) -> String {
    let mut text = String::from("\nassumptions of the estimates\n");
    for assumption in &estimate.assumptions {
        let _ = writeln!(text, "  {}: {} ({})", assumption.name, assumption.value, assumption.source);
    }
    text
}
