//! How the processes of a run find each other: that of rank 0 listens, the others come to it.

use super::frame::{self, Kind};
use crate::launch::Rendezvous;
use crate::metrics::{info, warning};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use titan_ir::{Diag, DiagResult};

/// What a process says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// BLAKE3 of all the artifact was built from.
    pub(crate) fingerprint: String,
    /// Ranks of the run.
    pub(crate) world_size: u64,
    /// Its ranks.
    pub(crate) ranks: Range<u64>,
    /// Steps it will run.
    pub(crate) steps: u64,
    /// Whether weights are saved; the process of rank 0 decides.
    pub(crate) saves_weights: bool,
}

/// Another process.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) ranks: Range<u64>,
    pub(super) stream: TcpStream,
}

fn failed(rendezvous: &Rendezvous, what: impl std::fmt::Display) -> Diag {
    Diag::new("T0762", format!("rendezvous at {}: {what}", rendezvous.address))
}

/// Waits for all others.
///
/// # Errors
/// T0762 when the address cannot be listened at or not all come in time, T0763 when they do not fit together.
pub(super) fn listen(rendezvous: &Rendezvous, hello: &Hello) -> DiagResult<Vec<Peer>> {
    let address = resolve(rendezvous)?;
    let listener = TcpListener::bind(address).map_err(|e| {
        failed(rendezvous, format!("rank 0 cannot listen: {e}"))
            .help("give --rendezvous an address of the machine of rank 0 and a free port")
    })?;
    listener.set_nonblocking(true).map_err(|e| failed(rendezvous, e))?;
    info(&format!(
        "Waiting at {} for {}",
        rendezvous.address,
        in_words(&(hello.ranks.end..hello.world_size))
    ));
    let start = Instant::now();
    let (arrived, arrivals) = mpsc::channel();
    let mut peers: Vec<Peer> = Vec::new();
    loop {
        let missing = missing_ranks(hello, &peers);
        if missing.is_empty() {
            break;
        }
        match listener.accept() {
            // In a thread of its own: one who says nothing keeps nobody waiting.
            Ok((stream, from)) => {
                let (arrived, timeout) = (arrived.clone(), rendezvous.timeout);
                std::thread::spawn(move || arrived.send((from, greet(stream, timeout))));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(20)),
            Err(e) => return Err(failed(rendezvous, e)),
        }
        for (from, greeting) in arrivals.try_iter() {
            match greeting {
                Ok((mut stream, theirs)) => match disagreement(hello, &peers, &theirs) {
                    None => peers.push(Peer { ranks: theirs.ranks, stream }),
                    Some(why) => {
                        refuse(&mut stream, &why);
                        peers.iter_mut().for_each(|peer| refuse(&mut peer.stream, &why));
                        return Err(Diag::new("T0763", format!("the processes do not fit together: {why}")));
                    }
                },
                // A stranger is no reason to give up.
                Err(e) => warning(&format!("somebody at {from} is not of this run: {e}")),
            }
        }
        if start.elapsed() > rendezvous.timeout {
            let missing: Vec<String> = missing.iter().map(u64::to_string).collect();
            let why = format!(
                "after {} s ranks {} have not come",
                rendezvous.timeout.as_secs(),
                missing.join(", ")
            );
            peers.iter_mut().for_each(|peer| refuse(&mut peer.stream, &why));
            return Err(failed(rendezvous, why).help("start them, or wait longer with --rendezvous-timeout"));
        }
    }
    let welcome = to_json(hello);
    for peer in &mut peers {
        frame::write(&mut peer.stream, Kind::Welcome, &[&welcome]).map_err(|e| failed(rendezvous, e))?;
        settle(&peer.stream).map_err(|e| failed(rendezvous, e))?;
    }
    Ok(peers)
}

