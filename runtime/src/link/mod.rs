//! What processes of one run say to each other, by TCP: how the communicators find each other, when to stop, the weights at the end.
//! The process of rank 0 is in the middle. The steps themselves communicate by HCCL alone.

mod frame;
mod meet;

pub(crate) use meet::Hello;

use crate::comm::World;
use crate::launch::Rendezvous;
use frame::Kind;
use meet::Peer;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use titan_ir::{Diag, DiagResult};

/// Messages that wait to be taken before their sender waits.
const NUM_WAITING: usize = 16;

/// The other processes, or the one in the middle.
#[derive(Debug)]
pub(crate) struct Link {
    /// Whether this is the process in the middle.
    is_center: bool,
    /// Whether that process saves the weights.
    pub(crate) saves_weights: bool,
    peers: Vec<Connection>,
    fault: Arc<Mutex<Option<String>>>,
    /// Whether the others know how the run ended here.
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct Connection {
    ranks: Range<u64>,
    stream: Mutex<TcpStream>,
    inbox: Mutex<Receiver<Vec<u8>>>,
}

impl Link {
    /// Meets the other processes. A failure of one of them stops `world`.
    ///
    /// # Errors
    /// T0762 and T0763 as in [`meet`].
    pub(crate) fn new(rendezvous: &Rendezvous, hello: &Hello, world: &Arc<World>) -> DiagResult<Self> {
        let is_center = hello.ranks.contains(&0);
        let (peers, center) = if is_center {
            (meet::listen(rendezvous, hello)?, hello.clone())
        } else {
            let (peer, center) = meet::join(rendezvous, hello)?;
            (vec![peer], center)
        };
        let fault = Arc::new(Mutex::new(None));
        let connect = |peer| Connection::new(peer, world, &fault);
        let peers = peers.into_iter().map(connect).collect::<io::Result<_>>();
        let peers = peers.map_err(|e| Diag::new("T0762", format!("rendezvous: {e}")))?;
        let saves_weights = center.saves_weights;
        Ok(Self { is_center, saves_weights, peers, fault, is_closed: AtomicBool::new(false) })
    }

    /// The least of what all processes give; all wait for each other.
    ///
    /// # Errors
    /// T0764 when a process has failed.
    pub(crate) fn min(&self, value: u64) -> DiagResult<u64> {
        let number = |bytes: Vec<u8>| bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
        if self.is_center {
            let mut least = value;
            for peer in &self.peers {
                least = least.min(number(self.receive(peer)?));
            }
            self.peers.iter().try_for_each(|peer| self.send(peer, &[&least.to_le_bytes()]))?;
            return Ok(least);
        }
        self.send(&self.peers[0], &[&value.to_le_bytes()])?;
        self.receive(&self.peers[0]).map(number)
    }

    /// What the process in the middle gives; it gives `bytes`, the others get them.
    ///
    /// # Errors
    /// T0764 when a process has failed.
    pub(crate) fn broadcast(&self, bytes: &[u8]) -> DiagResult<Vec<u8>> {
        if !self.is_center {
            return self.receive(&self.peers[0]);
        }
        self.peers.iter().try_for_each(|peer| self.send(peer, &[bytes]))?;
        Ok(bytes.to_vec())
    }

    /// Whether this is the process of rank 0.
    pub(crate) fn is_center(&self) -> bool {
        self.is_center
    }

    /// Gives bytes, in parts, to the process in the middle; none says that these were all.
    ///
    /// # Errors
    /// T0764 when it has failed.
    pub(crate) fn give(&self, parts: &[&[u8]]) -> DiagResult<()> {
        self.send(&self.peers[0], parts)
    }

    /// Takes all that the others give.
    ///
    /// # Errors
    /// T0764 when one has failed.
    pub(crate) fn take_all(&self, mut take: impl FnMut(&[u8])) -> DiagResult<()> {
        for peer in &self.peers {
            loop {
                let bytes = self.receive(peer)?;
                if bytes.is_empty() {
                    break;
                }
                take(&bytes);
            }
        }
        Ok(())
    }

    /// What another process said when it failed.
    pub(crate) fn failure(&self) -> Option<Diag> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Diag::new("T0764", fault).help("look at what that process says"))
    }

    /// Tells the others how the run ended here, once.
    pub(crate) fn close(&self, failure: Option<&Diag>) {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return;
        }
        for peer in &self.peers {
            let mut stream = peer.stream.lock().unwrap_or_else(PoisonError::into_inner);
            // They may have gone before.
            let _ = match failure {
                Some(diag) => frame::write(&mut *stream, Kind::Stop, &[diag.message.as_bytes()]),
                None => frame::write(&mut *stream, Kind::Bye, &[]),
            };
            let _ = stream.shutdown(Shutdown::Write);
        }
    }

    fn send(&self, peer: &Connection, parts: &[&[u8]]) -> DiagResult<()> {
        let mut stream = peer.stream.lock().unwrap_or_else(PoisonError::into_inner);
        frame::write(&mut *stream, Kind::Data, parts).map_err(|_| self.lost(peer))
    }

    fn receive(&self, peer: &Connection) -> DiagResult<Vec<u8>> {
        let inbox = peer.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match inbox.recv_timeout(Duration::from_millis(100)) {
                Ok(bytes) => return Ok(bytes),
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost(peer)),
                // Who is waited for may wait for one that has failed.
                Err(RecvTimeoutError::Timeout) => self.failure().map_or(Ok(()), Err)?,
            }
        }
    }

    fn lost(&self, peer: &Connection) -> Diag {
        self.failure().unwrap_or_else(|| Diag::new("T0764", gone(&peer.ranks)))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for peer in &self.peers {
            let stream = peer.stream.lock().unwrap_or_else(PoisonError::into_inner);
            // The other side may have done so.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn gone(ranks: &Range<u64>) -> String {
    format!("the process of rank {} has ended before the run", ranks.start)
}

impl Connection {
    fn new(peer: Peer, world: &Arc<World>, fault: &Arc<Mutex<Option<String>>>) -> io::Result<Self> {
        let Peer { ranks, stream } = peer;
        let (sender, inbox) = sync_channel(NUM_WAITING);
        let (from, world, fault, of) =
            (stream.try_clone()?, Arc::clone(world), Arc::clone(fault), ranks.clone());
        let listen = move || {
            if let Some(why) = read_all(from, &sender, &of) {
                fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                world.stop();
            }
        };
        std::thread::Builder::new().name("titan-link".to_owned()).spawn(listen)?;
        Ok(Self { ranks, stream: Mutex::new(stream), inbox: Mutex::new(inbox) })
    }
}

/// Hands on what comes until the other side ends; why, if that is a failure.
fn read_all(mut from: TcpStream, to: &SyncSender<Vec<u8>>, ranks: &Range<u64>) -> Option<String> {
    loop {
        match frame::read(&mut from) {
            Ok((Kind::Data, bytes)) => {
                if to.send(bytes).is_err() {
                    return None;
                }
            }
            Ok((Kind::Bye, _)) => return None,
            Ok((_, why)) => {
                let why = String::from_utf8_lossy(&why).into_owned();
                return Some(format!("the process of rank {} has failed: {why}", ranks.start));
            }
            Err(_) => return Some(gone(ranks)),
        }
    }
}

#[cfg(test)]
mod tests;
