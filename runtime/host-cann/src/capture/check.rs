//! What is checked of a graph when its capture ends: every stream was joined, and no two tasks race.

use super::graph::{Lane, Node};
use crate::clock::Clock;
use crate::fault::Fault;
use crate::shadow::{Access, Shadow};
use ascend_rs_sys::types::*;
use std::collections::{BTreeMap, BTreeSet};

/// Checks that every side stream ends with a record that reaches the origin by waits.
///
/// # Errors
/// 107025 for the first that does not.
pub(crate) fn joined(lanes: &[Lane]) -> Result<(), Fault> {
    let mut waited: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
    for (by, lane) in lanes.iter().enumerate() {
        for node in &lane.nodes {
            if let Node::Wait { lane, node } = node
                && *lane != by
            {
                waited.entry((*lane, *node)).or_default().insert(by);
            }
        }
    }
    // Lanes the origin comes after, found backwards from it.
    let last = |lane: usize| lanes[lane].nodes.len().checked_sub(1).map(|node| (lane, node));
    let mut reached = BTreeSet::from([0]);
    loop {
        let new = (0..lanes.len()).find(|lane| {
            let waiters = last(*lane).and_then(|last| waited.get(&last));
            let is_record = matches!(lanes[*lane].nodes.last(), Some(Node::Record(_)));
            !reached.contains(lane) && is_record && waiters.is_some_and(|w| !w.is_disjoint(&reached))
        });
        match new {
            Some(lane) => reached.insert(lane),
            None => break,
        };
    }
    match (0..lanes.len()).find(|lane| !reached.contains(lane)) {
        None => Ok(()),
        Some(lane) => {
            let message = format!(
                "{} was not joined: its last task is to be an event record for which the origin waits",
                lanes[lane].origin
            );
            Err(Fault::new(ACL_ERROR_RT_STREAM_UNJOINED, message))
        }
    }
}

/// Checks that accesses of tasks to the same bytes, one of them a write, are ordered by events of the graph.
///
/// # Errors
/// 507053: two are not; both are named.
pub(crate) fn ordered(lanes: &[Lane]) -> Result<(), Fault> {
    let mut shadow = Shadow::new();
    let mut clocks = vec![Clock::default(); lanes.len()];
    let mut marks: BTreeMap<(usize, usize), Clock> = BTreeMap::new();
    let mut next = vec![0; lanes.len()];
    loop {
        let mut has_moved = false;
        for (index, lane) in lanes.iter().enumerate() {
            while let Some(node) = lane.nodes.get(next[index]) {
                match node {
                    Node::Wait { lane, node } => match marks.get(&(*lane, *node)) {
                        Some(mark) => clocks[index].join(mark),
                        None => break,
                    },
                    Node::Record(_) => {
                        marks.insert((index, next[index]), clocks[index].clone());
                    }
                    Node::Work(work) => {
                        let time = clocks[index].tick(index as u32);
                        let name = format!("{} on {} of the graph", work.task.name, lane.origin).into();
                        let access = Access { component: index as u32, time, name };
                        let mut writes = work.task.writes.clone();
                        writes.extend(work.task.workspace.iter().chain(&work.host_writes));
                        let reads: Vec<_> = work.task.reads.iter().chain(&work.host_reads).copied().collect();
                        shadow
                            .access(&reads, &writes, &access, &clocks[index])
                            .map_err(|race| Fault::new(ACL_ERROR_RT_DEVICE_MEM_ERROR, race.to_string()))?;
                    }
                    _ => {}
                }
                next[index] += 1;
                has_moved = true;
            }
        }
        if !has_moved {
            return Ok(());
        }
    }
}
