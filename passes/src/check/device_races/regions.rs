//! The regions of the arena.

use crate::check::device::Findings;
use titan_ir::Plan;
use titan_ir::ascend::{Program, Region};

/// Alignment of regions.
const REGION_ALIGN_BYTES: u64 = 64;

/// What a region is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    State,
    Step,
    Table,
    Slot,
    Scratch,
    Workspace,
}

/// All regions that are not empty, by address.
#[derive(Debug)]
pub(super) struct Regions {
    all: Vec<(Region, Place)>,
    /// Whether a stream has a workspace, however large.
    num_workspaces: usize,
}

impl Regions {
    pub(super) fn of(program: &Program) -> Self {
        let mut all = vec![
            (program.state, Place::State),
            (program.step, Place::Step),
            (program.slots, Place::Slot),
            (program.scratch, Place::Scratch),
        ];
        let table =
            |table: &titan_ir::ascend::Table| Region { at: table.at, size_bytes: table.fill.size_bytes() };
        all.extend(program.tables.iter().map(|t| (table(t), Place::Table)));
        all.extend(program.workspaces.iter().map(|&w| (w, Place::Workspace)));
        all.retain(|(region, _)| region.size_bytes > 0);
        all.sort_by_key(|(region, _)| (region.at, region.size_bytes));
        Self { all, num_workspaces: program.workspaces.len() }
    }

    /// Whether operators of a stream have a workspace.
    pub(super) fn has_workspace(&self, stream: usize) -> bool {
        stream < self.num_workspaces
    }

    /// The region these bytes are in.
    pub(super) fn place(&self, at: u64, end: u64) -> Option<Place> {
        let before = self.all.partition_point(|(region, _)| region.at <= at);
        let (region, place) = self.all.get(before.checked_sub(1)?)?;
        (end <= region.end()).then_some(*place)
    }

    /// Regions lie apart, aligned and inside the arena, and hold what the plan's arenas hold.
    pub(super) fn check(&self, plan: &Plan, program: &Program, findings: &mut Findings<'_>) {
        let mut wrong = |place: Place, message: String| {
            let code = if place == Place::Workspace { "T0563" } else { "T0561" };
            findings.whole(
                code,
                format!("the {place:?} region {message}").to_lowercase(),
                "lay the arena out again",
            );
        };
        for (i, &(region, place)) in self.all.iter().enumerate() {
            if region.end() > program.arena_bytes {
                wrong(place, format!("ends at byte {} of an arena of {}", region.end(), program.arena_bytes));
            }
            if !region.at.is_multiple_of(REGION_ALIGN_BYTES) {
                wrong(place, format!("starts at byte {}, not a multiple of {REGION_ALIGN_BYTES}", region.at));
            }
            if let Some((next, of)) = self.all.get(i + 1).filter(|(next, _)| next.at < region.end()) {
                let worse = if place == Place::Workspace { place } else { *of };
                wrong(worse, format!("overlaps another at byte {}", next.at));
            }
        }
        let arenas =
            [(Place::State, program.state, plan.state_bytes), (Place::Step, program.step, plan.step_bytes)];
        for (place, region, wanted) in arenas {
            if region.size_bytes < wanted {
                wrong(place, format!("has {} bytes for an arena of {wanted}", region.size_bytes));
            }
        }
    }
}
