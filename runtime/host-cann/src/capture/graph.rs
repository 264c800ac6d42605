//! Captured graphs.

use super::Capture;
use crate::clock::Clock;
use crate::stream::Work;
use ascend_rs_sys::types::*;
use std::sync::Arc;

/// One captured call.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Work(Arc<Work>),
    /// A record of an event, by its number.
    Record(u32),
    /// A wait for the record at this lane and node.
    Wait {
        lane: usize,
        node: usize,
    },
    /// Waits until an external event is signalled.
    SignalWait(usize),
    /// Clears an external event.
    SignalReset(usize),
    /// Records an event for streams outside.
    ExternalRecord(usize),
    /// Waits for what was recorded outside before the replay.
    ExternalWait(usize),
}

/// What one stream has captured.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) component: u32,
    /// The stream it was captured from.
    pub(crate) origin: String,
    pub(crate) nodes: Vec<Node>,
}

/// A graph, from the begin of its capture on.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Its small number.
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) context: usize,
    pub(crate) device: i32,
    /// While it is being captured.
    pub(crate) capture: Option<Capture>,
    /// By stream; the first is the origin.
    pub(crate) lanes: Vec<Lane>,
    /// Hidden streams it holds.
    pub(crate) num_streams: usize,
    /// Replays that are queued or running.
    pub(crate) num_pending: usize,
    pub(crate) is_running: bool,
    /// What was past at the end of the last replay.
    pub(crate) last_end: Clock,
    pub(crate) callbacks: Vec<(aclrtCallback, usize)>,
    /// Its task groups.
    pub(crate) groups: Vec<usize>,
    /// Handles of its streams, made when they are asked for.
    pub(crate) lane_streams: Vec<usize>,
}

/// A stream of a graph: the handles of its tasks.
#[derive(Debug)]
pub(crate) struct LaneStream {
    pub(crate) tasks: Vec<usize>,
}

/// A task of a graph. One past the last node of the first lane is the end of the graph.
#[derive(Debug)]
pub(crate) struct TaskRef {
    pub(crate) graph: usize,
    pub(crate) lane: usize,
    pub(crate) node: usize,
}

impl Graph {
    /// Exchanges tasks.
    pub(crate) fn replace(&mut self, replacements: &[((usize, usize), Arc<Work>)]) {
        for ((lane, node), work) in replacements {
            self.lanes[*lane].nodes[*node] = Node::Work(Arc::clone(work));
        }
    }
}
