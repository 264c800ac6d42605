//! Records, waits and resets of events, in streams that are captured and in others.

use super::graph::{Lane, Node};
use crate::event::{Captured, Event, Kind, Recording};
use crate::fault::Fault;
use crate::state::{Guard, Runtime};
use crate::stream::{Item, enqueue};
use ascend_rs_sys::types::*;
use std::sync::Arc;

/// 207000.
fn unsupported(message: String) -> Fault {
    Fault::new(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, message)
}

fn not_captured(name: &str) -> Fault {
    let message = format!("{name} is not being captured, which the external flag is for");
    Fault::new(ACL_ERROR_RT_STREAM_NOT_CAPTURED, message)
}

/// Whether an event may have the external flag.
fn check_external(event: &Event) -> Result<(), Fault> {
    if event.kind == Kind::Ex && event.flags & ACL_EVENT_SYNC != 0 {
        return Ok(());
    }
    Err(unsupported(format!(
        "{} is no Ex event with ACL_EVENT_SYNC, which the external flag needs",
        event.name()
    )))
}

impl Runtime {
    /// 107032: both captures are invalidated, which their status does not show.
    fn conflict(&mut self, event: usize, one: usize, other: usize) -> Fault {
        let name = self.event(event).name();
        let message = format!("{name} belongs to two captures");
        self.invalidate(one, &message, false);
        self.invalidate(other, &message, false);
        Fault::new(ACL_ERROR_STREAM_CAPTURE_CONFLICT, message)
    }

    /// Whether a node with an external flag for `event` is in the graph.
    fn has_external(&self, graph: usize, node: &Node) -> bool {
        let same = |other: &Node| match (node, other) {
            (Node::ExternalRecord(a), Node::ExternalRecord(b))
            | (Node::ExternalWait(a), Node::ExternalWait(b)) => a == b,
            _ => false,
        };
        self.graphs.at(graph).is_some_and(|graph| graph.lanes.iter().flat_map(|lane| &lane.nodes).any(same))
    }

    /// Captures a record or wait with the external flag.
    fn add_external(&mut self, stream: usize, graph: usize, event: usize, node: Node) -> Result<(), Fault> {
        check_external(self.event(event))?;
        if self.has_external(graph, &node) {
            return Err(unsupported("one external record and one wait per event and graph".to_owned()));
        }
        self.add_node(stream, node).map(|_| ())
    }

    /// Makes a stream part of the capture that holds an event it waits for.
    fn join(&mut self, key: usize, captured: Captured) -> Result<(), Fault> {
        let component = self.new_component();
        let stream = self.stream(key);
        let origin = stream.name();
        if stream.is_default {
            let message = "the default stream cannot wait for a captured event";
            return Err(Fault::new(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, message));
        }
        stream.capture = Some(captured.graph);
        self.capture(captured.graph).streams.push(key);
        let graph = self.graphs.at_mut(captured.graph).expect("captures that hold events are running");
        graph.lanes.push(Lane { component, origin, nodes: Vec::new() });
        self.add_node(key, Node::Wait { lane: captured.lane, node: captured.node }).map(|_| ())
    }
}

/// Records `event` in `stream`.
pub(crate) fn record(
    mut runtime: Guard,
    stream: usize,
    event: usize,
    is_external: bool,
) -> Result<(), Fault> {
    let capture = runtime.stream(stream).capture;
    let stream_name = runtime.stream(stream).name();
    let Event { kind, captured, id, .. } = *runtime.event(event);
    let Some(graph) = capture else {
        if is_external {
            return Err(not_captured(&stream_name));
        }
        let recording = Recording::of(stream);
        let found = runtime.event(event);
        found.captured = None;
        found.latest = Some(Arc::clone(&recording));
        if found.is_external() {
            runtime = enqueue(runtime, stream, Item::Signal(event))?;
        }
        return enqueue(runtime, stream, Item::Record(recording)).map(drop);
    };
    if is_external {
        return runtime.add_external(stream, graph, event, Node::ExternalRecord(event));
    }
    if kind != Kind::Ex {
        return Err(unsupported(format!("event {id} was not made by aclrtCreateEventExWithFlag")));
    }
    if let Some(other) = captured.filter(|captured| captured.graph != graph) {
        return Err(runtime.conflict(event, graph, other.graph));
    }
    let (lane, node) = runtime.add_node(stream, Node::Record(id))?;
    let found = runtime.event(event);
    found.captured = Some(Captured { graph, lane, node });
    found.latest = None;
    Ok(())
}

/// Makes `stream` wait for `event`.
pub(crate) fn wait(mut runtime: Guard, stream: usize, event: usize, is_external: bool) -> Result<(), Fault> {
    let capture = runtime.stream(stream).capture;
    let stream_name = runtime.stream(stream).name();
    let found = runtime.event(event);
    let (name, kind, captured) = (found.name(), found.kind, found.captured);
    let (latest, signals) = (found.latest.clone(), found.is_external());
    let Some(graph) = capture else {
        if is_external {
            return Err(not_captured(&stream_name));
        }
        return match (captured, latest) {
            (Some(captured), _) => runtime.join(stream, captured),
            (None, Some(recording)) => enqueue(runtime, stream, Item::Wait(recording)).map(drop),
            (None, None) if kind == Kind::Ex => Ok(()),
            (None, None) => Err(Fault::parameter(format!("EE1018: {name} was never recorded"))),
        };
    };
    if is_external {
        return runtime.add_external(stream, graph, event, Node::ExternalWait(event));
    }
    if signals {
        return runtime.add_node(stream, Node::SignalWait(event)).map(|_| ());
    }
    if kind != Kind::Ex {
        return Err(unsupported(format!("{name} was not made by aclrtCreateEventExWithFlag")));
    }
    match captured {
        Some(Captured { graph: other, .. }) if other != graph => Err(runtime.conflict(event, graph, other)),
        Some(Captured { lane, node, .. }) => runtime.add_node(stream, Node::Wait { lane, node }).map(|_| ()),
        None if latest.is_none() => Ok(()),
        None => {
            let message = format!("{name} was recorded outside of the capture");
            Err(Fault::new(ACL_ERROR_RT_CAPTURE_DEPENDENCY, message))
        }
    }
}

/// Resets `event` in `stream`.
pub(crate) fn reset(mut runtime: Guard, stream: usize, event: usize) -> Result<(), Fault> {
    let is_captured = runtime.stream(stream).capture.is_some();
    let found = runtime.event(event);
    if found.kind != Kind::Flagged || (is_captured && !found.is_external()) {
        return Err(unsupported(format!("{} cannot be reset", found.name())));
    }
    if is_captured {
        return runtime.add_node(stream, Node::SignalReset(event)).map(|_| ());
    }
    found.latest = None;
    enqueue(runtime, stream, Item::Reset(event)).map(drop)
}
