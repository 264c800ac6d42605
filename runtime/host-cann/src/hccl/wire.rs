//! What ranks and hub tell each other: a message in JSON, then bytes.

use super::types::Reduce;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read, Write};

/// Largest message, without its bytes.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Which communicator of a hub: the one of all ranks, or a group's number and members.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Group {
    /// `subCommId`; none for all ranks.
    pub(super) id: Option<u64>,
    /// Ranks among all, in the order of the group.
    pub(super) ranks: Vec<u32>,
}

/// What ranks of a communicator must agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Terms {
    pub(super) size: u32,
    pub(super) buffer_mib: u32,
    pub(super) deterministic: u32,
}

/// What a collective does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    Scatter,
    AlltoAll,
    AlltoAllV,
    Barrier,
}

/// A collective as one rank sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Collective {
    pub(super) kind: Kind,
    /// Elements, counted as the function counts them.
    pub(super) count: u64,
    pub(super) dtype: i32,
    /// Bytes of an element.
    pub(super) size_bytes: usize,
    pub(super) reduce: Option<Reduce>,
    pub(super) root: Option<u32>,
    /// Which of this communicator's captured graphs it is replayed from.
    pub(super) graph: Option<usize>,
    /// Of `AlltoAllV`: elements to and from each rank.
    pub(super) counts: Option<[Vec<u64>; 2]>,
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = super::types::name(ascend_rs_sys::types::HcclDataType(self.dtype));
        write!(f, "{:?} of {} {dtype}", self.kind, self.count)?;
        if let Some(reduce) = self.reduce {
            write!(f, ", {reduce:?}")?;
        }
        if let Some(root) = self.root {
            write!(f, ", root {root}")?;
        }
        match self.graph {
            Some(graph) => write!(f, ", in graph {graph}"),
            None => write!(f, ", in no graph"),
        }
    }
}

/// One side of a transfer between two ranks of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Which transfer of this pair.
    pub(super) number: u64,
}

/// From a rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Request {
    /// Rank `rank` of the group is there.
    Join { group: Group, rank: u32, terms: Terms },
    /// It takes part in operation `number` of the group; its bytes follow.
    Meet { group: Group, rank: u32, number: u64, collective: Collective },
    /// It sends; its bytes follow.
    Send { group: Group, transfer: Transfer, count: u64, dtype: i32 },
    /// It receives.
    Receive { group: Group, transfer: Transfer, count: u64, dtype: i32 },
    /// It waited too long.
    GiveUp { group: Group, rank: u32, what: String },
    /// It has destroyed the communicator.
    Leave { group: Group, rank: u32 },
}

/// To a rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Reply {
    /// All ranks of the group are there.
    Joined { group: Group },
    /// Operation `number` is done; the bytes for this rank follow.
    Met { group: Group, number: u64 },
    /// What was sent has been taken.
    Sent { group: Group, transfer: Transfer },
    /// The bytes received follow.
    Received { group: Group, transfer: Transfer },
    /// The group is of no more use.
    Broken { group: Group, why: String, timed_out: bool },
}

/// Writes a message.
pub(super) fn send(stream: &mut impl Write, message: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let message = serde_json::to_vec(message).map_err(io::Error::other)?;
    let mut head = [0u8; 16];
    head[..8].copy_from_slice(&(message.len() as u64).to_le_bytes());
    head[8..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    stream.write_all(&[&head[..], &message].concat())?;
    stream.write_all(bytes)
}

/// Reads a message.
pub(super) fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<(T, Vec<u8>)> {
    let mut head = [[0u8; 8]; 2];
    stream.read_exact(head.as_flattened_mut())?;
    let [message_len, bytes_len] = head.map(|len| u64::from_le_bytes(len) as usize);
    if message_len > MAX_MESSAGE_BYTES {
        return Err(io::Error::other("a message is too long"));
    }
    let mut message = vec![0; message_len];
    stream.read_exact(&mut message)?;
    let mut bytes = vec![0; bytes_len];
    stream.read_exact(&mut bytes)?;
    Ok((serde_json::from_slice(&message).map_err(io::Error::other)?, bytes))
}
