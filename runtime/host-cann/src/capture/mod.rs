//! Capture: from begin to end, and what may not be done meanwhile.

pub(crate) mod check;
pub(crate) mod events;
pub(crate) mod graph;
pub(crate) mod group;
pub(crate) mod print;
pub(crate) mod replay;

use crate::clock::Clock;
use crate::fault::Fault;
use crate::state::{Guard, Runtime};
use ascend_rs_sys::types::*;
use graph::{Graph, Lane, Node};
use std::cell::Cell;
use std::ffi::c_void;
use std::thread::{self, ThreadId};

/// 107041: a copy of pageable memory would be synchronous, which a capture forbids. The headers have no name for it.
pub(crate) const SYNCHRONOUS_COPY: i32 = 107041;

/// What only a running capture has.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) mode: aclmdlRICaptureMode,
    /// Who began it.
    pub(crate) thread: ThreadId,
    /// The streams, by lane.
    pub(crate) streams: Vec<usize>,
    /// Why it cannot be ended well, and whether `aclmdlRICaptureGetInfo` shows it.
    pub(crate) invalid: Option<(String, bool)>,
    /// The lane of the open task group, and its first node.
    pub(crate) group: Option<(usize, usize)>,
}

thread_local! {
    /// This thread's exchange mode.
    static MODE: Cell<aclmdlRICaptureMode> =
        const { Cell::new(aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL) };
}

/// Exchanges this thread's mode.
pub(crate) fn exchange_mode(mode: aclmdlRICaptureMode) -> aclmdlRICaptureMode {
    MODE.replace(mode)
}

/// Checks a mode.
///
/// # Errors
/// 107000: it is none.
pub(crate) fn check_mode(mode: aclmdlRICaptureMode) -> Result<(), Fault> {
    match mode.name() {
        Some(_) => Ok(()),
        None => Err(Fault::parameter(format!("there is no capture mode {}", mode.0))),
    }
}

impl Runtime {
    /// Begins a capture.
    ///
    /// # Errors
    /// 107027: the stream is being captured. 207000: it is the default stream.
    pub(crate) fn begin_capture(&mut self, key: usize, mode: aclmdlRICaptureMode) -> Result<(), Fault> {
        let context = self.context()?.0;
        let stream = self.stream(key);
        if stream.is_default {
            let message = "the default stream cannot be captured";
            return Err(Fault::new(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, message));
        }
        check_mode(mode)?;
        stream.not_capturing()?;
        if stream.rewriting.is_some() {
            return Err(group_status(format!("{} rewrites a task group", stream.name())));
        }
        let (device, origin) = (stream.device, stream.name());
        let streams = vec![key];
        let capture = Capture { mode, thread: thread::current().id(), streams, invalid: None, group: None };
        let component = self.new_component();
        let id = self.new_id();
        let graph = self.graphs.insert_key(Graph {
            id,
            name: String::new(),
            context,
            device,
            capture: Some(capture),
            lanes: vec![Lane { component, origin, nodes: Vec::new() }],
            num_streams: 0,
            num_pending: 0,
            is_running: false,
            last_end: Clock::default(),
            callbacks: Vec::new(),
            groups: Vec::new(),
            lane_streams: Vec::new(),
        });
        self.stream(key).capture = Some(graph);
        Ok(())
    }

    /// Ends the capture of `key` and gives its graph. If it cannot end well the graph is discarded, except where said otherwise.
    ///
    /// # Errors
    /// 107029: no capture. 107036: another stream is the origin; the capture goes on. 107038: another thread began it. 107033: a
    /// task group is open. 507903: it was invalidated. 107025: a stream was not joined. 507053: two of its tasks race.
    pub(crate) fn end_capture(&mut self, key: usize) -> Result<usize, Fault> {
        let stream = self.stream(key);
        let name = stream.name();
        let graph = stream.capture.ok_or_else(|| {
            Fault::new(ACL_ERROR_RT_STREAM_NOT_CAPTURED, format!("{name} is not being captured"))
        })?;
        let capture = self.capture(graph);
        if capture.streams[0] != key {
            let message = format!("{name} has joined the capture, it did not begin it");
            return Err(Fault::new(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, message));
        }
        let result = self.judge(graph).and_then(|()| self.hold_streams(graph));
        if let Err(fault) = result {
            self.stats.captures_failed += 1;
            self.discard_capture(graph);
            return Err(fault);
        }
        self.release_streams(graph);
        self.stats.graphs_captured += 1;
        Ok(graph)
    }

    /// Whether a capture can end well.
    fn judge(&mut self, key: usize) -> Result<(), Fault> {
        let capture = self.capture(key);
        let is_bound = capture.mode != aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
        if is_bound && capture.thread != thread::current().id() {
            let message = "the thread that began the capture has to end it, unless its mode is relaxed";
            return Err(Fault::new(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, message));
        }
        if capture.group.is_some() {
            return Err(group_status("a task group of the capture is open".to_owned()));
        }
        if let Some((why, _)) = &capture.invalid {
            let message = format!("the capture was invalidated: {why}");
            return Err(Fault::new(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, message));
        }
        let lanes = &self.graphs.at(key).expect("it is being captured").lanes;
        check::joined(lanes)?;
        check::ordered(lanes).inspect_err(|_| self.stats.races += 1)
    }

    /// Takes the hidden streams a graph needs: one per lane and per full queue.
    fn hold_streams(&mut self, key: usize) -> Result<(), Fault> {
        let graph = self.graphs.at(key).expect("it is being captured");
        let queues = |lane: &Lane| (lane.nodes.len() + 1).div_ceil(crate::stream::QUEUE_DEPTH);
        let (num, device) = (graph.lanes.iter().map(queues).sum(), graph.device);
        self.take_streams(device, num)?;
        self.graphs.at_mut(key).expect("it is being captured").num_streams = num;
        Ok(())
    }

