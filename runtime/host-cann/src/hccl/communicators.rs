//! Communicators of this process.

use super::config::Settings;
use super::connection::{Awaited, Connection};
use super::wire::{Group, Request, Terms};
use super::{fault, lock, seconds};
use crate::fault::Fault;
use crate::handles::{Codes, Handles};
use crate::lifecycle;
use crate::query;
use ascend_rs_sys::types::*;
use std::sync::{Arc, Mutex, Once};

/// One rank of a communicator.
#[derive(Debug)]
pub(super) struct Communicator {
    pub(super) connection: Arc<Connection>,
    pub(super) group: Group,
    pub(super) rank: u32,
    pub(super) settings: Settings,
    pub(super) name: String,
    /// The device its tasks run on.
    pub(super) device: i32,
    progress: Mutex<Numbers>,
}

/// What was counted so far.
#[derive(Debug, Default)]
struct Numbers {
    operations: u64,
    /// Per pair: other rank, and whether this one sends.
    transfers: std::collections::BTreeMap<(u32, bool), u64>,
    /// Graphs it is captured in, in the order of captures.
    graphs: Vec<u32>,
    failed: bool,
    is_closed: bool,
}

static COMMUNICATORS: Mutex<Handles<Arc<Communicator>>> = Mutex::new(Handles::new(
    "communicator",
    0x31,
    Codes { null: HcclResult::HCCL_E_PTR.0, stale: HcclResult::HCCL_E_PARA.0 },
));

/// The communicator behind a handle.
///
/// # Errors
/// PTR: null; PARA: it was destroyed, or is none.
pub(super) fn communicator(comm: HcclComm) -> Result<Arc<Communicator>, Fault> {
    lock(&COMMUNICATORS).get(comm.0).cloned()
}

/// Communicators that were never destroyed, one text each.
fn leaks() -> Vec<String> {
    let communicators = lock(&COMMUNICATORS);
    let text = |c: &Arc<Communicator>| format!("communicator {} was never destroyed", c.name);
    communicators.iter().map(|(_, c)| text(c)).collect()
}

/// The device of this thread's context.
pub(super) fn current_device() -> Result<i32, Fault> {
    query::current_device()
        .map_err(|error| fault(HcclResult::HCCL_E_RUNTIME, format!("no device is set: {}", error.message)))
}

impl Communicator {
    /// Tells the hub that this rank is there.
    pub(super) fn announce(
        connection: Arc<Connection>,
        group: Group,
        rank: u32,
        settings: Settings,
        name: String,
    ) -> Result<Self, Fault> {
        let device = current_device()?;
        query::charge(device, settings.buffer_bytes()).map_err(|error| {
            let text = format!("the buffers of a communicator: {}", error.message);
            fault(HcclResult::HCCL_E_OOM, text)
        })?;
        let terms = Terms {
            size: group.ranks.len() as u32,
            buffer_mib: settings.buffer_mib,
            deterministic: settings.deterministic,
        };
        connection.tell(&Request::Join { group: group.clone(), rank, terms }, &[]);
        let name = if settings.name.is_empty() { name } else { settings.name.clone() };
        Ok(Self { connection, group, rank, settings, name, device, progress: Mutex::default() })
    }

    /// Waits until all ranks are there, and gives the handle.
    pub(super) fn meet(self) -> Result<HcclComm, Fault> {
        let timeout = seconds("HCCL_CONNECT_TIMEOUT", 120);
        let (connection, group) = (&self.connection, &self.group);
        let mut arrived = connection.wait(group, &Awaited::Joined, timeout);
        if matches!(arrived, Ok(None)) {
            let what = format!("the start of {}", self.name);
            connection.tell(&Request::GiveUp { group: group.clone(), rank: self.rank, what }, &[]);
            arrived = connection.wait(group, &Awaited::Joined, timeout);
        }
        static WATCHED: Once = Once::new();
        WATCHED.call_once(|| lifecycle::add_leak_source(leaks));
        match arrived {
            Ok(Some(_)) => Ok(HcclComm(lock(&COMMUNICATORS).insert(Arc::new(self)))),
            Ok(None) => Err(fault(HcclResult::HCCL_E_TIMEOUT, "the process of rank 0 does not answer")),
            Err(error) => {
                let is_late = error.code == ACL_ERROR_RT_FFTS_PLUS_TIMEOUT;
                let code = if is_late { HcclResult::HCCL_E_TIMEOUT } else { HcclResult::HCCL_E_PARA };
                Err(fault(code, error.message))
            }
        }
    }

    pub(super) fn size(&self) -> u32 {
        self.group.ranks.len() as u32
    }

    /// The number of the next collective.
    pub(super) fn next_operation(&self) -> u64 {
        let mut numbers = lock(&self.progress);
        numbers.operations += 1;
        numbers.operations - 1
    }

    /// The number of the next transfer with `other`.
    pub(super) fn next_transfer(&self, other: u32, sends: bool) -> u64 {
        let mut numbers = lock(&self.progress);
        let number = numbers.transfers.entry((other, sends)).or_insert(0);
        *number += 1;
        *number - 1
    }

    /// Which of its graphs this is: a number that is the same on all ranks if all capture in the same order.
    pub(super) fn graph_number(&self, graph: u32) -> usize {
        let graphs = &mut lock(&self.progress).graphs;
        graphs.iter().position(|&g| g == graph).unwrap_or_else(|| {
            graphs.push(graph);
            graphs.len() - 1
        })
    }

    /// Leaves the others, and gives memory back. Does nothing the second time.
    fn close(&self) {
        if std::mem::replace(&mut lock(&self.progress).is_closed, true) {
            return;
        }
        let (group, rank) = (self.group.clone(), self.rank);
        self.connection.tell(&Request::Leave { group, rank }, &[]);
        query::discharge(self.device, self.settings.buffer_bytes());
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.progress).is_closed
    }

    pub(super) fn fail(&self) {
        lock(&self.progress).failed = true;
    }

    pub(super) fn has_failed(&self) -> bool {
        lock(&self.progress).failed
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.close();
    }
}

/// Destroys a communicator. Tasks of it that are captured or queued keep what they need, and fail when they run.
pub(super) fn destroy(comm: HcclComm) -> Result<(), Fault> {
    let communicator = lock(&COMMUNICATORS).remove(comm.0)?;
    communicator.close();
    Ok(())
}
