//! Disjoint ranges of bytes, each with a value.

use std::collections::BTreeMap;

/// First byte and the one after the last.
pub(super) type Range = (u64, u64);

/// By the first byte: the byte after the last, and the value.
#[derive(Debug)]
pub(super) struct Intervals<T> {
    map: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self { map: BTreeMap::new() }
    }
}

impl<T: Clone> Intervals<T> {
    /// Ranges that share a byte with this one, in order.
    pub(super) fn touching(&self, (at, end): Range) -> impl Iterator<Item = (Range, &T)> {
        let before = self.map.range(..at).next_back().filter(|(_, (its_end, _))| *its_end > at);
        before.into_iter().chain(self.map.range(at..end)).map(|(&start, (end, value))| ((start, *end), value))
    }

    /// Those within this one, in order, once none crosses its ends.
    pub(super) fn within(&mut self, (at, end): Range) -> impl Iterator<Item = (Range, &mut T)> {
        self.cut(at);
        self.cut(end);
        self.map.range_mut(at..end).map(|(&start, (end, value))| ((start, *end), value))
    }

    /// Gives all of a range a value.
    pub(super) fn set(&mut self, (at, end): Range, value: T) {
        let inside: Vec<u64> = self.within((at, end)).map(|((start, _), _)| start).collect();
        inside.iter().for_each(|start| drop(self.map.remove(start)));
        if at < end {
            self.map.insert(at, (end, value));
        }
    }

    fn cut(&mut self, at: u64) {
        let Some((_, (end, value))) = self.map.range_mut(..at).next_back() else { return };
        if *end > at {
            let rest = (*end, value.clone());
            *end = at;
            self.map.insert(at, rest);
        }
    }
}
