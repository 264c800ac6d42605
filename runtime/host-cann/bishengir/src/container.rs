//! What an object file holds: the code, and how it is called.
//!
//! ```text
//! "TITANHK1" | u32 bytes of the target's name | name | u32 bytes of the description | JSON | shared library
//! ```
//! Numbers are little-endian. The library defines `extern "C" void SYMBOL(void** args)`; `args` holds one pointer per argument.

use serde::{Deserialize, Serialize};

/// The first bytes.
pub const MAGIC: &[u8; 8] = b"TITANHK1";

/// A pointer a kernel takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arg {
    /// Bytes behind it.
    pub size_bytes: u64,
    /// `read` or `write`.
    pub access: String,
}

/// How a kernel is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Name of the function.
    pub symbol: String,
    /// Inputs, then outputs.
    pub args: Vec<Arg>,
    /// Blocks it was compiled for.
    pub num_blocks: u32,
}

/// An object file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The device it stands in for.
    pub target: String,
    /// How it is called.
    pub description: Description,
    /// An ELF shared library.
    pub library: Vec<u8>,
}

impl Container {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let description = serde_json::to_vec(&self.description).expect("strings and numbers are JSON");
        let mut bytes = MAGIC.to_vec();
        for part in [self.target.as_bytes(), &description] {
            let len = u32::try_from(part.len()).expect("names and argument lists are short");
            bytes.extend(len.to_le_bytes());
            bytes.extend(part);
        }
        bytes.extend(&self.library);
        bytes
    }

    /// Reads what [`Container::encode`] wrote; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (target, rest) = part(bytes.strip_prefix(MAGIC)?)?;
        let (description, library) = part(rest)?;
        Some(Self {
            target: String::from_utf8(target.to_vec()).ok()?,
            description: serde_json::from_slice(description).ok()?,
            library: library.to_vec(),
        })
    }
}

/// Splits off what is behind its length.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
}
