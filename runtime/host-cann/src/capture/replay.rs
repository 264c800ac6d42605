//! Replays of graphs.

use super::graph::Node;
use crate::clock::Clock;
use crate::event::{Done, Recording};
use crate::fault::Fault;
use crate::state::Runtime;
use crate::stream::{Item, Site, Work};
use ascend_rs_sys::types::*;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

/// How far a lane has got in a replay.
#[derive(Debug)]
pub(crate) struct LaneRun {
    pub(crate) site: Site,
    pub(crate) next: usize,
}

/// A replay.
#[derive(Debug)]
pub(crate) struct GraphRun {
    pub(crate) graph: usize,
    pub(crate) is_started: bool,
    pub(crate) lanes: Vec<LaneRun>,
    /// What was past at the records that were reached.
    pub(crate) marks: BTreeMap<(usize, usize), Clock>,
    /// Recordings of external records and waits, by lane and node.
    pub(crate) externals: BTreeMap<(usize, usize), Arc<Recording>>,
}

impl Runtime {
    /// A replay of the graph `key` on `stream`, bound to what is recorded now.
    pub(crate) fn new_replay(&mut self, key: usize, stream: usize) -> Result<GraphRun, Fault> {
        let graph = self.graphs.get(key as *const c_void)?;
        let (mut records, mut waits) = (Vec::new(), Vec::new());
        for (lane, nodes) in graph.lanes.iter().enumerate() {
            for (node, kind) in nodes.nodes.iter().enumerate() {
                match kind {
                    Node::ExternalRecord(event) => records.push((*event, (lane, node))),
                    Node::ExternalWait(event) => waits.push((*event, (lane, node))),
                    _ => {}
                }
            }
        }
        let lanes = graph
            .lanes
            .iter()
            .map(|lane| LaneRun { site: Site { component: lane.component, ..Site::default() }, next: 0 });
        let lanes = lanes.collect();
        let mut externals = BTreeMap::new();
        for (event, place) in waits {
            let latest = self.events.at(event).and_then(|event| event.latest.clone());
            latest.into_iter().for_each(|recording| {
                externals.insert(place, recording);
            });
        }
        for (event, place) in records {
            let recording = Recording::of(stream);
            if let Some(event) = self.events.at_mut(event) {
                event.latest = Some(Arc::clone(&recording));
            }
            externals.insert(place, recording);
        }
        self.graphs.get_mut(key as *const c_void)?.num_pending += 1;
        Ok(GraphRun { graph: key, is_started: false, lanes, marks: BTreeMap::new(), externals })
    }

    /// The replay at the front of a stream.
    fn replay(&mut self, stream: usize) -> Option<&mut GraphRun> {
        match &mut self.streams.at_mut(stream)?.queue.front_mut()?.item {
            Item::Graph(run) => Some(run),
            _ => None,
        }
    }

    /// The number of the graph that is replayed at the front of a stream.
    pub(crate) fn replayed_graph(&self, stream: usize) -> Option<u32> {
        match &self.streams.at(stream)?.queue.front()?.item {
            Item::Graph(run) => self.graphs.at(run.graph).map(|graph| graph.id),
            _ => None,
        }
    }

    /// Begins the replay at the front of a stream.
    pub(crate) fn start_replay(&mut self, stream: usize) {
        let Some(Site { clock, component, .. }) = self.streams.at(stream).map(|s| s.site.clone()) else {
            return;
        };
        let Some(run) = self.replay(stream) else { return };
        run.is_started = true;
        let key = run.graph;
        run.lanes[0].site = Site { clock: clock.clone(), component, attempt: None };
        let Some(graph) = self.graphs.at_mut(key) else { return };
        let fault = if graph.is_running {
            Some("it is being replayed on another stream at the same time")
        } else if clock.covers(&graph.last_end) {
            None
        } else {
            Some("nothing orders this replay after the one before, which was on another stream")
        };
        let id = graph.id;
        if let Some(why) = fault {
            // This run did not begin, so the other one's state stays.
            graph.num_pending -= 1;
            self.stats.races += 1;
            let dropped = self.replay(stream).map(|run| std::mem::take(&mut run.externals));
            dropped.into_iter().for_each(|externals| self.complete(externals));
            self.pop(stream);
            let message = format!("graph {id}: {why}");
            return self.fail(stream, Fault::new(ACL_ERROR_RT_MODEL_EXECUTE, message));
        }
        graph.is_running = true;
        self.end_if_done(stream);
    }

