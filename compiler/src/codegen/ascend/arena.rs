//! Where everything is in the one arena of a rank.
//!
//! While calls are made only the plan's own memory has addresses. Tables, scratch and slots are numbered from bases of their own, and
//! moved to their places when all sizes are known.

use super::Options;
use super::emitter::Demand;
use indexmap::IndexMap;
use titan_ir::AxisId;
use titan_ir::ascend::{Arg, Call, Program, Region, Segment, Table, TableFill};
use titan_ir::plan::{ALIGN_BYTES, Address, Arena, MemoryReport, Plan};

/// Between regions, so that an operator that reads whole blocks past an end stays within the arena.
const REGION_ALIGN_BYTES: u64 = 512;

/// Where tables seem to be.
const TABLES: u64 = 1 << 60;
/// Where slots seem to be: small values that outlive an instruction.
pub(super) const SLOTS: u64 = 2 << 60;
/// Where scratch seems to be.
pub(super) const SCRATCH: u64 = 3 << 60;

/// Bytes the communication library allocates per communicator: two buffers of its default HCCL_BUFFSIZE of 200 MB.
const COMMUNICATOR_BYTES: u64 = 2 * 200 * 1024 * 1024;

/// The address of a plan's address.
pub(super) fn place(plan: &Plan, address: Address) -> u64 {
    let base = match address.arena {
        Arena::State => 0,
        Arena::Step => plan.state_bytes.next_multiple_of(REGION_ALIGN_BYTES),
    };
    base + address.offset_bytes
}

/// Constant tables, each once.
#[derive(Debug, Default)]
pub(super) struct Tables {
    tables: IndexMap<TableFill, u64>,
    size_bytes: u64,
}

impl Tables {
    /// The address of a table.
    pub(super) fn at(&mut self, fill: TableFill) -> u64 {
        if let Some(&offset) = self.tables.get(&fill) {
            return TABLES + offset;
        }
        let offset = self.size_bytes;
        self.size_bytes += fill.size_bytes().next_multiple_of(ALIGN_BYTES);
        self.tables.insert(fill, offset);
        TABLES + offset
    }
}

/// Regions one after the other.
struct Regions {
    end: u64,
}

impl Regions {
    fn next(&mut self, size_bytes: u64) -> Region {
        let region = Region { at: self.end.next_multiple_of(REGION_ALIGN_BYTES), size_bytes };
        self.end = region.end();
        region
    }
}

/// Gives every region its place.
pub(super) fn finish(
    plan: &Plan,
    options: &Options<'_>,
    mut segments: Vec<Segment>,
    tables: &Tables,
    demand: Demand,
    num_events: u32,
) -> Program {
    let mut regions = Regions { end: 0 };
    let state = regions.next(plan.state_bytes);
    let step = regions.next(plan.step_bytes);
    let table_region = regions.next(tables.size_bytes);
    let slots = regions.next(demand.slot_bytes);
    let scratch = regions.next(demand.scratch_bytes);
    let num_streams = 1 + streams(&segments);
    let workspaces: Vec<Region> = (0..num_streams)
        .map(|stream| regions.next(if stream == 0 { workspace(options, demand) } else { 0 }))
        .collect();
    let arena_bytes = regions.end.next_multiple_of(REGION_ALIGN_BYTES);
    let moved = |address: u64| match address >> 60 {
        1 => address - TABLES + table_region.at,
        2 => address - SLOTS + slots.at,
        3 => address - SCRATCH + scratch.at,
        _ => address,
    };
    let calls = segments.iter_mut().flat_map(|s| &mut s.parts).flat_map(|p| &mut p.submissions);
    calls.for_each(|s| addresses(&mut s.call, &mut |address| *address = moved(*address)));
    let comm_axes = comm_axes(&segments);
    Program {
        arena_bytes,
        state,
        step,
        tables: tables
            .tables
            .iter()
            .map(|(fill, &at)| Table { at: table_region.at + at, fill: fill.clone() })
            .collect(),
        slots,
        scratch,
        workspaces,
        num_streams,
        num_events,
        memory: memory(plan, tables.size_bytes, arena_bytes, communication_bytes(plan, &comm_axes)),
        comm_axes,
        segments,
    }
}

fn workspace(options: &Options<'_>, demand: Demand) -> u64 {
    options.workspace_bytes.unwrap_or(demand.workspace_bytes)
}

/// The largest stream number.
fn streams(segments: &[Segment]) -> u8 {
    let submissions = segments.iter().flat_map(|s| &s.parts).flat_map(|p| &p.submissions);
    submissions.map(|s| s.stream).max().unwrap_or(0)
}

fn comm_axes(segments: &[Segment]) -> Vec<AxisId> {
    let submissions = segments.iter().flat_map(|s| &s.parts).flat_map(|p| &p.submissions);
    let mut axes: Vec<AxisId> = submissions
        .filter_map(|s| match s.call {
            Call::Collective { axis, .. } => Some(axis),
            _ => None,
        })
        .collect();
    axes.sort_unstable();
    axes.dedup();
    axes
}

/// One communicator of all ranks, and one per axis that does not hold them all.
fn communication_bytes(plan: &Plan, axes: &[AxisId]) -> u64 {
    let world = plan.mesh.num_ranks();
    let parts = axes.iter().filter(|&&axis| plan.mesh.size(axis) < world).count() as u64;
    if axes.is_empty() { 0 } else { (1 + parts) * COMMUNICATOR_BYTES }
}

/// The plan's report, with what the device needs beside: the sum is the arena and the communication library's own.
fn memory(plan: &Plan, tables_bytes: u64, arena_bytes: u64, communication_bytes: u64) -> MemoryReport {
    let mut report = MemoryReport {
        buffers_bytes: plan.memory.buffers_bytes + tables_bytes,
        workspace_bytes: 0,
        workspace_per_thread_bytes: 0,
        communication_bytes: 0,
        ..plan.memory
    };
    report.workspace_bytes = arena_bytes - report.total_bytes(0);
    report.communication_bytes = communication_bytes;
    report
}

/// Visits every address of a call.
fn addresses(call: &mut Call, visit: &mut dyn FnMut(&mut u64)) {
    match call {
        Call::Operator { args, .. } => {
            for arg in args {
                match arg {
                    Arg::Tensor(tensor) => visit(&mut tensor.at),
                    Arg::Tensors(list) => list.iter_mut().for_each(|t| visit(&mut t.at)),
                    _ => {}
                }
            }
        }
        Call::Kernel { args, .. } => args.iter_mut().for_each(visit),
        Call::Collective { src, dst, .. }
        | Call::Copy { src, dst, .. }
        | Call::RankSlice { src, dst, .. } => {
            visit(src);
            visit(dst);
        }
        Call::Zero { dst, .. } => visit(dst),
        Call::Record { .. } | Call::Wait { .. } => {}
    }
}
