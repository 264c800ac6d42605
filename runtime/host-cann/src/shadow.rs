//! Who read and wrote every byte last, and whether the next access is ordered after it.

use crate::clock::Clock;
use crate::span::Span;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One access in the past: a moment of a component, and what to call it.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// Component of the clock.
    pub(crate) component: u32,
    /// Its moment.
    pub(crate) time: u64,
    /// The task and where it ran.
    pub(crate) name: Arc<str>,
}

/// The history of bytes that share it.
#[derive(Debug, Clone)]
struct Cell {
    end: usize,
    write: Option<Access>,
    /// Reads since that write that are not ordered among each other.
    reads: Vec<Access>,
}

/// Two accesses, one of them a write, that nothing orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Race {
    /// The one seen first.
    first: String,
    first_writes: bool,
    second: String,
    second_writes: bool,
    /// Bytes in both.
    span: Span,
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = |writes: bool| if writes { "writes" } else { "reads" };
        write!(
            f,
            "race: {} {} and {} {} the bytes {}, and no event or synchronisation orders them",
            self.first,
            verb(self.first_writes),
            self.second,
            verb(self.second_writes),
            self.span
        )
    }
}

/// The history of all memory, by address.
#[derive(Debug, Default)]
pub(crate) struct Shadow(BTreeMap<usize, Cell>);

impl Shadow {
    /// No history.
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds an access to `reads` and `writes` that happens at `access` and knows of `clock`.
    ///
    /// # Errors
    /// A past access that `clock` does not cover.
    pub(crate) fn access(
        &mut self,
        reads: &[Span],
        writes: &[Span],
        access: &Access,
        clock: &Clock,
    ) -> Result<(), Race> {
        let spans = || reads.iter().map(|s| (*s, false)).chain(writes.iter().map(|s| (*s, true)));
        for (span, writes) in spans().filter(|(span, _)| span.len > 0) {
            self.check(span, writes, access, clock)?;
        }
        for (span, writes) in spans().filter(|(span, _)| span.len > 0) {
            if writes { self.write(span, access) } else { self.read(span, access, clock) }
        }
        Ok(())
    }

    /// Forgets the history of `span`: it is new memory, or none.
    pub(crate) fn forget(&mut self, span: Span) {
        self.split(span.start);
        self.split(span.end());
        let starts: Vec<usize> = self.0.range(span.start..span.end()).map(|(start, _)| *start).collect();
        for start in starts {
            self.0.remove(&start);
        }
    }

    /// Starts of the cells that overlap `span`.
    fn overlapping(&self, span: Span) -> impl Iterator<Item = (usize, &Cell)> {
        let before = self.0.range(..span.start).next_back().filter(|(_, cell)| cell.end > span.start);
        let from = before.map_or(span.start, |(start, _)| *start);
        self.0.range(from..span.end()).map(|(start, cell)| (*start, cell))
    }

    fn check(&self, span: Span, writes: bool, access: &Access, clock: &Clock) -> Result<(), Race> {
        let unordered = |past: &&Access| past.time > clock.get(past.component);
        for (start, cell) in self.overlapping(span) {
            let write = cell.write.iter().find(unordered).map(|past| (past, true));
            let read = || cell.reads.iter().find(unordered).filter(|_| writes).map(|past| (past, false));
            if let Some((past, first_writes)) = write.or_else(read) {
                let from = start.max(span.start);
                return Err(Race {
                    first: past.name.to_string(),
                    first_writes,
                    second: access.name.to_string(),
                    second_writes: writes,
                    span: Span { start: from, len: cell.end.min(span.end()) - from },
                });
            }
        }
        Ok(())
    }

    fn write(&mut self, span: Span, access: &Access) {
        self.forget(span);
        let cell = Cell { end: span.end(), write: Some(access.clone()), reads: Vec::new() };
        self.0.insert(span.start, cell);
    }

