//! Ranks as threads of one process: collectives read the peers' memory directly.
//!
//! Every reduction adds in rank order, so results depend on nothing but the values.

use crate::kernels::bf16;
use crate::pool::Pool;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use titan_ir::kernel::{CollectiveKind, ReduceKind};
use titan_ir::{AxisId, DType, Mesh};

/// A rank has failed, so this one stops too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// Bytes one task copies or reduces.
const CHUNK_BYTES: usize = 1 << 18;

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
struct Slot {
    src: AtomicPtr<u8>,
    dst: AtomicPtr<u8>,
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

    /// Whether a rank has called [`World::stop`].
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
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
    ranks: Vec<u64>,
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

/// One collective: how much every rank gives, and where.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Which.
    pub kind: CollectiveKind,
    /// Element type.
    pub dtype: DType,
    /// Elements every rank gives.
    pub src_len: usize,
    /// What this rank gives.
    pub src: *mut u8,
    /// What this rank gets.
    pub dst: *mut u8,
}

// SAFETY: plain addresses; the exchange hands each task its own range of the destination.
unsafe impl Sync for Call {}
// SAFETY: as above.
unsafe impl Send for Call {}

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

    /// Tells every rank to give up.
    pub fn stop(&self) {
        self.world.stop();
    }

    /// Whether a rank has failed.
    pub fn is_stopped(&self) -> bool {
        self.world.is_stopped()
    }

    /// Runs a collective along `axis`. Every rank of the group calls it with the same kind, type and length.
    ///
    /// # Errors
    /// When a rank has failed.
    ///
    /// # Safety
    /// `src` and `dst` are as large as the kind says and belong to this rank until the call returns. They may be equal for an all-reduce, and for
    /// an all-gather `src` may be this rank's part of `dst`; else they do not overlap.
    pub unsafe fn run(&self, axis: AxisId, call: Call, pool: &Pool) -> Result<(), Stopped> {
        let group = self.group(axis);
        let meeting = &self.world.meetings[group.axis][group.index];
        let slot = &self.world.slots[self.rank as usize];
        slot.src.store(call.src, Ordering::Relaxed);
        slot.dst.store(call.dst, Ordering::Relaxed);
        meeting.wait(&self.world.stopped)?;
        let exchange = Exchange { slots: &self.world.slots, group, call, pool };
        // SAFETY: all ranks have shown their buffers and none returns before all have read them.
        unsafe {
            match call.kind {
                CollectiveKind::AllGather => exchange.all_gather(),
                CollectiveKind::AllToAll => exchange.all_to_all(),
                CollectiveKind::ReduceScatter(kind) => exchange.reduce_scatter(kind),
                CollectiveKind::AllReduce(kind) => {
                    exchange.reduce_own_share(kind);
                    meeting.wait(&self.world.stopped)?;
                    exchange.collect_shares();
                }
            }
        }
        meeting.wait(&self.world.stopped)
    }
}

/// The data movement of one rank in one collective.
struct Exchange<'a> {
    slots: &'a [Slot],
    group: &'a Group,
    call: Call,
    pool: &'a Pool,
}

/// An address threads may share.
#[derive(Clone, Copy)]
struct Ptr(*mut u8);
// SAFETY: the exchange hands each task its own range of the destination.
unsafe impl Sync for Ptr {}

