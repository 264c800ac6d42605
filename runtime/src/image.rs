//! The generated code of an artifact, mapped for execution.

use crate::kernels::RowKernelFn;
use memmap2::{Mmap, MmapMut};
use std::io;

/// Mapped code.
#[derive(Debug)]
pub struct Image {
    code: Mmap,
    entries: Vec<u64>,
}

impl Image {
    /// Maps a copy of `code`; `entries` are where the kernels start in it, all inside. A copy, so that nobody who writes to the file meanwhile
    /// changes what runs.
    ///
    /// # Errors
    /// What the system says, e.g. where memory may not become executable.
    ///
    /// # Safety
    /// The bytes were verified by their hash, and the machine has the features they use.
    pub unsafe fn map(code: &[u8], entries: Vec<u64>) -> io::Result<Self> {
        let mut copy = MmapMut::map_anon(code.len().max(1))?;
        copy[..code.len()].copy_from_slice(code);
        Ok(Self { code: copy.make_exec()?, entries })
    }

    /// The code of a kernel.
    pub fn kernel(&self, index: u32) -> RowKernelFn {
        let entry = self.entries[index as usize] as usize;
        let code: *const u8 = &raw const self.code[entry];
        // SAFETY: verified code starts there, generated for this signature.
        unsafe { std::mem::transmute::<*const u8, RowKernelFn>(code) }
    }
}
