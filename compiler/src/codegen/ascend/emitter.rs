//! The calls of one instruction, the scratch between them, and the tables they read.

use super::arena::{SCRATCH, SLOTS, Tables};
use super::operators;
use std::collections::BTreeMap;
use titan_ir::ascend::{Access, Arg, Call, Element, Soc, TableFill, TensorArg};
use titan_ir::ice;
use titan_ir::plan::ALIGN_BYTES;

/// What all calls need.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Demand {
    /// Values between the calls of an instruction, at most.
    pub(super) scratch_bytes: u64,
    /// Values that outlive an instruction.
    pub(super) slot_bytes: u64,
    /// Workspace of the operator that asks for most.
    pub(super) workspace_bytes: u64,
}

/// A small value kept between instructions: what it was computed from, and where it is.
#[derive(Debug)]
struct Slot {
    /// What: a name and the address it was computed from.
    key: (&'static str, u64),
    at: u64,
}

/// Collects calls.
#[derive(Debug)]
pub(super) struct Emitter<'a> {
    calls: Vec<Call>,
    tables: &'a mut Tables,
    soc: &'a Soc,
    budget_bytes: u64,
    /// Scratch in use: address to number of bytes.
    used: BTreeMap<u64, u64>,
    slots: Vec<Slot>,
    next_slot: u64,
    pub(super) demand: Demand,
}

impl<'a> Emitter<'a> {
    /// Nothing yet.
    pub(super) fn new(tables: &'a mut Tables, soc: &'a Soc, budget_bytes: u64) -> Self {
        let demand = Demand::default();
        Self {
            calls: Vec::new(),
            tables,
            soc,
            budget_bytes,
            used: BTreeMap::new(),
            slots: Vec::new(),
            next_slot: 0,
            demand,
        }
    }

    /// Scratch an instruction may use before it is cut in blocks.
    pub(super) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// The device.
    pub(super) fn soc(&self) -> &'a Soc {
        self.soc
    }

    /// The scratch that the calls of `emit` need at most; they are not kept.
    pub(super) fn probe(&mut self, emit: impl FnOnce(&mut Emitter<'_>)) -> u64 {
        let mut probe = Emitter::new(self.tables, self.soc, self.budget_bytes);
        emit(&mut probe);
        probe.demand.scratch_bytes
    }

    /// Appends a call.
    pub(super) fn push(&mut self, call: Call) {
        self.calls.push(call);
    }

    /// Appends a call of an operator.
    pub(super) fn operator(&mut self, name: &str, args: Vec<Arg>) {
        let bytes = operators::workspace_bytes(name, &args, self.soc);
        self.demand.workspace_bytes = self.demand.workspace_bytes.max(bytes);
        self.calls.push(operators::call(name, args));
    }

    /// The calls since the last time; all scratch is free again.
    pub(super) fn take(&mut self) -> Vec<Call> {
        self.used.clear();
        let calls = std::mem::take(&mut self.calls);
        for call in &calls {
            for (start, end) in writes(call) {
                // What a slot was computed from is gone.
                self.slots.retain(|slot| !(start..end).contains(&slot.key.1));
            }
        }
        calls
    }

    /// The address of a constant table.
    pub(super) fn table(&mut self, fill: TableFill) -> u64 {
        self.tables.at(fill)
    }

    /// One f32, as a tensor of these dimensions, each 1.
    pub(super) fn constant(&mut self, value: f32, rank: usize) -> TensorArg {
        let at = self.table(TableFill::Constant { bits: value.to_bits(), len: 1 });
        TensorArg::contiguous(Element::F32, &vec![1; rank], at, Access::Read)
    }

    /// A dense tensor in scratch.
    pub(super) fn temp(&mut self, element: Element, dims: &[u64]) -> TensorArg {
        let elements: u64 = dims.iter().product();
        let size_bytes = (elements * element.size_bytes()).next_multiple_of(ALIGN_BYTES).max(ALIGN_BYTES);
        let mut at = 0;
        for (&start, &bytes) in &self.used {
            if start >= at + size_bytes {
                break;
            }
            at = start + bytes;
        }
        self.used.insert(at, size_bytes);
        self.demand.scratch_bytes = self.demand.scratch_bytes.max(at + size_bytes);
        TensorArg::contiguous(element, dims, SCRATCH + at, Access::Read)
    }

    /// Gives scratch back; anything else stays.
    pub(super) fn free(&mut self, tensor: &TensorArg) {
        if tensor.at >= SCRATCH && self.used.remove(&(tensor.at - SCRATCH)).is_none() {
            ice!("scratch given back twice");
        }
    }

    /// An f32 tensor computed from the value at `from`: kept until that value changes or the part ends.
    pub(super) fn slot(
        &mut self,
        what: &'static str,
        from: u64,
        dims: &[u64],
        make: impl FnOnce(&mut Self, &TensorArg),
    ) -> TensorArg {
        let tensor = |at| TensorArg::contiguous(Element::F32, dims, at, Access::Read);
        if let Some(slot) = self.slots.iter().find(|slot| slot.key == (what, from)) {
            return tensor(slot.at);
        }
        let slot = tensor(SLOTS + self.next_slot);
        self.next_slot += slot.extent_bytes().next_multiple_of(ALIGN_BYTES);
        self.demand.slot_bytes = self.demand.slot_bytes.max(self.next_slot);
        self.slots.push(Slot { key: (what, from), at: slot.at });
        make(self, &slot);
        slot
    }

    /// Forgets all slots.
    pub(super) fn forget(&mut self) {
        self.slots.clear();
        self.next_slot = 0;
    }
}

/// The bytes a call writes: `[start, end)` each. Kernels and collectives write what their plan says, operators what their arguments say.
pub(super) fn writes(call: &Call) -> Vec<(u64, u64)> {
    match call {
        Call::Operator { args, .. } => args
            .iter()
            .filter_map(|arg| match arg {
                Arg::Tensor(t) if t.access.writes() => Some((t.at, t.at + t.extent_bytes())),
                _ => None,
            })
            .collect(),
        Call::Kernel { args, .. } => args.iter().map(|&at| (at, at + 1)).collect(),
        Call::Collective { dst, .. } => vec![(*dst, dst + 1)],
        Call::Copy { dst, size_bytes, .. }
        | Call::RankSlice { dst, size_bytes, .. }
        | Call::Zero { dst, size_bytes } => {
            vec![(*dst, dst + size_bytes)]
        }
        Call::Record { .. } | Call::Wait { .. } => Vec::new(),
    }
}
