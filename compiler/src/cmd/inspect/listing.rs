//! Every instruction of a plan, a line each.

use super::collectives::kind_name;
use crate::report::{bytes, ranks};
use std::fmt::Write;
use titan_ir::DiagResult;
use titan_ir::Plan;
use titan_ir::artifact::Artifact;
use titan_ir::plan::{Action, Address, Arena, Domain, PlanTensor};

/// The plan for that many ranks.
pub(super) fn listing(artifact: &Artifact<'_>, world_size: u64) -> DiagResult<String> {
    let plan = artifact.plan(world_size)?;
    let axes: Vec<String> = plan.mesh.axes.iter().map(|a| format!("{} = {}", a.name, a.size)).collect();
    let mut text = format!("plan for {}, mesh [{}]\n", ranks(world_size), axes.join(", "));
    let _ =
        writeln!(text, "state arena {}, step arena {}\n", bytes(plan.state_bytes), bytes(plan.step_bytes));
    text.push_str("tensors\n");
    for tensor in &plan.tensors {
        let _ = writeln!(text, "  {}", tensor_line(tensor));
    }
    text.push_str("\nlargest in use at the peak\n");
    for buffer in &plan.largest {
        let kind = format!("{:?}", buffer.category).to_lowercase();
        let ty = format!("{}[{}]", buffer.dtype.name(), dims(&buffer.dims));
        let _ = writeln!(text, "  {:>12} {kind:<12} {ty} {}", bytes(buffer.size_bytes), buffer.path);
    }
    for segment in &plan.segments {
        let _ = writeln!(text, "\nsegment {}, {} per step", segment.name, segment.repeat);
        for (i, instr) in segment.instrs.iter().enumerate() {
            let module = plan.locs.get(instr.loc as usize).map_or("", String::as_str);
            let phase = format!("{:?}", instr.phase).to_lowercase();
            let action = action_text(&plan, &instr.action);
            let _ = writeln!(text, "{i:>6} {} {phase:<8} {action}  {module}", instr.stream);
        }
    }
    Ok(text)
}

fn tensor_line(tensor: &PlanTensor) -> String {
    let role = tensor.role.map_or("output".to_owned(), |role| format!("{role:?}").to_lowercase());
    let (local, global) = (dims(&tensor.local_dims), dims(&tensor.global_dims));
    let cut = if local == global { String::new() } else { format!(" of [{global}]") };
    format!("{} {role} {} {}[{local}]{cut}", at(&tensor.address), tensor.name, tensor.dtype.name())
}

fn dims(dims: &[u64]) -> String {
    dims.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

fn at(address: &Address) -> String {
    let arena = match address.arena {
        Arena::State => "state",
        Arena::Step => "step",
    };
    format!("{arena}+{:#x}", address.offset_bytes)
}

fn all_at(addresses: &[Address]) -> String {
    addresses.iter().map(at).collect::<Vec<_>>().join(" ")
}

fn action_text(plan: &Plan, action: &Action) -> String {
    match action {
        Action::Launch { kernel, args, domain } => {
            let domain = match domain {
                Domain::Rows { rows, cols, grain } => format!("{rows} x {cols} by {grain}"),
                Domain::Flat { len, chunk } => format!("{len} by {chunk}"),
            };
            format!("kernel {kernel} [{domain}] {}", all_at(args))
        }
        Action::Contract { spec, a, b, c, epilogue } => {
            let end = match epilogue {
                Some((kernel, args)) => format!("then kernel {kernel} {}", all_at(args)),
                None => c.as_ref().map(at).unwrap_or_default(),
            };
            format!("contract [{} x {} x {}] {} {} {end}", spec.m, spec.n, spec.k, at(a), at(b))
        }
        Action::Attention { args, .. } => format!("attention {}", all_at(args)),
        Action::AttentionGrad { args, .. } => format!("attention_grad {}", all_at(args)),
        Action::ScatterAdd { args, .. } => format!("scatter_add {}", all_at(args)),
        Action::Collective { kind, axis, dtype, parts } => {
            let elements: u64 = parts.iter().map(|p| p.src_len).sum();
            let size = bytes(elements * dtype.size_bytes() as u64);
            let axis = &plan.mesh.axes[axis.index()].name;
            format!("{} {axis} {}, {size} in {}", kind_name(*kind), dtype.name(), parts.len())
        }
        Action::Copy { src, dst, size_bytes } => {
            format!("copy {} {} {}", at(src), at(dst), bytes(*size_bytes))
        }
        Action::RankSlice { axis, src, dst, size_bytes, .. } => {
            let axis = &plan.mesh.axes[axis.index()].name;
            format!("rank_slice {axis} {} {} {}", at(src), at(dst), bytes(*size_bytes))
        }
        Action::Zero { dst, size_bytes } => format!("zero {} {}", at(dst), bytes(*size_bytes)),
        Action::Guard { scalars } => {
            let names: Vec<&str> = scalars.iter().map(|(name, _)| name.as_str()).collect();
            format!("guard {}", names.join(" "))
        }
        Action::Record { event } => format!("record {event}"),
        Action::Wait { event } => format!("wait {event}"),
    }
}
