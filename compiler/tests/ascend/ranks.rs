//! Executes a program on all ranks of a mesh. Streams run beside each other: the order is the latest, or the earliest, that events allow.

use crate::machine;
use crate::memory::Memory;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use titan_ir::ascend::{Access, Call, DeviceKernels, Element, Program, Soc, Submission, TensorArg};
use titan_ir::kernel::{CollectiveKind, ReduceKind};
use titan_ir::{AxisId, Mesh};

/// When communication runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// When stream 0 waits for it.
    Late,
    /// As soon as it may.
    Early,
}

/// The submissions of a part in an order in which a device could run them.
fn ordered(submissions: &[Submission], order: Order) -> Vec<&Submission> {
    let mut queues: BTreeMap<u8, VecDeque<&Submission>> = BTreeMap::new();
    submissions.iter().for_each(|s| queues.entry(s.stream).or_default().push_back(s));
    let mut recorded = BTreeSet::new();
    let mut ran = Vec::new();
    while ran.len() < submissions.len() {
        let ready = |queue: &VecDeque<&Submission>| match queue.front().map(|s| &s.call) {
            Some(Call::Wait { event }) => recorded.contains(event),
            Some(_) => true,
            None => false,
        };
        let mut streams = queues.iter().filter(|(_, queue)| ready(queue)).map(|(&stream, _)| stream);
        let stream = if order == Order::Late { streams.next() } else { streams.next_back() };
        let stream = stream.expect("a stream waits for an event that is never recorded");
        let submission = queues.get_mut(&stream).unwrap().pop_front().unwrap();
        if let Call::Record { event } = submission.call {
            assert!(recorded.insert(event), "event {event} is recorded twice");
        }
        ran.push(submission);
    }
    ran
}

/// Runs a program once; one memory per rank.
pub(crate) fn run(
    program: &Program,
    kernels: &DeviceKernels,
    soc: &Soc,
    mesh: &Mesh,
    order: Order,
    memories: &mut [Memory],
) {
    for memory in memories.iter_mut() {
        program.tables.iter().for_each(|table| machine::fill(memory, table.at, &table.fill));
    }
    for segment in &program.segments {
        for _ in 0..segment.repeat {
            for part in &segment.parts {
                for submission in ordered(&part.submissions, order) {
                    call(&submission.call, kernels, soc, mesh, memories);
                }
                for ((name, at), memory) in
                    part.guard.iter().flat_map(|g| memories.iter().map(move |m| (g, m)))
                {
                    let value = memory.read(&f32_view(*at, 1))[0];
                    assert!(value.is_finite(), "{name} is {value}");
                }
            }
        }
    }
}

fn f32_view(at: u64, len: u64) -> TensorArg {
    TensorArg::contiguous(Element::F32, &[len], at, Access::Read)
}

fn call(call: &Call, kernels: &DeviceKernels, soc: &Soc, mesh: &Mesh, memories: &mut [Memory]) {
    match call {
        Call::Collective { kind, axis, element, src_len, src, dst } => {
            let view = |at, len| TensorArg::contiguous(*element, &[len], at, Access::Update);
            let given: Vec<Vec<f64>> = memories.iter().map(|m| m.read(&view(*src, *src_len))).collect();
            for (rank, memory) in (0..).zip(memories) {
                let got = collective(*kind, *axis, mesh, rank, &given);
                memory.write(&view(*dst, got.len() as u64), &got);
            }
        }
        Call::RankSlice { axis, src, src_bytes, dst, size_bytes } => {
            for (rank, memory) in (0..).zip(memories) {
                let first = mesh.coordinate(rank, *axis) * size_bytes;
                let byte = |i: u64| if i < *src_bytes { memory.bytes[(src + i) as usize] } else { 0 };
                let slice: Vec<u8> = (first..first + size_bytes).map(byte).collect();
                memory.bytes[*dst as usize..(dst + size_bytes) as usize].copy_from_slice(&slice);
            }
        }
        call => memories.iter_mut().for_each(|memory| machine::call(call, kernels, soc, memory)),
    }
}

/// What a rank gets.
fn collective(kind: CollectiveKind, axis: AxisId, mesh: &Mesh, rank: u64, given: &[Vec<f64>]) -> Vec<f64> {
    let group = mesh.group(rank, axis);
    let place = mesh.coordinate(rank, axis) as usize;
    let part = |data: &[f64], at: usize| {
        let len = data.len() / group.len();
        data[at * len..][..len].to_vec()
    };
    let reduced = |reduce: ReduceKind| {
        let first = given[group[0] as usize].clone();
        group[1..].iter().fold(first, |sum, &rank| {
            let f = |(a, b): (&f64, &f64)| if reduce == ReduceKind::Sum { a + b } else { a.max(*b) };
            sum.iter().zip(&given[rank as usize]).map(f).collect()
        })
    };
    match kind {
        CollectiveKind::AllGather => group.iter().flat_map(|&rank| given[rank as usize].clone()).collect(),
        CollectiveKind::AllReduce(reduce) => reduced(reduce),
        CollectiveKind::ReduceScatter(reduce) => part(&reduced(reduce), place),
        CollectiveKind::AllToAll => {
            group.iter().flat_map(|&from| part(&given[from as usize], place)).collect()
        }
    }
}
