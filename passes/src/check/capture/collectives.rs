//! Collectives inside a capture.

use crate::check::device::{Findings, sites};
use titan_ir::Plan;
use titan_ir::ascend::{Call, Family, Program, Soc};
use titan_ir::kernel::CollectiveKind;

/// What unfolds a collective into transfers: HCCL's `opExpansionMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expansion {
    /// The host, through the task scheduler.
    Host,
    /// The AI CPUs of the device.
    AiCpu,
    /// Vector cores.
    Aiv,
}

/// Devices of a node whose links are direct on a device of the second generation.
const NODE_DEVICES: u64 = 8;

impl Expansion {
    /// What HCCL does when nothing is said.
    pub fn of_family(family: Family) -> Self {
        match family {
            Family::A2 => Self::Host,
            Family::A3 | Family::A5 => Self::AiCpu,
        }
    }
}

/// The first CANN release with which captures of a family are said to work; older ones lack HCCL in captures, or the device.
pub fn min_cann(family: Family) -> (u32, u32) {
    match family {
        Family::A2 | Family::A3 => (8, 5),
        Family::A5 => (9, 0),
    }
}

/// Why a collective over `num_ranks` ranks cannot be captured, if it cannot.
///
/// **Source**: HCCL's table of operators in graph capture.
fn refusal(
    family: Family,
    expansion: Expansion,
    kind: CollectiveKind,
    num_ranks: u64,
) -> Option<&'static str> {
    match (family, expansion) {
        (Family::A2, Expansion::Host) | (Family::A3 | Family::A5, Expansion::AiCpu) => None,
        (Family::A2, Expansion::Aiv) if num_ranks > NODE_DEVICES => {
            Some("unfolded by vector cores it can be captured within a node only")
        }
        (Family::A2 | Family::A3, Expansion::Aiv) => None,
        (Family::A2, Expansion::AiCpu) => match kind {
            CollectiveKind::AllGather | CollectiveKind::AllToAll => None,
            _ => Some("unfolded by AI CPUs this generation can capture gathers and exchanges only"),
        },
        (Family::A3 | Family::A5, Expansion::Host) => {
            Some("this generation does not unfold collectives on the host")
        }
        (Family::A5, Expansion::Aiv) => {
            Some("which collectives vector cores can capture on this generation is not documented")
        }
    }
}

/// Checks a part.
pub(super) fn check(
    plan: &Plan,
    program: &Program,
    (segment, part): (usize, usize),
    (soc, expansion): (&Soc, Expansion),
    findings: &mut Findings<'_>,
) {
    for site in sites(program, segment, part) {
        let Call::Collective { kind, axis, .. } = site.submission.call else { continue };
        if axis.index() >= plan.mesh.axes.len() || !program.comm_axes.contains(&axis) {
            let message = "no communicator is made for its axis";
            findings.at(&site, "T0558", message, "list the axis among those that need one");
            continue;
        }
        if let Some(why) = refusal(soc.family, expansion, kind, plan.mesh.size(axis)) {
            findings.at(&site, "T0558", why, "leave HCCL_OP_EXPANSION_MODE at its default for the device");
        }
    }
}