impl Exchange<'_> {
    fn src(&self, position: usize) -> *mut u8 {
        self.slots[self.group.ranks[position] as usize].src.load(Ordering::Relaxed)
    }

    fn num_ranks(&self) -> usize {
        self.group.num_ranks()
    }

    fn size_bytes(&self) -> usize {
        self.call.src_len * self.call.dtype.size_bytes()
    }

    /// # Safety
    /// Both ranges are valid; they are equal or do not overlap.
    unsafe fn copy(&self, src: *const u8, dst: *mut u8, size_bytes: usize) {
        if src == dst {
            return;
        }
        let (src, dst) = (Ptr(src.cast_mut()), Ptr(dst));
        self.pool.run(size_bytes.div_ceil(CHUNK_BYTES), &move |task, _| {
            let (src, dst) = ({ src }, { dst });
            let start = task * CHUNK_BYTES;
            let len = CHUNK_BYTES.min(size_bytes - start);
            // SAFETY: chunk `task` of both ranges.
            unsafe { std::ptr::copy_nonoverlapping(src.0.add(start), dst.0.add(start), len) };
        });
    }

    unsafe fn all_gather(&self) {
        let part_bytes = self.size_bytes();
        for position in 0..self.num_ranks() {
            // SAFETY: `dst` has a part per rank.
            unsafe { self.copy(self.src(position), self.call.dst.add(position * part_bytes), part_bytes) };
        }
    }

    unsafe fn all_to_all(&self) {
        let part_bytes = self.size_bytes() / self.num_ranks();
        for position in 0..self.num_ranks() {
            // SAFETY: every buffer has a part per rank.
            unsafe {
                let src = self.src(position).add(self.group.position * part_bytes);
                self.copy(src, self.call.dst.add(position * part_bytes), part_bytes);
            }
        }
    }

    unsafe fn reduce_scatter(&self, kind: ReduceKind) {
        let len = self.call.src_len / self.num_ranks();
        // SAFETY: `src` has a part per rank, `dst` is one part.
        unsafe { self.reduce(kind, self.group.position * len, len, self.call.dst) };
    }

    /// The elements of an all-reduce that the rank at `position` reduces.
    fn share(&self, position: usize) -> std::ops::Range<usize> {
        let share = self.call.src_len.div_ceil(self.num_ranks()).next_multiple_of(16);
        let start = (position * share).min(self.call.src_len);
        start..(start + share).min(self.call.src_len)
    }

    unsafe fn reduce_own_share(&self, kind: ReduceKind) {
        let share = self.share(self.group.position);
        let offset_bytes = share.start * self.call.dtype.size_bytes();
        // SAFETY: the share is inside both buffers. In place, no peer reads or writes this share of this rank before the next meeting.
        unsafe { self.reduce(kind, share.start, share.len(), self.call.dst.add(offset_bytes)) };
    }

    unsafe fn collect_shares(&self) {
        for position in (0..self.num_ranks()).filter(|&p| p != self.group.position) {
            let (share, size) = (self.share(position), self.call.dtype.size_bytes());
            let theirs = self.slots[self.group.ranks[position] as usize].dst.load(Ordering::Relaxed);
            let at = share.start * size;
            // SAFETY: the share is inside both buffers and finished.
            unsafe { self.copy(theirs.add(at), self.call.dst.add(at), share.len() * size) };
        }
    }

    /// Reduces elements `first..first + len` of all ranks' sources into `dst`, in rank order.
    unsafe fn reduce(&self, kind: ReduceKind, first: usize, len: usize, dst: *mut u8) {
        let size = self.call.dtype.size_bytes();
        let chunk_len = CHUNK_BYTES / size;
        let dst = Ptr(dst);
        self.pool.run(len.div_ceil(chunk_len), &move |task, _| {
            let dst = { dst };
            let start = task * chunk_len;
            let n = chunk_len.min(len - start);
            for block in (start..start + n).step_by(BLOCK_LEN) {
                let n = BLOCK_LEN.min(start + n - block);
                let mut sum = [0.0; BLOCK_LEN];
                let mut next = [0.0; BLOCK_LEN];
                // SAFETY: part of chunk `task` of the destination and of every source.
                unsafe {
                    load(self.call.dtype, self.src(0).add((first + block) * size), &mut sum[..n]);
                    for position in 1..self.num_ranks() {
                        load(self.call.dtype, self.src(position).add((first + block) * size), &mut next[..n]);
                        combine(kind, &mut sum[..n], &next[..n]);
                    }
                    store(self.call.dtype, dst.0.add(block * size), &sum[..n]);
                }
            }
        });
    }
}

/// Elements reduced at once, in a buffer on the stack: in place, a source is the destination.
const BLOCK_LEN: usize = 1024;

fn combine(kind: ReduceKind, into: &mut [f32], other: &[f32]) {
    match kind {
        ReduceKind::Sum => into.iter_mut().zip(other).for_each(|(a, b)| *a += b),
        ReduceKind::Max => {
            into.iter_mut().zip(other).for_each(|(a, b)| *a = if a.is_nan() || *a > *b { *a } else { *b });
        }
    }
}

/// # Safety
/// `at` is aligned and has `to.len()` elements of the type.
unsafe fn load(dtype: DType, at: *const u8, to: &mut [f32]) {
    // SAFETY: the caller's.
    unsafe {
        match dtype {
            DType::F32 => to.copy_from_slice(std::slice::from_raw_parts(at.cast(), to.len())),
            DType::Bf16 => bf16::widen_slice(std::slice::from_raw_parts(at.cast(), to.len()), to),
            DType::I32 => {
                let from = std::slice::from_raw_parts(at.cast::<i32>(), to.len());
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as f32);
            }
        }
    }
}

/// # Safety
/// `at` is aligned and has room for `from.len()` elements of the type.
unsafe fn store(dtype: DType, at: *mut u8, from: &[f32]) {
    // SAFETY: the caller's.
    unsafe {
        match dtype {
            DType::F32 => std::slice::from_raw_parts_mut(at.cast(), from.len()).copy_from_slice(from),
            DType::Bf16 => bf16::round_slice(from, std::slice::from_raw_parts_mut(at.cast(), from.len())),
            DType::I32 => {
                let to = std::slice::from_raw_parts_mut(at.cast::<i32>(), from.len());
                to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as i32);
            }
        }
    }
}

/// A barrier that gives up when the world stops.
#[derive(Debug)]
struct Meeting {
    size: usize,
    state: Mutex<(usize, u64)>,
    changed: Condvar,
}

impl Meeting {
    fn new(size: usize) -> Self {
        Self { size, state: Mutex::new((0, 0)), changed: Condvar::new() }
    }

    fn wait(&self, stopped: &AtomicBool) -> Result<(), Stopped> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Those who gave up are still counted: nobody may meet them any more.
        if stopped.load(Ordering::SeqCst) {
            return Err(Stopped);
        }
        state.0 += 1;
        if state.0 == self.size {
            *state = (0, state.1 + 1);
            self.changed.notify_all();
            return Ok(());
        }
        let round = state.1;
        while state.1 == round {
            if stopped.load(Ordering::SeqCst) {
                return Err(Stopped);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn wake(&self) {
        let _guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }
}