/// Goes to the process of rank 0, and gives what that says of itself.
///
/// # Errors
/// T0762 when it is not there in time, T0763 when it says that the processes do not fit together.
pub(super) fn join(rendezvous: &Rendezvous, hello: &Hello) -> DiagResult<(Peer, Hello)> {
    info(&format!("Joining rank 0 at {} with {}", rendezvous.address, in_words(&hello.ranks)));
    let start = Instant::now();
    let mut stream = loop {
        let last = match resolve(rendezvous).map(TcpStream::connect) {
            Ok(Ok(stream)) => break stream,
            Ok(Err(e)) => e.to_string(),
            Err(diag) => diag.message,
        };
        if start.elapsed() > rendezvous.timeout {
            let why = format!("rank 0 is not there after {} s: {last}", rendezvous.timeout.as_secs());
            return Err(failed(rendezvous, why).help(
                "start the process of rank 0, let the port through, or wait longer with --rendezvous-timeout",
            ));
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let lost = |e: io::Error| {
        failed(rendezvous, format!("rank 0 has gone: {e}")).help("look at what the process of rank 0 says")
    };
    frame::write(&mut stream, Kind::Hello, &[&to_json(hello)]).map_err(lost)?;
    // It answers when all have come or its own time is over.
    stream.set_read_timeout(Some(rendezvous.timeout + Duration::from_secs(10))).map_err(lost)?;
    match frame::read(&mut stream).map_err(lost)? {
        (Kind::Welcome, theirs) => {
            settle(&stream).map_err(lost)?;
            let theirs = serde_json::from_slice(&theirs).map_err(|e| lost(e.into()))?;
            Ok((Peer { ranks: 0..1, stream }, theirs))
        }
        (_, why) => Err(Diag::new(
            "T0763",
            format!("the process of rank 0 refuses the run: {}", String::from_utf8_lossy(&why)),
        )),
    }
}

/// `rank 3` or `ranks 1 to 3`.
fn in_words(ranks: &Range<u64>) -> String {
    match ranks.end - ranks.start {
        1 => format!("rank {}", ranks.start),
        _ => format!("ranks {} to {}", ranks.start, ranks.end.saturating_sub(1)),
    }
}

fn to_json(hello: &Hello) -> Vec<u8> {
    serde_json::to_vec(hello).expect("numbers and text are JSON")
}

fn resolve(rendezvous: &Rendezvous) -> DiagResult<std::net::SocketAddr> {
    let found = rendezvous.address.to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(failed(rendezvous, "the name has no address")),
        Err(e) => Err(failed(rendezvous, e)),
    }
}

fn greet(mut stream: TcpStream, timeout: Duration) -> io::Result<(TcpStream, Hello)> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(timeout.min(Duration::from_secs(5))))?;
    let (kind, bytes) = frame::read(&mut stream)?;
    let hello = serde_json::from_slice(&bytes).ok().filter(|_| kind == Kind::Hello);
    hello.map(|hello| (stream, hello)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A stream for the whole run: small messages at once, and a machine that is gone is noticed.
fn settle(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    stream.set_nodelay(true)?;
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 6),
    ];
    for (level, option, value) in options {
        let fd = std::os::fd::AsRawFd::as_raw_fd(stream);
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the descriptor is the stream's, the value an int. Where the system refuses, a loss is noticed later.
        unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), size) };
    }
    Ok(())
}

fn refuse(stream: &mut TcpStream, why: &str) {
    // The one refused may be gone.
    let _ = frame::write(stream, Kind::Refusal, &[why.as_bytes()]);
}

fn missing_ranks(hello: &Hello, peers: &[Peer]) -> Vec<u64> {
    let here = |rank: &u64| hello.ranks.contains(rank) || peers.iter().any(|peer| peer.ranks.contains(rank));
    (0..hello.world_size).filter(|rank| !here(rank)).collect()
}

/// Why a process cannot be of this run.
fn disagreement(ours: &Hello, peers: &[Peer], theirs: &Hello) -> Option<String> {
    let name = format!("the process of ranks {}..{}", theirs.ranks.start, theirs.ranks.end);
    if theirs.world_size != ours.world_size {
        return Some(format!("{name} is of a run of {} ranks, not {}", theirs.world_size, ours.world_size));
    }
    if theirs.fingerprint != ours.fingerprint {
        return Some(format!("{name} has another artifact"));
    }
    if theirs.steps != ours.steps {
        return Some(format!("{name} runs {} steps, not {}", theirs.steps, ours.steps));
    }
    let mut taken = peers.iter().map(|peer| &peer.ranks).chain([&ours.ranks]);
    let overlaps = |range: &Range<u64>| range.start < theirs.ranks.end && theirs.ranks.start < range.end;
    taken.find(|range| overlaps(range)).map(|range| {
        format!("{name} and that of ranks {}..{} share ranks: look at --first-rank", range.start, range.end)
    })
}
