//! Where all ranks meet.

use super::channel::{Channel, Letter};
use super::wire::{Group, Request, receive, send};
use super::{fault, lock, seconds};
use crate::fault::Fault;
use ascend_rs_sys::types::HcclResult;
use std::collections::BTreeMap;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often a hub looks whether somebody has come.
const POLL: Duration = Duration::from_millis(1);

/// The address of a hub's socket, which lives in memory only.
pub(super) fn address(name: &str) -> Result<SocketAddr, Fault> {
    SocketAddr::from_abstract_name(name)
        .map_err(|error| fault(HcclResult::HCCL_E_SYSCALL, format!("the socket {name}: {error}")))
}

#[derive(Default)]
struct Hub {
    channels: BTreeMap<Group, Channel>,
    /// By rank among all.
    writers: BTreeMap<u32, Arc<Mutex<UnixStream>>>,
}

/// Serves the socket `name` until all ranks have come, and each of them until it goes.
///
/// # Errors
/// The name is taken.
pub(super) fn serve(name: &str) -> Result<(), Fault> {
    let listener = UnixListener::bind_addr(&address(name)?)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| fault(HcclResult::HCCL_E_TCP_CONNECT, format!("the socket {name}: {error}")))?;
    let hub = Arc::new(Mutex::new(Hub::default()));
    let deadline = Instant::now() + seconds("HCCL_CONNECT_TIMEOUT", 120);
    thread::spawn(move || {
        while Instant::now() < deadline && !lock(&hub).is_complete() {
            match listener.accept() {
                Ok((stream, _)) => {
                    let hub = Arc::clone(&hub);
                    thread::spawn(move || attend(&hub, stream));
                }
                Err(_) => thread::sleep(POLL),
            }
        }
    });
    Ok(())
}

/// Serves one rank.
fn attend(hub: &Mutex<Hub>, mut stream: UnixStream) {
    let writer = match stream.set_nonblocking(false).and_then(|()| stream.try_clone()) {
        Ok(writer) => Arc::new(Mutex::new(writer)),
        Err(_) => return,
    };
    let mut who = None;
    while let Ok((request, bytes)) = receive::<Request>(&mut stream) {
        if let Request::Join { group, rank, .. } = &request
            && who.is_none()
        {
            who = group.ranks.get(*rank as usize).copied();
            lock(hub).writers.entry(who.unwrap_or(0)).or_insert_with(|| Arc::clone(&writer));
        }
        let letters = lock(hub).handle(request, bytes);
        deliver(letters);
    }
    let letters = lock(hub).lose(who);
    deliver(letters);
}

/// A letter with the stream it goes to.
type Addressed = (Arc<Mutex<UnixStream>>, Letter);

/// Sends letters. One that cannot be sent is for a rank that is gone, which its own thread finds out.
fn deliver(letters: Vec<Addressed>) {
    for (writer, (_, reply, bytes)) in letters {
        let _ = send(&mut *lock(&writer), &reply, &bytes);
    }
}

impl Hub {
    fn is_complete(&self) -> bool {
        self.channels.iter().any(|(group, channel)| group.id.is_none() && channel.is_complete())
    }

    fn handle(&mut self, request: Request, bytes: Vec<u8>) -> Vec<Addressed> {
        let group = match &request {
            Request::Join { group, .. }
            | Request::Meet { group, .. }
            | Request::Send { group, .. }
            | Request::Receive { group, .. }
            | Request::GiveUp { group, .. }
            | Request::Leave { group, .. } => group.clone(),
        };
        let seed = u64::from(std::process::id()) ^ (self.channels.len() as u64) << 32;
        let channel = self.channels.entry(group.clone()).or_insert_with(|| Channel::new(group.clone(), seed));
        let letters = match request {
            Request::Join { rank, terms, .. } => channel.join(rank, terms),
            Request::Meet { rank, number, collective, .. } => channel.meet(rank, number, (collective, bytes)),
            Request::Send { transfer, count, dtype, .. } => {
                channel.transfer(transfer, 0, (count, dtype, bytes))
            }
            Request::Receive { transfer, count, dtype, .. } => {
                channel.transfer(transfer, 1, (count, dtype, bytes))
            }
            Request::GiveUp { rank, what, .. } => channel.give_up(rank, &what),
            Request::Leave { rank, .. } => channel.leave(rank),
        };
        if channel.is_over() {
            self.channels.remove(&group);
        }
        self.addressed(&group, letters)
    }

    /// A rank's connection has ended: what it has not left is broken.
    fn lose(&mut self, who: Option<u32>) -> Vec<Addressed> {
        let Some(who) = who else { return Vec::new() };
        self.writers.remove(&who);
        let mut letters = Vec::new();
        let groups: Vec<Group> = self.channels.keys().filter(|g| g.ranks.contains(&who)).cloned().collect();
        for group in groups {
            let rank = group.ranks.iter().position(|&r| r == who).unwrap_or(0);
            let broken = self.channels.get_mut(&group).map(|channel| channel.lose(rank as u32));
            letters.extend(self.addressed(&group, broken.unwrap_or_default()));
            if self.channels.get(&group).is_some_and(Channel::is_over) {
                self.channels.remove(&group);
            }
        }
        letters
    }

    fn addressed(&self, group: &Group, letters: Vec<Letter>) -> Vec<Addressed> {
        let writer = |rank: u32| self.writers.get(group.ranks.get(rank as usize)?).cloned();
        letters.into_iter().filter_map(|letter| Some((writer(letter.0)?, letter))).collect()
    }
}
