//! `--profile`: where the time of a step goes.

use crate::diagnose::action_name;
use crate::exec::Profile;
use std::collections::BTreeMap;
use std::fmt::Write;
use titan_ir::plan::Instr;
use titan_ir::{Phase, Plan};

/// Instructions that do the same in every layer.
#[derive(Default)]
struct Line {
    num_calls: u64,
    spent_ns: u64,
    flops: u64,
    traffic_bytes: u64,
}

/// A table: one line per kind of instruction, the slowest first. `what` says what ran them.
pub(crate) fn table(profile: &Profile, plan: &Plan, what: &str) -> String {
    let steps = profile.num_steps.max(1);
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    for (segment, spent) in plan.segments.iter().zip(&profile.spent_ns) {
        for (instr, &spent_ns) in segment.instrs.iter().zip(spent) {
            let line = lines.entry(label(plan, instr)).or_default();
            line.num_calls += segment.repeat;
            line.spent_ns += spent_ns / steps;
            line.flops += instr.flops * segment.repeat;
            line.traffic_bytes += instr.traffic_bytes * segment.repeat;
        }
    }
    let mut lines: Vec<(String, Line)> = lines.into_iter().collect();
    lines.sort_by_key(|(_, line)| std::cmp::Reverse(line.spent_ns));
    let total_ns: u64 = lines.iter().map(|(_, line)| line.spent_ns).sum();
    let flops: u64 = lines.iter().map(|(_, line)| line.flops).sum();
    let mut out = format!(
        "profile of rank 0: {steps} steps, {what}, {:.3} s and {:.1} GFLOP a step\n",
        total_ns as f64 * 1e-9,
        flops as f64 * 1e-9
    );
    let _ =
        writeln!(out, "{:>7} {:>9} {:>6} {:>9} {:>8}  what", "share", "ms/step", "calls", "GFLOP/s", "GB/s");
    for (label, line) in &lines {
        let ns = line.spent_ns.max(1) as f64;
        let _ = writeln!(
            out,
            "{:>6.2}% {:>9.3} {:>6} {:>9.1} {:>8.1}  {label}",
            100.0 * ns / total_ns.max(1) as f64,
            ns * 1e-6,
            line.num_calls,
            line.flops as f64 / ns,
            line.traffic_bytes as f64 / ns
        );
    }
    out
}

/// Phase, module path with layer numbers as `*`, and kind.
fn label(plan: &Plan, instr: &Instr) -> String {
    let phase = match instr.phase {
        Phase::Forward => "fwd",
        Phase::Backward => "bwd",
        Phase::Update => "upd",
    };
    let path = plan.locs.get(instr.loc as usize).map_or("", String::as_str);
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let path: Vec<&str> = path.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
    // Weights are updated alike: one line for all of them.
    let path = if instr.phase == Phase::Update { String::new() } else { path.join(".") };
    format!("{phase} {} {path}", action_name(&instr.action))
}
