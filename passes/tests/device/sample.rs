//! A small plan on two ranks and a sound program for it.

use titan_ir::ascend::{
    Access, Arg, Call, DeviceKernels, Element, Part, Program, Region, Segment, Soc, Submission, Table,
    TableFill, TensorArg,
};
use titan_ir::kernel::{CollectiveKind, ReduceKind};
use titan_ir::plan::{self, Action, Address, Arena, CollectivePart, Instr, PlanTensor};
use titan_ir::{AxisId, DType, Init, Layout, Mesh, Phase, Plan, Role};
use titan_passes::check::{capture, device_races};
use titan_passes::emit_plan::KernelTable;

/// Bytes of every buffer.
pub(crate) const SIZE: u64 = 256;
pub(crate) const LEN: u64 = SIZE / 4;

/// Where the regions are.
pub(crate) const STATE: u64 = 0;
pub(crate) const STEP: u64 = 1024;
pub(crate) const TABLE: u64 = 2560;
pub(crate) const SCRATCH: u64 = 3072;
pub(crate) const SLOTS: u64 = 3584;
pub(crate) const WORKSPACE: u64 = 4096;

const fn at(arena: Arena, offset_bytes: u64) -> Address {
    Address { arena, offset_bytes }
}

fn instr(action: Action, stream: u8) -> Instr {
    Instr { action, stream, loc: u32::from(stream) + 1, phase: Phase::Forward, flops: 0, traffic_bytes: 0 }
}

/// Weights are copied, reduced over the ranks on stream 1, and taken back; then a guard.
pub(crate) fn plan() -> Plan {
    let copy = |src, dst| instr(Action::Copy { src, dst, size_bytes: SIZE }, 0);
    let reduce = Action::Collective {
        kind: CollectiveKind::AllReduce(ReduceKind::Sum),
        axis: AxisId::new(0),
        dtype: DType::F32,
        parts: vec![CollectivePart { src_len: LEN, src: at(Arena::Step, 0), dst: at(Arena::Step, SIZE) }],
    };
    let loss = at(Arena::Step, 2 * SIZE);
    let instrs = vec![
        copy(at(Arena::State, 0), at(Arena::Step, 0)),
        instr(Action::Record { event: 0 }, 0),
        instr(Action::Wait { event: 0 }, 1),
        instr(reduce, 1),
        instr(Action::Record { event: 1 }, 1),
        instr(Action::Wait { event: 1 }, 0),
        copy(at(Arena::Step, SIZE), at(Arena::State, SIZE)),
        instr(Action::Zero { dst: loss, size_bytes: 4 }, 0),
        instr(Action::Guard { scalars: vec![("loss".to_owned(), loss)] }, 0),
    ];
    let weight = PlanTensor {
        name: "weight".to_owned(),
        role: Some(Role::Param),
        dtype: DType::F32,
        global_dims: [LEN].into_iter().collect(),
        local_dims: [LEN].into_iter().collect(),
        layout: Layout::default(),
        init: Init::Zeros,
        address: at(Arena::State, 0),
        size_bytes: SIZE,
    };
    Plan {
        mesh: Mesh::new(&[("dp_shard", 2)]),
        state_bytes: 2 * SIZE,
        step_bytes: 3 * SIZE,
        tensors: vec![weight],
        segments: vec![plan::Segment { name: "step".to_owned(), repeat: 2, instrs }],
        locs: ["", "layers.0", "layers.0.reduce"].map(str::to_owned).into(),
        num_events: 2,
        ..Plan::default()
    }
}

/// A cast of a whole buffer.
pub(crate) fn cast(from: u64, to: u64) -> Call {
    let tensor = |at, access| Arg::Tensor(TensorArg::contiguous(Element::F32, &[LEN], at, access));
    let args = vec![tensor(from, Access::Read), Arg::Type(Element::F32), tensor(to, Access::Write)];
    Call::Operator { name: "aclnnCast".to_owned(), args }
}

/// The submissions of the sample by what they are.
pub(crate) const CAST_IN: usize = 0;
pub(crate) const CAST_OUT: usize = 1;
pub(crate) const FORK: usize = 2;
pub(crate) const FORK_WAIT: usize = 3;
pub(crate) const REDUCE: usize = 4;
pub(crate) const JOIN: usize = 5;
pub(crate) const JOIN_WAIT: usize = 6;
pub(crate) const TAKE: usize = 7;
pub(crate) const ZERO: usize = 8;

pub(crate) fn program() -> Program {
    let submit = |call, stream, source| Submission { call, stream, source };
    let reduce = Call::Collective {
        kind: CollectiveKind::AllReduce(ReduceKind::Sum),
        axis: AxisId::new(0),
        element: Element::F32,
        src_len: LEN,
        src: STEP,
        dst: STEP + SIZE,
    };
    let submissions = vec![
        submit(cast(STATE, SCRATCH), 0, 0),
        submit(cast(SCRATCH, STEP), 0, 0),
        submit(Call::Record { event: 0 }, 0, 1),
        submit(Call::Wait { event: 0 }, 1, 2),
        submit(reduce, 1, 3),
        submit(Call::Record { event: 1 }, 1, 4),
        submit(Call::Wait { event: 1 }, 0, 5),
        submit(Call::Copy { src: STEP + SIZE, dst: STATE + SIZE, size_bytes: SIZE }, 0, 6),
        submit(Call::Zero { dst: STEP + 2 * SIZE, size_bytes: 4 }, 0, 7),
    ];
    let part = Part { submissions, guard: vec![("loss".to_owned(), STEP + 2 * SIZE)] };
    let region = |at, size_bytes| Region { at, size_bytes };
    Program {
        arena_bytes: 8192,
        state: region(STATE, 2 * SIZE),
        step: region(STEP, 3 * SIZE),
        tables: vec![Table { at: TABLE, fill: TableFill::Iota { len: LEN } }],
        scratch: region(SCRATCH, SIZE),
        workspaces: vec![region(WORKSPACE, 1024), region(WORKSPACE + 2048, 1024)],
        segments: vec![Segment { name: "step".to_owned(), repeat: 2, parts: vec![part] }],
        num_streams: 2,
        num_events: 2,
        comm_axes: vec![AxisId::new(0)],
        ..Program::default()
    }
}

/// The only part.
pub(crate) fn calls(program: &mut Program) -> &mut Vec<Submission> {
    &mut program.segments[0].parts[0].submissions
}

pub(crate) fn soc(name: &str) -> &'static Soc {
    Soc::of_name(name).unwrap()
}

/// Codes the capture check finds.
pub(crate) fn captured(program: &Program) -> Vec<&'static str> {
    let found = capture::check(&plan(), program, soc("Ascend910B3"));
    found.err().map_or(Vec::new(), |diags| diags.0.iter().map(|d| d.code).collect())
}

/// Codes the race check finds.
pub(crate) fn raced(program: &Program) -> Vec<&'static str> {
    let found = device_races::check(&plan(), program, &DeviceKernels::default(), &KernelTable::default());
    found.err().map_or(Vec::new(), |diags| diags.0.iter().map(|d| d.code).collect())
}
