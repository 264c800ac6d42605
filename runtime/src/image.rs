//! The generated code of an artifact, mapped for execution straight from its file.

use crate::kernels::RowKernelFn;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io;
use std::ops::Range;

/// Mapped code.
#[derive(Debug)]
pub struct Image {
    code: Mmap,
    entries: Vec<u64>,
}

impl Image {
    /// Maps bytes `range` of `file`; `entries` are where the kernels start in it, all inside.
    ///
    /// # Errors
    /// What the system says, e.g. on a file system mounted without execution.
    ///
    /// # Safety
    /// The bytes were verified by their hash, the machine has the features they use, and the file is not written while mapped.
    pub unsafe fn map(file: &File, range: Range<usize>, entries: Vec<u64>) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        options.offset(range.start as u64).len(range.len().max(1));
        // SAFETY: the caller's.
        let code = unsafe { options.map_exec(file)? };
        Ok(Self { code, entries })
    }

    /// The code of a kernel.
    pub fn kernel(&self, index: u32) -> RowKernelFn {
        let entry = self.entries[index as usize] as usize;
        let code: *const u8 = &raw const self.code[entry];
        // SAFETY: verified code starts there, generated for this signature.
        unsafe { std::mem::transmute::<*const u8, RowKernelFn>(code) }
    }
}
