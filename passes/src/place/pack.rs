//! Offsets for buffers with known lifetimes: dynamic storage allocation.
//!
//! Three heuristics, of which the best result counts: buffers in the order of their first use, each into the smallest free
//! gap that holds it; and, while their number allows it, buffers by falling size, and by falling size times lifetime, each at the
//! lowest offset that is free over its lifetime. Source: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020 (greedy by size).

use std::collections::{BTreeMap, BTreeSet};

/// More buffers than this are not placed by falling size, by falling size times lifetime: the time is quadratic.
const MAX_BY_SIZE: [usize; 2] = [20_000, 8_000];

/// A buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    /// First entry that uses it.
    pub(super) start: u32,
    /// Last entry that uses it, at least `start`.
    pub(super) end: u32,
    /// Bytes, aligned.
    pub(super) size_bytes: u64,
}

/// Offsets and sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packed {
    /// One per buffer.
    pub(super) offsets: Vec<u64>,
    /// End of the highest buffer.
    pub(super) peak_bytes: u64,
    /// Most bytes in use at once.
    pub(super) lower_bound_bytes: u64,
}

/// Places buffers so that those in use at the same time do not overlap.
pub(super) fn pack(items: &[Item]) -> Packed {
    let mut best = by_time(items);
    let lower_bound_bytes = lower_bound(items);
    let keys: [fn(&Item) -> u64; 2] =
        [|i| i.size_bytes, |i| i.size_bytes.saturating_mul(u64::from(i.end - i.start) + 1)];
    for (key, max) in keys.into_iter().zip(MAX_BY_SIZE) {
        if items.len() <= max && peak(items, &best) > lower_bound_bytes {
            let offsets = by_key(items, key);
            if peak(items, &offsets) < peak(items, &best) {
                best = offsets;
            }
        }
    }
    Packed { peak_bytes: peak(items, &best), offsets: best, lower_bound_bytes }
}

fn peak(items: &[Item], offsets: &[u64]) -> u64 {
    items.iter().zip(offsets).map(|(i, o)| o + i.size_bytes).max().unwrap_or(0)
}

/// Most bytes in use at one entry.
pub(super) fn lower_bound(items: &[Item]) -> u64 {
    let mut changes: Vec<(u32, bool, u64)> = items
        .iter()
        .flat_map(|i| [(i.start, true, i.size_bytes), (i.end + 1, false, i.size_bytes)])
        .collect();
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, starts, size_bytes) in changes {
        now = if starts { now + size_bytes } else { now - size_bytes };
        most = most.max(now);
    }
    most
}

/// Free gaps below the top, by offset and by size.
#[derive(Debug, Default)]
struct Gaps {
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    top: u64,
}

impl Gaps {
    fn take(&mut self, size_bytes: u64) -> u64 {
        if let Some(&(size, offset)) = self.by_size.range((size_bytes, 0)..).next() {
            self.remove(offset, size);
            if size > size_bytes {
                self.insert(offset + size_bytes, size - size_bytes);
            }
            return offset;
        }
        // The gap that ends at the top, if any, grows.
        let last = self.by_offset.last_key_value().map(|(&o, &s)| (o, s)).filter(|(o, s)| o + s == self.top);
        let offset = last.map_or(self.top, |(offset, size)| {
            self.remove(offset, size);
            offset
        });
        self.top = offset + size_bytes;
        offset
    }

    fn give(&mut self, mut offset: u64, mut size_bytes: u64) {
        if let Some((&before, &size)) = self.by_offset.range(..offset).next_back()
            && before + size == offset
        {
            self.remove(before, size);
            (offset, size_bytes) = (before, size_bytes + size);
        }
        if let Some(&size) = self.by_offset.get(&(offset + size_bytes)) {
            self.remove(offset + size_bytes, size);
            size_bytes += size;
        }
        self.insert(offset, size_bytes);
    }

    fn insert(&mut self, offset: u64, size_bytes: u64) {
        self.by_offset.insert(offset, size_bytes);
        self.by_size.insert((size_bytes, offset));
    }

    fn remove(&mut self, offset: u64, size_bytes: u64) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(size_bytes, offset));
    }
}

/// In the order of first use, the largest first; best fit.
fn by_time(items: &[Item]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&i| (items[i].start, std::cmp::Reverse(items[i].size_bytes), i));
    let mut offsets = vec![0; items.len()];
    let mut gaps = Gaps::default();
    let mut ends: BTreeSet<(u32, usize)> = BTreeSet::new();
    for i in order {
        while let Some(&(end, dead)) = ends.first()
            && end < items[i].start
        {
            ends.pop_first();
            gaps.give(offsets[dead], items[dead].size_bytes);
        }
        offsets[i] = gaps.take(items[i].size_bytes);
        ends.insert((items[i].end, i));
    }
    offsets
}

/// By falling key, each at the lowest free offset.
fn by_key(items: &[Item], key: fn(&Item) -> u64) -> Vec<u64> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(key(&items[i])), items[i].start, i));
    let mut offsets = vec![0; items.len()];
    // Placed buffers by offset.
    let mut placed: Vec<(u64, u64, u32, u32)> = Vec::with_capacity(items.len());
    for i in order {
        let item = items[i];
        let mut offset = 0;
        for &(from, to, start, end) in &placed {
            if start <= item.end && item.start <= end {
                if offset + item.size_bytes <= from {
                    break;
                }
                offset = offset.max(to);
            }
        }
        offsets[i] = offset;
        let at = placed.partition_point(|p| p.0 < offset);
        placed.insert(at, (offset, offset + item.size_bytes, item.start, item.end));
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(items: &[Item], packed: &Packed) {
        for (i, a) in items.iter().enumerate() {
            assert!(packed.offsets[i] + a.size_bytes <= packed.peak_bytes);
            for (j, b) in items.iter().enumerate().skip(i + 1) {
                let together = a.start <= b.end && b.start <= a.end;
                let (x, y) = (packed.offsets[i], packed.offsets[j]);
                assert!(!together || x + a.size_bytes <= y || y + b.size_bytes <= x, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn chain_needs_two_buffers() {
        let items: Vec<Item> = (0..10).map(|i| Item { start: i, end: i + 1, size_bytes: 64 }).collect();
        let packed = pack(&items);
        check(&items, &packed);
        assert_eq!((packed.peak_bytes, packed.lower_bound_bytes), (128, 128));
    }

    #[test]
    fn random_buffers_never_overlap() {
        let mut seed = 1u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..50 {
            let items: Vec<Item> = (0..60)
                .map(|_| {
                    let start = next(100) as u32;
                    Item { start, end: start + next(20) as u32, size_bytes: 64 * (1 + next(50)) }
                })
                .collect();
            let packed = pack(&items);
            check(&items, &packed);
            let by_time = by_time(&items);
            let peak_bytes = peak(&items, &by_time);
            check(&items, &Packed { offsets: by_time, peak_bytes, lower_bound_bytes: 0 });
            assert!(packed.peak_bytes >= packed.lower_bound_bytes && packed.peak_bytes <= peak_bytes);
        }
    }
}
