//! Ranks as threads of one process: collectives read the peers' memory directly.
//!
//! Every reduction adds in rank order, so results depend on nothing but the values.

use super::exchange::Exchange;
use super::meeting::Meeting;
use crate::pool::Pool;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use titan_ir::kernel::CollectiveKind;
use titan_ir::{AxisId, DType, Mesh};

/// A rank has failed, so this one stops too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// All ranks of a run.
#[derive(Debug)]
pub struct World {
    mesh: Mesh,
    slots: Vec<Slot>,
    /// Per axis, per group: where its ranks meet.
    meetings: Vec<Vec<Meeting>>,
    everyone: Meeting,
    stopped: AtomicBool,
}

/// What a rank shows its peers during a collective.
#[derive(Debug, Default)]
pub(super) struct Slot {
    parts: AtomicPtr<Part>,
}

impl Slot {
    /// Part `index` of the rank's call.
    ///
    /// # Safety
    /// Between two meetings of a collective whose calls have more than `index` parts.
    pub(super) unsafe fn part(&self, index: usize) -> Part {
        // SAFETY: the rank's parts live until the meeting that ends the collective.
        unsafe { self.parts.load(Ordering::Relaxed).add(index).read() }
    }
}

impl World {
    /// The ranks of a mesh.
    pub fn new(mesh: &Mesh) -> Arc<Self> {
        let num_ranks = mesh.num_ranks();
        let meetings = (0..mesh.axes.len()).map(|axis| {
            let size = mesh.size(AxisId::new(axis));
            (0..num_ranks / size).map(|_| Meeting::new(size as usize)).collect()
        });
        Arc::new(Self {
            slots: (0..num_ranks).map(|_| Slot::default()).collect(),
            meetings: meetings.collect(),
            everyone: Meeting::new(num_ranks as usize),
            stopped: AtomicBool::new(false),
            mesh: mesh.clone(),
        })
    }

    /// Makes every rank that waits, or will wait, give up.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.meetings.iter().flatten().chain([&self.everyone]).for_each(Meeting::wake);
    }

    /// The number of a rank's group among the groups along an axis.
    fn group_index(&self, rank: u64, axis: AxisId) -> usize {
        let (stride, size) = (self.mesh.stride(axis), self.mesh.size(axis));
        (rank / (stride * size) * stride + rank % stride) as usize
    }
}

/// One rank's view of the world.
#[derive(Debug, Clone)]
pub struct Comm {
    world: Arc<World>,
    /// The rank.
    pub rank: u64,
    groups: Vec<Group>,
}

/// The ranks a collective spans.
#[derive(Debug, Clone)]
pub struct Group {
    pub(super) ranks: Vec<u64>,
    /// This rank's place among them.
    pub position: usize,
    axis: usize,
    index: usize,
}

impl Group {
    /// Ranks of the group.
    pub fn num_ranks(&self) -> usize {
        self.ranks.len()
    }
}

/// One collective: one or more tensors of one type that go the same way.
#[derive(Debug, Clone)]
pub struct Call {
    /// Which.
    pub kind: CollectiveKind,
    /// Element type.
    pub dtype: DType,
    /// The tensors.
    pub parts: Box<[Part]>,
}

/// One tensor of a collective: how much every rank gives, and where.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Elements every rank gives.
    pub src_len: usize,
    /// What this rank gives.
    pub src: *mut u8,
    /// What this rank gets.
    pub dst: *mut u8,
}

// SAFETY: plain addresses; the exchange hands each task its own range of the destination.
unsafe impl Sync for Part {}
// SAFETY: as above.
unsafe impl Send for Part {}

impl Comm {
    /// Rank `rank` of `world`.
    pub fn new(world: &Arc<World>, rank: u64) -> Self {
        let group = |axis: usize| {
            let id = AxisId::new(axis);
            Group {
                ranks: world.mesh.group(rank, id),
                position: world.mesh.coordinate(rank, id) as usize,
                axis,
                index: world.group_index(rank, id),
            }
        };
        Self { world: Arc::clone(world), rank, groups: (0..world.mesh.axes.len()).map(group).collect() }
    }

    /// The group of this rank along an axis.
    pub fn group(&self, axis: AxisId) -> &Group {
        &self.groups[axis.index()]
    }

    /// Waits for all ranks of the run.
    ///
    /// # Errors
    /// When a rank has failed.
    pub fn barrier(&self) -> Result<(), Stopped> {
        self.world.everyone.wait(&self.world.stopped)
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// When a rank has failed.
    pub fn check(&self) -> Result<(), Stopped> {
        if self.world.stopped.load(Ordering::SeqCst) { Err(Stopped) } else { Ok(()) }
    }

    /// Tells every rank to give up.
    pub fn stop(&self) {
        self.world.stop();
    }

    /// Runs a collective along `axis`. Every rank of the group calls it with the same kind, type, and lengths of parts.
    ///
    /// # Errors
    /// When a rank has failed.
    ///
    /// # Safety
    /// The `src` and `dst` of every part are as large as the kind says and belong to this rank until the call returns. They may be equal for an
    /// all-reduce, and for an all-gather `src` may be this rank's part of `dst`; else they do not overlap.
    pub unsafe fn run(&self, axis: AxisId, call: &Call, pool: &Pool) -> Result<(), Stopped> {
        let group = self.group(axis);
        let meeting = &self.world.meetings[group.axis][group.index];
        let parts = call.parts.as_ptr().cast_mut();
        self.world.slots[self.rank as usize].parts.store(parts, Ordering::Relaxed);
        meeting.wait(&self.world.stopped)?;
        let exchanges = || {
            let exchange = |(index, &part)| Exchange {
                slots: &self.world.slots,
                group,
                dtype: call.dtype,
                index,
                part,
                pool,
            };
            call.parts.iter().enumerate().map(exchange)
        };
        // SAFETY: all ranks have shown their buffers and none returns before all have read them.
        unsafe {
            match call.kind {
                CollectiveKind::AllGather => exchanges().for_each(|e| e.all_gather()),
                CollectiveKind::AllToAll => exchanges().for_each(|e| e.all_to_all()),
                CollectiveKind::ReduceScatter(kind) => exchanges().for_each(|e| e.reduce_scatter(kind)),
                CollectiveKind::AllReduce(kind) => {
                    exchanges().for_each(|e| e.reduce_own_share(kind));
                    meeting.wait(&self.world.stopped)?;
                    exchanges().for_each(|e| e.collect_shares());
                }
            }
        }
        meeting.wait(&self.world.stopped)
    }
}
