//! Task groups: tasks of a graph that can be replaced.

use super::graph::Node;
use super::group_status;
use crate::fault::Fault;
use crate::state::{Guard, Runtime};
use crate::stream::{Item, Rewriting, Work, enqueue};
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::sync::Arc;

/// Tasks that stand together in a lane.
#[derive(Debug)]
pub(crate) struct Group {
    graph: usize,
    lane: usize,
    first: usize,
    len: usize,
}

impl Runtime {
    fn captured_graph(&mut self, key: usize) -> Result<usize, Fault> {
        let stream = self.stream(key);
        stream.capture.ok_or_else(|| {
            Fault::new(ACL_ERROR_RT_STREAM_NOT_CAPTURED, format!("{} is not being captured", stream.name()))
        })
    }

    /// Opens a group.
    ///
    /// # Errors
    /// 107029: no capture. 107033: one is open.
    pub(crate) fn begin_group(&mut self, key: usize) -> Result<(), Fault> {
        let graph = self.captured_graph(key)?;
        let capture = self.capture(graph);
        if capture.group.is_some() {
            return Err(group_status("a task group is open".to_owned()));
        }
        let lane = capture.streams.iter().position(|stream| *stream == key).expect("streams have lanes");
        let first = self.graphs.at(graph).expect("it is being captured").lanes[lane].nodes.len();
        self.capture(graph).group = Some((lane, first));
        Ok(())
    }

    /// Closes the group and gives its handle.
    ///
    /// # Errors
    /// 107029: no capture. 107033: none is open.
    pub(crate) fn end_group(&mut self, key: usize) -> Result<aclrtTaskGrp, Fault> {
        let graph = self.captured_graph(key)?;
        let capture = self.capture(graph);
        let lane = capture.streams.iter().position(|stream| *stream == key);
        let open = capture.group.filter(|(open, _)| Some(*open) == lane);
        let (lane, first) = open.ok_or_else(|| group_status("no task group is open".to_owned()))?;
        capture.group = None;
        let len = self.graphs.at(graph).expect("it is being captured").lanes[lane].nodes.len() - first;
        let handle = self.groups.insert(Group { graph, lane, first, len });
        self.graphs.at_mut(graph).expect("it is being captured").groups.push(handle as usize);
        Ok(aclrtTaskGrp(handle))
    }

    /// Makes what is submitted to a stream from now on replace the tasks of a group.
    ///
    /// # Errors
    /// 107027: the stream is being captured. 107026: the graph is. 107033: the stream rewrites a group already, or another stream
    /// rewrites this one.
    pub(crate) fn begin_rewriting(&mut self, key: usize, group: aclrtTaskGrp) -> Result<(), Fault> {
        self.stream(key).not_capturing()?;
        let graph = self.groups.get(group.0)?.graph;
        if self.graphs.at(graph).is_none_or(|graph| graph.capture.is_some()) {
            return Err(Fault::new(
                ACL_ERROR_RT_MODEL_CAPTURED,
                "the graph of the task group is being captured",
            ));
        }
        let group = group.0 as usize;
        let busy = self.streams.keys(|stream| stream.rewriting.as_ref().is_some_and(|r| r.group == group));
        if self.stream(key).rewriting.is_some() || !busy.is_empty() {
            return Err(group_status("a task group is being rewritten".to_owned()));
        }
        self.stream(key).rewriting = Some(Rewriting { group, works: Vec::new() });
        Ok(())
    }
}

/// Queues the replacement of the group a stream rewrites.
///
/// # Errors
/// 107033: it rewrites none. 107040: the new tasks are not of the same kinds.
pub(crate) fn end_rewriting(mut runtime: Guard, key: usize) -> Result<(), Fault> {
    let stream = runtime.stream(key);
    let rewriting = stream.rewriting.take();
    let Rewriting { group, works } =
        rewriting.ok_or_else(|| group_status(format!("{} rewrites no task group", stream.name())))?;
    let &Group { graph, lane, first, len } = runtime.groups.get(group as *const c_void)?;
    let nodes = &runtime.graphs.get(graph as *const c_void)?.lanes[lane].nodes[first..first + len];
    let old = nodes.iter().filter_map(|node| match node {
        Node::Work(work) => Some(work),
        _ => None,
    });
    let kind = |work: &Arc<Work>| (work.kind, work.task.name.clone());
    let (old, new): (Vec<_>, Vec<_>) = (old.map(kind).collect(), works.iter().map(kind).collect());
    if old != new {
        let names =
            |list: &[(_, String)]| list.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>().join(", ");
        let message = format!("the task group has the tasks [{}], not [{}]", names(&old), names(&new));
        return Err(Fault::new(ACL_ERROR_RT_MODEL_UPDATE_FAILED, message));
    }
    let replacements = works.into_iter().enumerate().map(|(i, work)| ((lane, first + i), work)).collect();
    enqueue(runtime, key, Item::Update(graph, replacements)).map(drop)
}
