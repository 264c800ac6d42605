//! One mapped safetensors file.

use super::{TensorInfo, unreadable};
use memmap2::Mmap;
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use titan_ir::DiagResult;

/// The tensors of one file.
pub(super) struct SafeFile {
    map: Mmap,
    tensors: BTreeMap<String, (TensorInfo, Range<usize>)>,
}

impl SafeFile {
    /// Maps the file and reads its header; the format's library checks that the tensors tile the file exactly.
    pub(super) fn open(path: &Path) -> DiagResult<Self> {
        let shown = path.display().to_string();
        let file = File::open(path).map_err(|e| unreadable(&shown, &e.to_string()))?;
        // SAFETY: the map is read-only. A file that another program cuts while it is mapped ends this process with SIGBUS; weights
        // and token files are not written while they are trained from.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| unreadable(&shown, &e.to_string()))?;
        let (header_bytes, metadata) =
            SafeTensors::read_metadata(&map).map_err(|e| unreadable(&shown, &e.to_string()))?;
        let data_start = size_of::<u64>() + header_bytes;
        if data_start + metadata.data_len() != map.len() {
            let reason =
                format!("it has {} bytes, its header says {}", map.len(), data_start + metadata.data_len());
            return Err(unreadable(&shown, &reason));
        }
        let mut tensors = BTreeMap::new();
        for name in metadata.offset_keys() {
            let Some(info) = metadata.info(&name) else { continue };
            let range = data_start + info.data_offsets.0..data_start + info.data_offsets.1;
            tensors.insert(name, (TensorInfo { dtype: info.dtype, shape: info.shape.clone() }, range));
        }
        Ok(Self { map, tensors })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    pub(super) fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|(info, _)| info)
    }

    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.tensors.get(name).map(|(_, range)| &self.map[range.clone()])
    }
}
