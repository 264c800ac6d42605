//! Writing.

use super::{FORMAT_VERSION, MAGIC, NAME_BYTES, PAGE_BYTES, header_bytes};

/// The bytes of an artifact with these sections, in this order.
///
/// # Panics
/// If a section name is longer than 24 bytes.
pub fn encode(sections: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut offset = header_bytes(sections.len()).next_multiple_of(PAGE_BYTES);
    let mut table = Vec::new();
    for (name, bytes) in sections {
        let mut field = [0_u8; NAME_BYTES];
        field[..name.len()].copy_from_slice(name.as_bytes());
        table.extend_from_slice(&field);
        table.extend_from_slice(&(offset as u64).to_le_bytes());
        table.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        table.extend_from_slice(blake3::hash(bytes).as_bytes());
        offset = (offset + bytes.len()).next_multiple_of(PAGE_BYTES);
    }
    let mut file = Vec::with_capacity(offset);
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    file.extend_from_slice(&u32::try_from(sections.len()).expect("few sections").to_le_bytes());
    file.extend_from_slice(&(offset as u64).to_le_bytes());
    file.extend_from_slice(&table);
    let hash = blake3::hash(&file);
    file.extend_from_slice(hash.as_bytes());
    for (_, bytes) in sections {
        file.resize(file.len().next_multiple_of(PAGE_BYTES), 0);
        file.extend_from_slice(bytes);
    }
    file.resize(offset, 0);
    file
}
