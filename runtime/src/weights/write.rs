//! Writing a safetensors file that is either whole or not there.

use safetensors::Dtype;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use titan_ir::{Diag, DiagResult};

const UNWRITABLE: &str = "T0843";

/// A tensor to be written.
#[derive(Debug, Clone)]
pub struct NamedTensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Element type of `data`.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: &'a [usize],
    /// The elements, row major.
    pub data: &'a [u8],
}

/// Writes the tensors in the given order. The file appears under its name only when it is complete and on disk; the same
/// tensors give the same bytes.
///
/// # Errors
/// The file cannot be written; an older file of that name is then as it was.
pub fn write_safetensors(path: &Path, tensors: &[NamedTensor<'_>]) -> DiagResult<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = write_all(&temporary, tensors).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|e| {
        // The write has failed already; a leftover that cannot be removed either is no further news.
        let _ = std::fs::remove_file(&temporary);
        Diag::new(UNWRITABLE, format!("`{}` cannot be written: {e}", path.display()))
    })
}

fn write_all(path: &Path, tensors: &[NamedTensor<'_>]) -> io::Result<()> {
    let mut header = header(tensors).into_bytes();
    header.resize(header.len().next_multiple_of(size_of::<u64>()), b' ');
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for tensor in tensors {
        out.write_all(tensor.data)?;
    }
    out.into_inner()?.sync_all()
}

fn header(tensors: &[NamedTensor<'_>]) -> String {
    let mut entries = Map::new();
    let mut start = 0;
    for tensor in tensors {
        let end = start + tensor.data.len();
        let entry = json!({
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": [start, end],
        });
        entries.insert(tensor.name.to_string(), entry);
        start = end;
    }
    Value::Object(entries).to_string()
}
