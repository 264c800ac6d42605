//! Bytes: who wrote them last, who has read them since.

use super::clock::Clocks;
use super::origin::Origin;
use std::collections::BTreeMap;
use titan_ir::plan::{Address, Arena};

/// An access: stream and time; time 0 is before everything.
type When = (u8, u64);

/// Bytes that share a history.
#[derive(Debug, Clone)]
struct Piece {
    end: u64,
    origin: Origin,
    written: When,
    /// The last read of each stream.
    reads: Vec<When>,
}

/// Why an access is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// Bytes nobody wrote.
    Unwritten,
    /// The write of the other stream may still run.
    WriteInFlight,
    /// The read of the other stream may still run.
    ReadInFlight,
}

impl Conflict {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Unwritten => "reads bytes that nothing has written",
            Self::WriteInFlight => "touches bytes that another stream may still be writing",
            Self::ReadInFlight => "overwrites bytes that another stream may still be reading",
        }
    }
}

/// Both arenas.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pieces: BTreeMap<(Arena, u64), Piece>,
}

impl Memory {
    /// Bytes that were there before everything.
    pub(super) fn host_write(&mut self, address: Address, len_bytes: u64, origin: Origin) {
        self.replace(address, len_bytes, Piece { end: 0, origin, written: (0, 0), reads: Vec::new() });
    }

    /// Reads; gives the origins of the bytes.
    pub(super) fn read(
        &mut self,
        address: Address,
        len_bytes: u64,
        (stream, time): When,
        clocks: &Clocks,
    ) -> Result<Vec<Origin>, Conflict> {
        self.cut(address, len_bytes);
        let (mut at, end) = (address.offset_bytes, address.offset_bytes + len_bytes);
        let mut origins = Vec::new();
        for (&(_, start), piece) in self.pieces.range_mut((address.arena, at)..(address.arena, end)) {
            if start != at {
                return Err(Conflict::Unwritten);
            }
            if !clocks.knows(stream, piece.written.0, piece.written.1) {
                return Err(Conflict::WriteInFlight);
            }
            piece.reads.retain(|r| r.0 != stream);
            piece.reads.push((stream, time));
            if origins.last() != Some(&piece.origin) {
                origins.push(piece.origin);
            }
            at = piece.end;
        }
        if at == end { Ok(origins) } else { Err(Conflict::Unwritten) }
    }

    /// Writes.
    pub(super) fn write(
        &mut self,
        address: Address,
        len_bytes: u64,
        origin: Origin,
        (stream, time): When,
        clocks: &Clocks,
    ) -> Result<(), Conflict> {
        self.cut(address, len_bytes);
        let (at, end) = (address.offset_bytes, address.offset_bytes + len_bytes);
        let mut result = Ok(());
        for (_, piece) in self.pieces.range((address.arena, at)..(address.arena, end)) {
            if !clocks.knows(stream, piece.written.0, piece.written.1) {
                result = Err(Conflict::WriteInFlight);
            } else if piece.reads.iter().any(|r| !clocks.knows(stream, r.0, r.1)) {
                result = Err(Conflict::ReadInFlight);
            }
        }
        self.replace(
            address,
            len_bytes,
            Piece { end: 0, origin, written: (stream, time), reads: Vec::new() },
        );
        result
    }

    /// The origins of bytes, without an access; empty if any byte was never written.
    pub(super) fn peek(&self, address: Address, len_bytes: u64) -> Vec<Origin> {
        let (mut at, end) = (address.offset_bytes, address.offset_bytes + len_bytes);
        let mut origins = Vec::new();
        while at < end {
            let piece = self.pieces.range(..=(address.arena, at)).next_back();
            match piece {
                Some(((arena, _), piece)) if *arena == address.arena && piece.end > at => {
                    origins.push(piece.origin);
                    at = piece.end;
                }
                _ => return Vec::new(),
            }
        }
        origins
    }

    fn replace(&mut self, address: Address, len_bytes: u64, piece: Piece) {
        self.cut(address, len_bytes);
        let (at, end) = (address.offset_bytes, address.offset_bytes + len_bytes);
        let old: Vec<(Arena, u64)> =
            self.pieces.range((address.arena, at)..(address.arena, end)).map(|(&key, _)| key).collect();
        old.iter().for_each(|key| drop(self.pieces.remove(key)));
        if len_bytes > 0 {
            self.pieces.insert((address.arena, at), Piece { end, ..piece });
        }
    }

    /// Makes pieces begin and end where the range does.
    fn cut(&mut self, address: Address, len_bytes: u64) {
        for at in [address.offset_bytes, address.offset_bytes + len_bytes] {
            let Some((&(arena, start), piece)) = self.pieces.range_mut(..(address.arena, at)).next_back()
            else {
                continue;
            };
            if arena == address.arena && start < at && piece.end > at {
                let rest = piece.clone();
                piece.end = at;
                self.pieces.insert((arena, at), rest);
            }
        }
    }
}
