//! Nodes become instructions.

use super::{CLEAR, KernelTable};
use crate::place::{Home, Placement};
use crate::schedule::streams::{COMPUTE, Item, What, lowering};
use indexmap::IndexMap;
use titan_ir::kernel::{Access, CollectiveKind, Cols, KernelSpec, Native, RowKernel, Store};
use titan_ir::ops::launch::Launch;
use titan_ir::plan::{Action, Address, CollectivePart, Domain, Instr, Segment};
use titan_ir::{AxisId, Cost, Func, Lowering, Node, Op, Phase, Role, ValueId, ice};

/// Memory traffic of one call of a kernel: many calls per thread, little overhead in each.
const GRAIN_BYTES: u64 = 64 * 1024;

/// Module paths and their numbers.
type Locs = IndexMap<String, ()>;

/// Writes the instructions of one function.
pub(super) struct Emitter<'a> {
    pub(super) func: &'a Func,
    pub(super) f: usize,
    pub(super) placement: &'a Placement,
    pub(super) kernels: &'a mut KernelTable,
    pub(super) locs: &'a mut Locs,
}

fn loc(locs: &mut Locs, path: &str) -> u32 {
    let at = locs.get_index_of(path).unwrap_or_else(|| locs.insert_full(path.to_owned(), ()).0);
    u32::try_from(at).expect("fewer than 2^32 paths")
}

fn zero(dst: Address, size_bytes: u64) -> (Action, Cost) {
    (Action::Zero { dst, size_bytes }, Cost { write_bytes: size_bytes, ..Cost::default() })
}

fn copy(src: Address, dst: Address, size_bytes: u64) -> (Action, Cost) {
    (
        Action::Copy { src, dst, size_bytes },
        Cost { flops: 0, read_bytes: size_bytes, write_bytes: size_bytes },
    )
}

fn instr((action, cost): (Action, Cost), stream: u8, loc: u32, phase: Phase) -> Instr {
    Instr { action, stream, loc, phase, flops: cost.flops, traffic_bytes: cost.read_bytes + cost.write_bytes }
}

/// The segment that zeroes gradient accumulators, if there are any; they are the end of the state arena.
pub(super) fn clear(placement: &Placement, locs: &mut Locs) -> Option<Segment> {
    let first = placement.states.iter().position(|s| s.role == Role::GradAccum)?;
    let dst = placement.address(Home::State(u32::try_from(first).expect("few states")));
    let action = zero(dst, placement.state_bytes - dst.offset_bytes);
    let instrs = vec![instr(action, COMPUTE, loc(locs, ""), Phase::Forward)];
    Some(Segment { name: CLEAR.to_owned(), repeat: 1, instrs })
}

