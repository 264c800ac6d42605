//! Every call of an Ascend program, a line each.

use super::super::collectives::kind_name;
use crate::report::{bytes, ranks};
use std::fmt::Write;
use titan_ir::artifact::Artifact;
use titan_ir::ascend::{Access, Arg, Call, DeviceKernels, Program, Region, TableFill, TensorArg};
use titan_ir::{DiagResult, Plan};

/// The program for that many ranks.
pub(in super::super) fn listing(artifact: &Artifact<'_>, world_size: u64) -> DiagResult<String> {
    let plan = artifact.plan(world_size)?;
    let program = artifact.program(world_size)?;
    let kernels = artifact.device_kernels()?;
    let mut text = format!("program for {}, arena {}\n", ranks(world_size), bytes(program.arena_bytes));
    let mut region = |name: &str, region: Region| {
        let _ = writeln!(text, "  {:#014x} {:>12} {name}", region.at, bytes(region.size_bytes));
    };
    region("state", program.state);
    region("step", program.step);
    region("slots", program.slots);
    region("scratch", program.scratch);
    for (stream, workspace) in program.workspaces.iter().enumerate() {
        region(&format!("workspace of stream {stream}"), *workspace);
    }
    for table in &program.tables {
        region(&fill_text(&table.fill), Region { at: table.at, size_bytes: table.fill.size_bytes() });
    }
    for (s, segment) in program.segments.iter().enumerate() {
        for (p, part) in segment.parts.iter().enumerate() {
            let _ = writeln!(text, "\ngraph {p} of {}, {} per step", segment.name, segment.repeat);
            for (i, one) in part.submissions.iter().enumerate() {
                let instr = plan.segments.get(s).and_then(|s| s.instrs.get(one.source as usize));
                let module = instr.and_then(|i| plan.locs.get(i.loc as usize)).map_or("", String::as_str);
                let call = call_text(&plan, &program, &kernels, &one.call);
                let _ = writeln!(text, "{i:>6} {} {call}  {module} #{}", one.stream, one.source);
            }
            for (name, at) in &part.guard {
                let _ = writeln!(text, "  guard {name} {}", place(&program, *at));
            }
        }
    }
    Ok(text)
}

fn fill_text(fill: &TableFill) -> String {
    match fill {
        TableFill::UpperTriangle { rows, cols } => format!("table, upper triangle of {rows} x {cols}"),
        TableFill::Iota { len } => format!("table, 0 to {}", len.saturating_sub(1)),
        TableFill::Constant { bits, len } => format!("table, {len} x {}", f32::from_bits(*bits)),
    }
}

fn call_text(plan: &Plan, program: &Program, kernels: &DeviceKernels, call: &Call) -> String {
    let at = |address: u64| place(program, address);
    let axis = |axis: titan_ir::AxisId| plan.mesh.axes.get(axis.index()).map_or("?", |a| a.name.as_str());
    match call {
        Call::Operator { name, args } => {
            let args: Vec<String> = args.iter().map(|arg| arg_text(program, arg)).collect();
            format!("{name}({})", args.join(", "))
        }
        Call::Kernel { kernel, args } => {
            let symbol = kernels.kernels.get(*kernel as usize).map_or("?", |k| k.symbol.as_str());
            format!("{symbol}({})", args.iter().map(|a| at(*a)).collect::<Vec<_>>().join(", "))
        }
        Call::Collective { kind, axis: along, element, src_len, src, dst } => {
            let (kind, along, element) = (kind_name(*kind), axis(*along), element.name());
            format!("{kind} {along} {element}[{src_len}] {} -> {}", at(*src), at(*dst))
        }
        Call::Copy { src, dst, size_bytes } => {
            format!("copy {} -> {}, {}", at(*src), at(*dst), bytes(*size_bytes))
        }
        Call::RankSlice { axis: along, src, dst, size_bytes, .. } => {
            format!("rank_slice {} {} -> {}, {}", axis(*along), at(*src), at(*dst), bytes(*size_bytes))
        }
        Call::Zero { dst, size_bytes } => format!("zero {}, {}", at(*dst), bytes(*size_bytes)),
        Call::Record { event } => format!("record {event}"),
        Call::Wait { event } => format!("wait {event}"),
    }
}

fn arg_text(program: &Program, arg: &Arg) -> String {
    match arg {
        Arg::Tensor(tensor) => tensor_text(program, tensor),
        Arg::Tensors(list) => {
            let list: Vec<String> = list.iter().map(|tensor| tensor_text(program, tensor)).collect();
            format!("[{}]", list.join(", "))
        }
        Arg::Null => "null".to_owned(),
        Arg::Scalar(element, value) => format!("{}({value})", element.name()),
        Arg::Ints(list) => format!("{list:?}"),
        Arg::Text(text) => format!("{text:?}"),
        Arg::F64(value) => value.to_string(),
        Arg::F32(value) => value.to_string(),
        Arg::I64(value) => value.to_string(),
        Arg::U64(value) => value.to_string(),
        Arg::I8(value) => value.to_string(),
        Arg::Bool(value) => value.to_string(),
        Arg::Type(element) => element.name().to_owned(),
    }
}

/// Type, dimensions, strides unless they are those of a dense tensor, and place; results have an arrow.
fn tensor_text(program: &Program, tensor: &TensorArg) -> String {
    let dense = TensorArg::contiguous(tensor.element, &tensor.dims, tensor.at, tensor.access);
    let strides = if dense == *tensor { String::new() } else { format!(" by {:?}", tensor.strides) };
    let arrow = match tensor.access {
        Access::Read => "",
        Access::Write => "-> ",
        Access::Update => "<-> ",
    };
    format!("{arrow}{}{:?}{strides} {}", tensor.element.name(), tensor.dims, place(program, tensor.at))
}

/// An address by its region.
fn place(program: &Program, at: u64) -> String {
    let regions = [
        ("state", program.state),
        ("step", program.step),
        ("slots", program.slots),
        ("scratch", program.scratch),
    ];
    let found = regions.iter().find(|(_, region)| (region.at..region.end()).contains(&at));
    match found {
        Some((name, region)) => format!("{name}+{:#x}", at - region.at),
        None => {
            let table = program.tables.iter().position(|t| (t.at..t.at + t.fill.size_bytes()).contains(&at));
            table.map_or_else(
                || format!("{at:#x}"),
                |table| format!("table{table}+{:#x}", at - program.tables[table].at),
            )
        }
    }
}
