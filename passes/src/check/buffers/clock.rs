//! Vector clocks of streams.

use std::collections::BTreeMap;

/// Streams of a plan.
const NUM_STREAMS: usize = 2;

/// Per stream the last of its instructions known to be finished.
type Clock = [u64; NUM_STREAMS];

/// What each stream knows of the others.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    streams: [Clock; NUM_STREAMS],
    events: BTreeMap<u32, Clock>,
}

impl Clocks {
    /// Starts the next instruction of a stream and gives its time.
    pub(super) fn tick(&mut self, stream: u8) -> u64 {
        let stream = usize::from(stream);
        self.streams[stream][stream] += 1;
        self.streams[stream][stream]
    }

    /// Marks the stream's point of progress.
    pub(super) fn record(&mut self, stream: u8, event: u32) {
        self.events.insert(event, self.streams[usize::from(stream)]);
    }

    /// Lets the stream know what was marked; false if nothing was.
    pub(super) fn wait(&mut self, stream: u8, event: u32) -> bool {
        let Some(marked) = self.events.get(&event) else { return false };
        for (known, &marked) in self.streams[usize::from(stream)].iter_mut().zip(marked.iter()) {
            *known = (*known).max(marked);
        }
        true
    }

    /// Whether the instruction of `stream` at `time` is finished before the next one of `observer`.
    pub(super) fn knows(&self, observer: u8, stream: u8, time: u64) -> bool {
        self.streams[usize::from(observer)][usize::from(stream)] >= time
    }
}
