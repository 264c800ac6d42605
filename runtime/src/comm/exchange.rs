//! The data movement of collectives among ranks that see each other's memory.

use super::local::{Group, Part, Slot};
use crate::kernels::bf16;
use crate::pool::Pool;
use titan_ir::DType;
use titan_ir::kernel::ReduceKind;

/// Bytes one task copies or reduces.
const CHUNK_BYTES: usize = 1 << 18;

/// The data movement of one rank for one tensor of a collective.
pub(super) struct Exchange<'a> {
    pub(super) slots: &'a [Slot],
    pub(super) group: &'a Group,
    pub(super) dtype: DType,
    /// The tensor's place among the collective's.
    pub(super) index: usize,
    pub(super) part: Part,
    pub(super) pool: &'a Pool,
}

/// An address threads may share.
#[derive(Clone, Copy)]
struct Ptr(*mut u8);
// SAFETY: the exchange hands each task its own range of the destination.
unsafe impl Sync for Ptr {}

impl Exchange<'_> {
    /// What the rank at `position` shows.
    ///
    /// # Safety
    /// Between two meetings of the group.
    unsafe fn theirs(&self, position: usize) -> Part {
        // SAFETY: the caller's; every rank's call has as many parts.
        unsafe { self.slots[self.group.ranks[position] as usize].part(self.index) }
    }

    /// # Safety
    /// As for [`Exchange::theirs`].
    unsafe fn src(&self, position: usize) -> *mut u8 {
        // SAFETY: the caller's.
        unsafe { self.theirs(position).src }
    }

    fn num_ranks(&self) -> usize {
        self.group.num_ranks()
    }

    fn size_bytes(&self) -> usize {
        self.part.src_len * self.dtype.size_bytes()
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

    /// Every rank's source into the destination.
    ///
    /// # Safety
    /// As for [`Comm::run`](super::Comm::run), between two meetings of the group.
    pub(super) unsafe fn all_gather(&self) {
        let part_bytes = self.size_bytes();
        for position in 0..self.num_ranks() {
            // SAFETY: `dst` has a part per rank.
            unsafe { self.copy(self.src(position), self.part.dst.add(position * part_bytes), part_bytes) };
        }
    }

    /// This rank's part of every source.
    ///
    /// # Safety
    /// As for [`Comm::run`](super::Comm::run), between two meetings of the group.
    pub(super) unsafe fn all_to_all(&self) {
        let part_bytes = self.size_bytes() / self.num_ranks();
        for position in 0..self.num_ranks() {
            // SAFETY: every buffer has a part per rank.
            unsafe {
                let src = self.src(position).add(self.group.position * part_bytes);
                self.copy(src, self.part.dst.add(position * part_bytes), part_bytes);
            }
        }
    }

    /// This rank's part of the reduction.
    ///
    /// # Safety
    /// As for [`Comm::run`](super::Comm::run), between two meetings of the group.
    pub(super) unsafe fn reduce_scatter(&self, kind: ReduceKind) {
        let len = self.part.src_len / self.num_ranks();
        // SAFETY: `src` has a part per rank, `dst` is one part.
        unsafe { self.reduce(kind, self.group.position * len, len, self.part.dst) };
    }

    /// The elements of an all-reduce that the rank at `position` reduces.
    fn share(&self, position: usize) -> std::ops::Range<usize> {
        let share = self.part.src_len.div_ceil(self.num_ranks()).next_multiple_of(16);
        let start = (position * share).min(self.part.src_len);
        start..(start + share).min(self.part.src_len)
    }

    /// First half of an all-reduce: this rank's share.
    ///
    /// # Safety
    /// As for [`Comm::run`](super::Comm::run), between two meetings of the group.
    pub(super) unsafe fn reduce_own_share(&self, kind: ReduceKind) {
        let share = self.share(self.group.position);
        let offset_bytes = share.start * self.dtype.size_bytes();
        // SAFETY: the share is inside both buffers. In place, no peer reads or writes this share of this rank before the next meeting.
        unsafe { self.reduce(kind, share.start, share.len(), self.part.dst.add(offset_bytes)) };
    }

    /// Second half of an all-reduce: the others' shares.
    ///
    /// # Safety
    /// As for [`Comm::run`](super::Comm::run), between two meetings of the group.
    pub(super) unsafe fn collect_shares(&self) {
        for position in (0..self.num_ranks()).filter(|&p| p != self.group.position) {
            let (share, size) = (self.share(position), self.dtype.size_bytes());
            // SAFETY: between two meetings.
            let theirs = unsafe { self.theirs(position).dst };
            let at = share.start * size;
            // SAFETY: the share is inside both buffers and finished.
            unsafe { self.copy(theirs.add(at), self.part.dst.add(at), share.len() * size) };
        }
    }

    /// Reduces elements `first..first + len` of all ranks' sources into `dst`, in rank order.
    unsafe fn reduce(&self, kind: ReduceKind, first: usize, len: usize, dst: *mut u8) {
        let size = self.dtype.size_bytes();
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
                    load(self.dtype, self.src(0).add((first + block) * size), &mut sum[..n]);
                    for position in 1..self.num_ranks() {
                        load(self.dtype, self.src(position).add((first + block) * size), &mut next[..n]);
                        combine(kind, &mut sum[..n], &next[..n]);
                    }
                    store(self.dtype, dst.0.add(block * size), &sum[..n]);
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