    /// The task a lane has reached; none if it was something else, which is over then.
    pub(crate) fn next_node(&mut self, stream: usize, lane: usize) -> Option<Arc<Work>> {
        let run = self.replay(stream)?;
        let (graph, next) = (run.graph, run.lanes[lane].next);
        let node = self.graphs.at(graph)?.lanes[lane].nodes.get(next)?.clone();
        let signal = match &node {
            Node::SignalWait(event) => self.events.at(*event).and_then(|event| event.signal.clone()),
            _ => None,
        };
        let run = self.replay(stream)?;
        match node {
            Node::Work(work) => return Some(work),
            Node::Record(_) => {
                let clock = run.lanes[lane].site.clock.clone();
                run.marks.insert((lane, next), clock);
            }
            Node::Wait { lane: from, node } => {
                let mark = run.marks.get(&(from, node)).cloned().unwrap_or_default();
                run.lanes[lane].site.clock.join(&mark);
            }
            Node::SignalWait(_) => {
                signal.iter().for_each(|signal| run.lanes[lane].site.clock.join(signal));
            }
            Node::SignalReset(event) => {
                self.events.at_mut(event).into_iter().for_each(|event| event.signal = None);
            }
            Node::ExternalRecord(_) => {
                let clock = run.lanes[lane].site.clock.clone();
                if let Some(recording) = run.externals.get(&(lane, next)) {
                    let _ = recording.done.set(Done { clock, at: Instant::now() });
                }
                self.has_news = true;
            }
            Node::ExternalWait(_) => {
                if let Some(done) =
                    run.externals.get(&(lane, next)).cloned().as_ref().and_then(|r| r.done.get())
                {
                    run.lanes[lane].site.clock.join(&done.clock);
                }
            }
        }
        self.end_node(stream, lane);
        None
    }

    /// Goes on in a lane.
    pub(crate) fn end_node(&mut self, stream: usize, lane: usize) {
        let Some(run) = self.replay(stream) else { return };
        run.lanes[lane].next += 1;
        run.lanes[lane].site.attempt = None;
        self.end_if_done(stream);
    }

    fn end_if_done(&mut self, stream: usize) {
        let Some(run) = self.replay(stream) else { return };
        let (key, next) = (run.graph, run.lanes.iter().map(|lane| lane.next).collect::<Vec<_>>());
        let is_done = self
            .graphs
            .at(key)
            .is_none_or(|graph| graph.lanes.iter().zip(next).all(|(lane, next)| next >= lane.nodes.len()));
        if is_done {
            self.stats.graphs_replayed += 1;
            self.end_replay(stream);
        }
    }

    /// Ends a replay whose task has failed.
    pub(crate) fn abort_replay(&mut self, stream: usize, fault: Fault) {
        self.end_replay(stream);
        self.fail(stream, fault);
    }

    fn end_replay(&mut self, stream: usize) {
        let Some(run) = self.replay(stream) else { return };
        let (key, externals) = (run.graph, std::mem::take(&mut run.externals));
        let mut clock = Clock::default();
        run.lanes.iter().for_each(|lane| clock.join(&lane.site.clock));
        if let Some(stream) = self.streams.at_mut(stream) {
            stream.site.clock.join(&clock);
        }
        if let Some(graph) = self.graphs.at_mut(key) {
            graph.is_running = false;
            graph.num_pending -= 1;
            graph.last_end = clock;
        }
        self.complete(externals);
        self.pop(stream);
    }

    /// Gives up a replay that may have begun.
    pub(crate) fn drop_replay(&mut self, run: GraphRun) {
        if let Some(graph) = self.graphs.at_mut(run.graph) {
            graph.num_pending -= 1;
            graph.is_running &= !run.is_started;
        }
        self.complete(run.externals);
    }

    /// Lets nobody wait for records that were not reached.
    fn complete(&self, externals: BTreeMap<(usize, usize), Arc<Recording>>) {
        for recording in externals.into_values() {
            let _ = recording.done.set(Done { clock: Clock::default(), at: Instant::now() });
        }
    }
}
