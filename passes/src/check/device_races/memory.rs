//! Bytes of the arena: who wrote them last, who has read them since; and what each stream knows of the others.

use super::intervals::{Intervals, Range};
use std::collections::BTreeMap;

/// A call: its stream, and its number there from 1. Number 0 is before everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct When {
    stream: usize,
    time: u64,
}

impl When {
    pub(super) const START: Self = Self { stream: 0, time: 0 };
}

/// What wrote: an instruction of the plan, in one run of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) part: u32,
    pub(super) instr: u32,
}

/// Per stream the last of its calls known to be finished.
type Clock = Vec<u64>;

/// Vector clocks.
#[derive(Debug)]
pub(super) struct Clocks {
    streams: Vec<Clock>,
    events: BTreeMap<u32, Clock>,
}

impl Clocks {
    pub(super) fn new(num_streams: usize) -> Self {
        Self { streams: vec![vec![0; num_streams]; num_streams], events: BTreeMap::new() }
    }

    pub(super) fn num_streams(&self) -> usize {
        self.streams.len()
    }

    /// The next call of a stream.
    pub(super) fn tick(&mut self, stream: usize) -> When {
        self.streams[stream][stream] += 1;
        When { stream, time: self.streams[stream][stream] }
    }

    pub(super) fn record(&mut self, stream: usize, event: u32) {
        self.events.insert(event, self.streams[stream].clone());
    }

    /// A wait for what nothing has recorded teaches nothing; that it is wrong is the capture check's.
    pub(super) fn wait(&mut self, stream: usize, event: u32) {
        let Some(marked) = self.events.get(&event) else { return };
        for (known, &marked) in self.streams[stream].iter_mut().zip(marked) {
            *known = (*known).max(marked);
        }
    }

    fn knows(&self, observer: When, other: When) -> bool {
        self.streams[observer.stream][other.stream] >= other.time
    }
}

/// What happened to bytes.
#[derive(Debug, Clone)]
struct History {
    written: When,
    writer: Writer,
    /// The last read of each stream.
    reads: Vec<When>,
}

/// Two accesses that are not ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// The write of another stream may still run.
    WriteInFlight,
    /// The read of another stream may still run.
    ReadInFlight,
}

impl Conflict {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::WriteInFlight => "touches bytes that another stream may still be writing",
            Self::ReadInFlight => "overwrites bytes that another stream may still be reading",
        }
    }
}

/// What a read sees.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) conflict: Option<Conflict>,
    /// Whether all bytes were written.
    pub(super) is_whole: bool,
    /// Who wrote them, each once in a row.
    pub(super) writers: Vec<Writer>,
}

/// The arena.
#[derive(Debug, Default)]
pub(super) struct Memory {
    bytes: Intervals<History>,
}

impl Memory {
    /// Reads bytes.
    pub(super) fn read(&mut self, range: Range, when: When, clocks: &Clocks) -> Seen {
        let (mut next, end) = range;
        let mut seen = Seen { conflict: None, is_whole: true, writers: Vec::new() };
        for ((start, end), history) in self.bytes.within(range) {
            seen.is_whole &= start == next;
            next = end;
            if !clocks.knows(when, history.written) {
                seen.conflict = Some(Conflict::WriteInFlight);
            }
            history.reads.retain(|read| read.stream != when.stream);
            history.reads.push(when);
            if seen.writers.last() != Some(&history.writer) {
                seen.writers.push(history.writer);
            }
        }
        seen.is_whole &= next >= end;
        seen
    }

    /// Writes bytes.
    pub(super) fn write(
        &mut self,
        range: Range,
        when: When,
        writer: Writer,
        clocks: &Clocks,
    ) -> Option<Conflict> {
        let mut conflict = None;
        for (_, history) in self.bytes.touching(range) {
            if !clocks.knows(when, history.written) {
                conflict = Some(Conflict::WriteInFlight);
            } else if history.reads.iter().any(|&read| !clocks.knows(when, read)) {
                conflict = Some(Conflict::ReadInFlight);
            }
        }
        self.bytes.set(range, History { written: when, writer, reads: Vec::new() });
        conflict
    }
}