impl Emitter<'_> {
    /// All instructions in issue order.
    pub(super) fn instrs(&mut self) -> Vec<Instr> {
        let mut instrs = Vec::new();
        let nowhere = loc(self.locs, "");
        let mut phase = Phase::Forward;
        for &Item { stream, what } in &self.placement.timelines[self.f].items {
            match what {
                What::Record(event) => {
                    instrs.push(instr((Action::Record { event }, Cost::default()), stream, nowhere, phase));
                }
                What::Wait(event) => {
                    instrs.push(instr((Action::Wait { event }, Cost::default()), stream, nowhere, phase));
                }
                What::Run(n) => {
                    let node = &self.func.nodes[n as usize];
                    phase = node.phase;
                    let loc = loc(self.locs, self.func.path(node.loc));
                    instrs.extend(self.node(node).into_iter().map(|a| instr(a, stream, loc, phase)));
                }
            }
        }
        let copies = self.placement.copies.iter().filter(|c| c.func as usize == self.f);
        for c in copies {
            let action = copy(self.placement.address(c.src), self.placement.address(c.dst), c.size_bytes);
            instrs.push(instr(action, COMPUTE, nowhere, Phase::Update));
        }
        instrs
    }

    fn at(&self, value: ValueId) -> Address {
        self.placement.address_of(self.f, value)
    }

    fn size_bytes(&self, value: ValueId) -> u64 {
        self.func.ty(value).size_bytes()
    }

    fn node(&mut self, node: &Node) -> Vec<(Action, Cost)> {
        let types = |values: &[ValueId]| values.iter().map(|&v| self.func.ty(v)).collect::<Vec<_>>();
        let cost = node.op.rules().cost(&types(&node.ins), &types(&node.outs));
        match (lowering(self.func, node), &node.op) {
            (Lowering::Launch(spec), Op::Launch(launch)) => vec![(self.launch(&spec, launch, node), cost)],
            (Lowering::Collective(kind, axis), _) => vec![(self.collective(kind, axis, node), cost)],
            (Lowering::Guard, Op::Guard(guard)) => {
                let names = guard.names.split(',').map(str::to_owned);
                let scalars = names.zip(node.ins.iter().map(|&v| self.at(v))).collect();
                vec![(Action::Guard { scalars }, cost)]
            }
            (Lowering::RankSlice(axis), _) => {
                let (src, dst) = (node.ins[0], node.outs[0]);
                let (src_bytes, size_bytes) = (self.size_bytes(src), self.size_bytes(dst));
                let (src, dst) = (self.at(src), self.at(dst));
                vec![(Action::RankSlice { axis, src, src_bytes, dst, size_bytes }, cost)]
            }
            (Lowering::Pad, _) => {
                let (src_bytes, dst_bytes) = (self.size_bytes(node.ins[0]), self.size_bytes(node.outs[0]));
                let (src, dst) = (self.at(node.ins[0]), self.at(node.outs[0]));
                let tail = Address { offset_bytes: dst.offset_bytes + src_bytes, ..dst };
                let mut actions = vec![copy(src, dst, src_bytes)];
                actions.extend((dst_bytes > src_bytes).then(|| zero(tail, dst_bytes - src_bytes)));
                actions
            }
            (other, op) => ice!("emit-plan: `{}` runs as {other:?}", op.rules().name()),
        }
    }

    fn collective(&self, kind: CollectiveKind, axis: AxisId, node: &Node) -> Action {
        let part = |(&src, &dst)| CollectivePart {
            src_len: self.func.ty(src).num_elements(),
            src: self.at(src),
            dst: self.at(dst),
        };
        let parts = node.ins.iter().zip(&node.outs).map(part).collect();
        Action::Collective { kind, axis, dtype: self.func.ty(node.ins[0]).dtype, parts }
    }

    fn launch(&mut self, spec: &KernelSpec, launch: &Launch, node: &Node) -> Action {
        let args: Vec<Address> = node.ins.iter().chain(&node.outs).map(|&v| self.at(v)).collect();
        let fixed = "a native kernel has a fixed number of operands";
        match spec {
            KernelSpec::Row(kernel) => {
                Action::Launch { kernel: self.kernels.index_of(kernel), args, domain: domain(kernel, launch) }
            }
            KernelSpec::Native(Native::Contract(spec)) => {
                let epilogue =
                    spec.epilogue.as_ref().map(|kernel| (self.kernels.index_of(kernel), args[2..].to_vec()));
                let c = if epilogue.is_none() { Some(args[2]) } else { None };
                Action::Contract { spec: spec.clone(), a: args[0], b: args[1], c, epilogue }
            }
            KernelSpec::Native(Native::Attention(spec)) => {
                Action::Attention { spec: spec.clone(), args: args.try_into().expect(fixed) }
            }
            KernelSpec::Native(Native::AttentionGrad(spec)) => {
                Action::AttentionGrad { spec: spec.clone(), args: args.try_into().expect(fixed) }
            }
            KernelSpec::Native(Native::ScatterAdd(spec)) => {
                Action::ScatterAdd { spec: spec.clone(), args: args.try_into().expect(fixed) }
            }
        }
    }
}

/// The domain, cut so that calls are many and do not depend on the number of threads.
fn domain(kernel: &RowKernel, launch: &Launch) -> Domain {
    match kernel.cols {
        Cols::Flat { chunk } => Domain::Flat { len: launch.len.expect("a flat kernel has a length"), chunk },
        Cols::Static(cols) => {
            let full = |access: &Access| matches!(access, Access::Full | Access::Gather { .. });
            let ins = kernel.inputs.iter().filter(|i| full(&i.access)).map(|i| i.dtype);
            let outs = kernel.outputs.iter().filter(|o| o.store == Store::Full).map(|o| o.dtype);
            let row_bytes: u64 = ins.chain(outs).map(|dtype| cols * dtype.size_bytes() as u64).sum();
            let grain = (GRAIN_BYTES / row_bytes.max(1)).clamp(1, launch.rows.max(1));
            Domain::Rows { rows: launch.rows, cols, grain: kernel.block_rows().unwrap_or(grain) }
        }
    }
}
