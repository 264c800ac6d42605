//! What a graph looks like.

use super::graph::{Graph, Node};
use crate::span::Span;
use ascend_rs_sys::types::*;
use serde_json::{Value, json};
use std::fmt::Write;

impl Node {
    /// What kind of task it is, for introspection.
    pub(crate) fn kind(&self) -> aclmdlRITaskType {
        use crate::stream::WorkKind;
        match self {
            Self::Work(work) if work.kind == WorkKind::Kernel || work.kind == WorkKind::Operator => {
                aclmdlRITaskType::ACL_MODEL_RI_TASK_KERNEL
            }
            Self::Work(_) => aclmdlRITaskType::ACL_MODEL_RI_TASK_DEFAULT,
            Self::Record(_) | Self::ExternalRecord(_) => aclmdlRITaskType::ACL_MODEL_RI_TASK_EVENT_RECORD,
            Self::Wait { .. } | Self::SignalWait(_) | Self::ExternalWait(_) => {
                aclmdlRITaskType::ACL_MODEL_RI_TASK_EVENT_WAIT
            }
            Self::SignalReset(_) => aclmdlRITaskType::ACL_MODEL_RI_TASK_EVENT_RESET,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Work(work) => work.task.name.clone(),
            Self::Record(event) => format!("record event {event}"),
            Self::Wait { lane, node } => format!("wait for task {node} of stream {lane}"),
            Self::SignalWait(_) => "wait for an external event".to_owned(),
            Self::SignalReset(_) => "reset an external event".to_owned(),
            Self::ExternalRecord(_) => "record an event for others".to_owned(),
            Self::ExternalWait(_) => "wait for an event of others".to_owned(),
        }
    }
}

impl Graph {
    /// A line per stream and task.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("graph {} {}: {} streams\n", self.id, self.name, self.lanes.len());
        for (index, lane) in self.lanes.iter().enumerate() {
            let _ =
                writeln!(text, "  stream {index}, captured from {}: {} tasks", lane.origin, lane.nodes.len());
            for (number, node) in lane.nodes.iter().enumerate() {
                let _ = writeln!(text, "    {number} {}", node.name());
            }
        }
        text
    }

    /// A trace: one event per task, a thread per stream, an arrow per wait.
    pub(crate) fn trace(&self, is_verbose: bool) -> Value {
        let mut events = Vec::new();
        for (tid, lane) in self.lanes.iter().enumerate() {
            let thread = json!({ "name": lane.origin });
            events.push(
                json!({ "ph": "M", "name": "thread_name", "pid": self.id, "tid": tid, "args": thread }),
            );
            for (ts, node) in lane.nodes.iter().enumerate() {
                let args = if is_verbose { arguments(node) } else { json!({}) };
                events.push(json!({
                    "ph": "X", "name": node.name(), "pid": self.id, "tid": tid, "ts": ts, "dur": 1, "args": args,
                }));
                if let Node::Wait { lane: from, node: record } = node {
                    let id = format!("{from}.{record}");
                    events.push(json!({ "ph": "s", "name": "event", "pid": self.id, "tid": from, "ts": record, "id": id }));
                    events.push(
                        json!({ "ph": "f", "name": "event", "pid": self.id, "tid": tid, "ts": ts, "id": id }),
                    );
                }
            }
        }
        json!({ "name": self.name, "traceEvents": events })
    }
}

fn arguments(node: &Node) -> Value {
    let Node::Work(work) = node else { return json!({}) };
    let list = |spans: &[Span]| spans.iter().map(Span::to_string).collect::<Vec<_>>();
    json!({ "reads": list(&work.task.reads), "writes": list(&work.task.writes) })
}