    fn read(&mut self, span: Span, access: &Access, clock: &Clock) {
        self.split(span.start);
        self.split(span.end());
        let mut gaps = Vec::new();
        let mut at = span.start;
        for (start, cell) in self.0.range_mut(span.start..span.end()) {
            if at < *start {
                gaps.push((at, *start));
            }
            at = cell.end;
            // A read that is past for this one says nothing that this one does not.
            cell.reads.retain(|past| past.time > clock.get(past.component));
            cell.reads.push(access.clone());
        }
        if at < span.end() {
            gaps.push((at, span.end()));
        }
        for (start, end) in gaps {
            self.0.insert(start, Cell { end, write: None, reads: vec![access.clone()] });
        }
    }

    /// Makes `at` a border between cells.
    fn split(&mut self, at: usize) {
        if let Some((_, cell)) = self.0.range_mut(..at).next_back().filter(|(_, cell)| cell.end > at) {
            let rest = cell.clone();
            cell.end = at;
            self.0.insert(at, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(component: u32, clock: &mut Clock) -> Access {
        Access { component, time: clock.tick(component), name: format!("task {component}").into() }
    }

    fn span(start: usize, end: usize) -> Span {
        Span { start, len: end - start }
    }

    #[test]
    fn only_unordered_accesses_with_a_write_race() {
        let mut shadow = Shadow::default();
        let (mut one, mut two) = (Clock::default(), Clock::default());
        let write = at(1, &mut one);
        shadow.access(&[], &[span(0, 100)], &write, &one).unwrap();
        let read = at(2, &mut two);
        let race = shadow.access(&[span(50, 150)], &[], &read, &two).unwrap_err().to_string();
        assert_eq!(
            race,
            "race: task 1 writes and task 2 reads the bytes 0x32+50, and no event or synchronisation orders them"
        );
        shadow.access(&[span(100, 150)], &[], &read, &two).unwrap();
        two.join(&one);
        let read = at(2, &mut two);
        shadow.access(&[span(50, 150)], &[], &read, &two).unwrap();
        let read = at(1, &mut one);
        shadow.access(&[span(0, 100)], &[], &read, &one).unwrap();
        let write = at(1, &mut one);
        let race = shadow.access(&[], &[span(99, 101)], &write, &one).unwrap_err();
        assert!(!race.first_writes && race.span == span(99, 100), "{race}");
        shadow.access(&[], &[span(0, 50)], &write, &one).unwrap();
        shadow.forget(span(0, 150));
        shadow.access(&[], &[span(0, 150)], &at(3, &mut Clock::default()), &Clock::default()).unwrap();
    }

    #[test]
    fn agrees_with_a_history_of_every_byte() {
        let mut random = crate::random::Random::new(7);
        let mut shadow = Shadow::default();
        let mut history: Vec<Vec<(bool, u32, u64)>> = vec![Vec::new(); 40];
        let mut clocks = vec![Clock::default(); 3];
        for _ in 0..4000 {
            let who = random.below(3) as usize;
            if random.below(4) == 0 {
                let other = clocks[random.below(3) as usize].clone();
                clocks[who].join(&other);
                continue;
            }
            let start = random.below(36) as usize;
            let span = span(start, start + 1 + random.below(4) as usize);
            let writes = random.below(2) == 0;
            let access = at(who as u32, &mut clocks[who]);
            let races =
                history[span.start..span.end()].iter().flatten().any(|&(past_writes, component, time)| {
                    (writes || past_writes) && time > clocks[who].get(component)
                });
            let spans = [span];
            let (reads, written): (&[Span], &[Span]) = if writes { (&[], &spans) } else { (&spans, &[]) };
            let found = shadow.access(reads, written, &access, &clocks[who]).is_err();
            assert_eq!(found, races, "{span} by {who}");
            if !races {
                for byte in &mut history[span.start..span.end()] {
                    byte.push((writes, access.component, access.time));
                }
            }
        }
    }
}