    /// The capture of a graph that is being captured.
    pub(crate) fn capture(&mut self, key: usize) -> &mut Capture {
        let graph = self.graphs.at_mut(key).expect("a stream that is captured has a graph");
        graph.capture.as_mut().expect("a stream that is captured has a capture")
    }

    /// Ends the hold of a capture on its streams and events.
    fn release_streams(&mut self, key: usize) -> bool {
        let Some(capture) = self.graphs.at_mut(key).and_then(|graph| graph.capture.take()) else {
            return false;
        };
        for stream in capture.streams {
            if let Some(stream) = self.streams.at_mut(stream) {
                stream.capture = None;
            }
        }
        for event in self.events.keys(|event| event.captured.is_some_and(|c| c.graph == key)) {
            self.event(event).captured = None;
        }
        true
    }

    /// Ends a capture without a graph, if it is one.
    pub(crate) fn discard_capture(&mut self, key: usize) {
        if self.release_streams(key) {
            self.remove_graph(key);
        }
    }

    /// Removes a graph and all that belongs to it.
    pub(crate) fn remove_graph(&mut self, key: usize) {
        let Ok(graph) = self.graphs.remove(key as *const c_void) else { return };
        self.return_streams(graph.device, graph.num_streams);
        for group in graph.groups {
            let _ = self.groups.remove(group as *const c_void);
        }
        for stream in graph.lane_streams {
            let Ok(stream) = self.lane_streams.remove(stream as *const c_void) else { continue };
            for task in stream.tasks {
                let _ = self.task_refs.remove(task as *const c_void);
            }
        }
    }

    /// Removes a graph its owner forgot.
    pub(crate) fn leak_graph(&mut self, key: usize) {
        if let Some(graph) = self.graphs.at(key) {
            let name = format!("graph {}", graph.id);
            self.leaks.push(name);
            self.remove_graph(key);
        }
    }

    /// Makes a capture end badly.
    pub(crate) fn invalidate(&mut self, key: usize, why: &str, is_shown: bool) {
        if let Some(capture) = self.graphs.at_mut(key).and_then(|graph| graph.capture.as_mut()) {
            capture.invalid.get_or_insert((why.to_owned(), is_shown));
        }
    }

    /// Adds a node to the capture of a stream, and gives its place.
    ///
    /// # Errors
    /// 107034: another stream has a task group open; the capture is invalidated. 507903: it was before.
    pub(crate) fn add_node(&mut self, key: usize, node: Node) -> Result<(usize, usize), Fault> {
        let graph = self.stream(key).capture.expect("the stream is being captured");
        let capture = self.capture(graph);
        let lane = capture.streams.iter().position(|stream| *stream == key).expect("streams have lanes");
        if let Some((why, true)) = &capture.invalid {
            let message = format!("the capture was invalidated: {why}");
            return Err(Fault::new(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, message));
        }
        let is_single = matches!(node, Node::Work(_));
        if capture.group.is_some_and(|(open, _)| open != lane || !is_single) {
            let why = "a task group was interrupted by another stream or an event";
            self.invalidate(graph, why, true);
            return Err(Fault::new(ACL_ERROR_STREAM_TASK_GROUP_INTR, why));
        }
        let nodes = &mut self.graphs.at_mut(graph).expect("it is being captured").lanes[lane].nodes;
        nodes.push(node);
        Ok((lane, nodes.len() - 1))
    }

    /// The running captures of a context or of a thread.
    pub(crate) fn captures(&self) -> impl Iterator<Item = (usize, &Graph, &Capture)> {
        self.graphs.iter().filter_map(|(key, graph)| Some((key as usize, graph, graph.capture.as_ref()?)))
    }

    /// Whether a call that waits for the device may be made now.
    ///
    /// # Errors
    /// `code`: a capture forbids it.
    pub(crate) fn allow_synchronous(&self, code: i32) -> Result<(), Fault> {
        type Mode = aclmdlRICaptureMode;
        let context = crate::context::current_key();
        let strictest = |modes: &mut dyn Iterator<Item = Mode>| modes.min();
        let me = thread::current().id();
        let anyone =
            strictest(&mut self.captures().filter(|(_, g, _)| g.context == context).map(|c| c.2.mode));
        let mine = strictest(&mut self.captures().filter(|(_, _, c)| c.thread == me).map(|c| c.2.mode));
        let Some(anyone) = anyone else { return Ok(()) };
        let (global, local) =
            (Mode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL, Mode::ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL);
        let is_forbidden = match MODE.get() {
            mode if mode == global => anyone == global || mine == Some(local),
            mode if mode == local => mine == Some(global) || mine == Some(local),
            _ => false,
        };
        if !is_forbidden {
            return Ok(());
        }
        Err(Fault::new(code, "a synchronous call while a capture is running, whose mode forbids it"))
    }
}

/// 107033.
pub(crate) fn group_status(message: String) -> Fault {
    Fault::new(ACL_ERROR_STREAM_TASK_GROUP_STATUS, message)
}

/// Invalidates every capture of this thread and context: `HOST_CANN_STRICT` asks it of every error.
pub(crate) fn punish(mut runtime: Guard, why: &str) {
    let (context, me) = (crate::context::current_key(), thread::current().id());
    let running = runtime.captures().filter(|(_, g, c)| g.context == context || c.thread == me);
    let keys: Vec<usize> = running.map(|c| c.0).collect();
    keys.into_iter().for_each(|key| runtime.invalidate(key, why, true));
}
