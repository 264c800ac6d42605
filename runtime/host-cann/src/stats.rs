//! Counts, for one line at the end.

use std::fmt;

/// What has happened since `aclInit`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stats {
    /// Tasks that have run, those of graphs included.
    pub(crate) tasks: u64,
    /// Of these, kernels loaded from binaries.
    pub(crate) kernels: u64,
    /// Of the tasks, those replayed from graphs.
    pub(crate) replayed_tasks: u64,
    /// Graphs made by captures.
    pub(crate) graphs_captured: u64,
    /// Captures that failed.
    pub(crate) captures_failed: u64,
    /// Times a graph was replayed to its end.
    pub(crate) graphs_replayed: u64,
    /// Times the host waited for a stream, an event or a device.
    pub(crate) synchronisations: u64,
    /// Accesses that nothing ordered.
    pub(crate) races: u64,
    /// Tasks that failed, those that raced included.
    pub(crate) faults: u64,
    /// Most bytes of one device in use at once.
    pub(crate) peak_bytes: u64,
    /// Objects left at `aclFinalize`.
    pub(crate) leaks: u64,
}

impl Stats {
    /// All zero.
    pub(crate) const fn new() -> Self {
        Self {
            tasks: 0,
            kernels: 0,
            replayed_tasks: 0,
            graphs_captured: 0,
            captures_failed: 0,
            graphs_replayed: 0,
            synchronisations: 0,
            races: 0,
            faults: 0,
            peak_bytes: 0,
            leaks: 0,
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tasks {} kernels {} replayed_tasks {} graphs_captured {} captures_failed {} graphs_replayed {} \
             synchronisations {} races {} faults {} peak_bytes {} leaks {}",
            self.tasks,
            self.kernels,
            self.replayed_tasks,
            self.graphs_captured,
            self.captures_failed,
            self.graphs_replayed,
            self.synchronisations,
            self.races,
            self.faults,
            self.peak_bytes,
            self.leaks
        )
    }
}
