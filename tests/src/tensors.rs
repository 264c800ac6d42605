//! Files of tensors for runs: fixed batches, and weights with one value changed.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::state::Draw;
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;

/// Bytes before the header of a safetensors file: its length.
const LENGTH_BYTES: usize = 8;

/// Token ids below `vocab` in a fixed order without a pattern.
pub fn draw_tokens(num: usize, vocab: u64) -> Vec<i32> {
    let mut draw = Draw::new("tokens");
    (0..num).map(|_| i32::try_from(draw.index(vocab)).unwrap()).collect()
}

/// Writes a file for `--tokens`: `tokens` of dimensions `[microbatches, sequences, seq_len + 1]`.
pub fn write_tokens(path: &Path, dims: [usize; 3], tokens: &[i32]) {
    assert_eq!(dims.iter().product::<usize>(), tokens.len());
    let data: Vec<u8> = tokens.iter().flat_map(|t| t.to_le_bytes()).collect();
    write_safetensors(path, &[("tokens", "I32", &dims, &data)]);
}

/// Writes tensors: name, element type, dimensions, bytes.
pub fn write_safetensors(path: &Path, tensors: &[(&str, &str, &[usize], &[u8])]) {
    let mut header = serde_json::Map::new();
    let mut start = 0;
    for (name, dtype, dims, data) in tensors {
        let end = start + data.len();
        let entry = json!({ "dtype": dtype, "shape": dims, "data_offsets": [start, end] });
        header.insert((*name).to_owned(), entry);
        start = end;
    }
    let header = Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    tensors.iter().for_each(|(.., data)| bytes.extend_from_slice(data));
    std::fs::write(path, bytes).unwrap();
}

/// Where the bytes of a tensor are in a safetensors file.
fn range(bytes: &[u8], name: &str) -> Range<usize> {
    let (length, rest) = bytes.split_at(LENGTH_BYTES);
    let length = usize::try_from(u64::from_le_bytes(length.try_into().unwrap())).unwrap();
    let header: Value = serde_json::from_slice(&rest[..length]).unwrap();
    let offsets = &header[name]["data_offsets"];
    let at = |i: usize| LENGTH_BYTES + length + usize::try_from(offsets[i].as_u64().unwrap()).unwrap();
    at(0)..at(1)
}

/// Sets elements `elements` of an F32 tensor of a safetensors file.
pub fn set_weights(path: &Path, name: &str, elements: Range<usize>, value: f32) {
    let mut bytes = std::fs::read(path).unwrap();
    let tensor = range(&bytes, name);
    for element in elements {
        bytes[tensor.clone()][element * 4..][..4].copy_from_slice(&value.to_le_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}
