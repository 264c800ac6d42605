//! Messages between processes: a kind, a length, bytes.

use std::io::{self, Read, Write};

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The first one: who is there.
    Hello = 1,
    /// All are there.
    Welcome = 2,
    /// The processes do not fit together: why.
    Refusal = 3,
    /// What the receiver waits for.
    Data = 4,
    /// The run has failed: why.
    Stop = 5,
    /// The run has ended well.
    Bye = 6,
}

/// Longest message: a bound for what a stranger on the port may claim.
const MAX_BYTES: u64 = 1 << 32;

/// Starts every message, so that a stranger is known at once.
const MAGIC: [u8; 4] = *b"TTN1";

/// Writes a message.
pub(super) fn write(to: &mut impl Write, kind: Kind, parts: &[&[u8]]) -> io::Result<()> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut head = [0; 13];
    head[..4].copy_from_slice(&MAGIC);
    head[4] = kind as u8;
    head[5..].copy_from_slice(&(len as u64).to_le_bytes());
    to.write_all(&head)?;
    parts.iter().try_for_each(|part| to.write_all(part))?;
    to.flush()
}

/// Reads a message.
pub(super) fn read(from: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; 13];
    from.read_exact(&mut head)?;
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "what came is not from a titan-run");
    let kinds = [Kind::Hello, Kind::Welcome, Kind::Refusal, Kind::Data, Kind::Stop, Kind::Bye];
    let kind = kinds.into_iter().find(|&kind| kind as u8 == head[4]).ok_or_else(strange)?;
    let len = u64::from_le_bytes(head[5..].try_into().expect("eight bytes"));
    if head[..4] != MAGIC || len > MAX_BYTES {
        return Err(strange());
    }
    let mut bytes = vec![0; len as usize];
    from.read_exact(&mut bytes)?;
    Ok((kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in() {
        let mut wire = Vec::new();
        write(&mut wire, Kind::Data, &[b"ab", b"", b"c"]).unwrap();
        write(&mut wire, Kind::Bye, &[]).unwrap();
        let mut wire = wire.as_slice();
        assert_eq!(read(&mut wire).unwrap(), (Kind::Data, b"abc".to_vec()));
        assert_eq!(read(&mut wire).unwrap(), (Kind::Bye, Vec::new()));
        assert_eq!(read(&mut wire).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn strangers_are_known() {
        for wire in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"TTN1\x09\0\0\0\0\0\0\0\0",
            b"TTN1\x04\xff\xff\xff\xff\xff\0\0\0",
        ] {
            assert_eq!(read(&mut &*wire).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
