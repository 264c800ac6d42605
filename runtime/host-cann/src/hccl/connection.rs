//! A rank's line to its hub.

use super::hub::address;
use super::wire::{Group, Reply, Request, Transfer, receive, send};
use super::{fault, lock};
use crate::fault::Fault;
use crate::query;
use ascend_rs_sys::types::*;
use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long a hub that is not there yet is waited for between attempts.
const RETRY: Duration = Duration::from_millis(2);

/// What a rank waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Awaited {
    Joined,
    Met(u64),
    Sent(Transfer),
    Received(Transfer),
}

#[derive(Debug, Default)]
struct Inbox {
    arrived: BTreeMap<(Group, Awaited), Vec<u8>>,
    broken: BTreeMap<Group, (String, bool)>,
    lost: bool,
}

/// The line. One serves all communicators that come from one start.
#[derive(Debug)]
pub(super) struct Connection {
    writer: Mutex<UnixStream>,
    inbox: Arc<(Mutex<Inbox>, Condvar)>,
}

impl Connection {
    /// Connects to the hub at `name`, which may not be there yet.
    pub(super) fn open(name: &str, timeout: Duration) -> Result<Self, Fault> {
        let (address, deadline) = (address(name)?, Instant::now() + timeout);
        let stream = loop {
            match UnixStream::connect_addr(&address) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < deadline => thread::sleep(RETRY),
                Err(error) => {
                    let text = format!("rank 0 does not answer at {name}: {error}");
                    return Err(fault(HcclResult::HCCL_E_TCP_CONNECT, text));
                }
            }
        };
        let mut reader = stream
            .try_clone()
            .map_err(|error| fault(HcclResult::HCCL_E_SYSCALL, format!("a socket: {error}")))?;
        let inbox = Arc::new((Mutex::new(Inbox::default()), Condvar::new()));
        let shared = Arc::clone(&inbox);
        thread::spawn(move || {
            while let Ok((reply, bytes)) = receive::<Reply>(&mut reader) {
                take_in(&mut lock(&shared.0), reply, bytes);
                shared.1.notify_all();
                query::wake();
            }
            lock(&shared.0).lost = true;
            shared.1.notify_all();
            query::wake();
        });
        Ok(Self { writer: Mutex::new(stream), inbox })
    }

    /// Tells the hub. That it is gone is found out by who waits for its answer.
    pub(super) fn tell(&self, request: &Request, bytes: &[u8]) {
        let _ = send(&mut *lock(&self.writer), request, bytes);
    }

    /// What has arrived, if it has.
    ///
    /// # Errors
    /// The communicator is of no more use: with the status of a task that fails for that.
    pub(super) fn poll(&self, group: &Group, awaited: &Awaited) -> Result<Option<Vec<u8>>, Fault> {
        let mut inbox = lock(&self.inbox.0);
        if let Some(bytes) = inbox.arrived.remove(&(group.clone(), awaited.clone())) {
            return Ok(Some(bytes));
        }
        match inbox.broken.get(group) {
            Some((why, true)) => Err(Fault::new(ACL_ERROR_RT_FFTS_PLUS_TIMEOUT, why.clone())),
            Some((why, false)) => Err(Fault::new(ACL_ERROR_RT_FFTS_PLUS_EXCEPTION, why.clone())),
            None if inbox.lost => Err(Fault::new(
                ACL_ERROR_RT_SOCKET_CLOSE,
                "the process that made the root information has ended",
            )),
            None => Ok(None),
        }
    }

    /// As [`Connection::poll`], waiting up to `timeout`.
    pub(super) fn wait(
        &self,
        group: &Group,
        awaited: &Awaited,
        timeout: Duration,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(bytes) = self.poll(group, awaited)? {
                return Ok(Some(bytes));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // What arrives between the poll and this wait is seen after a tick.
            let inbox = lock(&self.inbox.0);
            drop(self.inbox.1.wait_timeout(inbox, left.min(RETRY)));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = lock(&self.writer).shutdown(Shutdown::Both);
    }
}

fn take_in(inbox: &mut Inbox, reply: Reply, bytes: Vec<u8>) {
    let (group, awaited) = match reply {
        Reply::Broken { group, why, timed_out } => {
            inbox.broken.entry(group).or_insert((why, timed_out));
            return;
        }
        Reply::Joined { group } => (group, Awaited::Joined),
        Reply::Met { group, number } => (group, Awaited::Met(number)),
        Reply::Sent { group, transfer } => (group, Awaited::Sent(transfer)),
        Reply::Received { group, transfer } => (group, Awaited::Received(transfer)),
    };
    inbox.arrived.insert((group, awaited), bytes);
}
