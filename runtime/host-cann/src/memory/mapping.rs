//! Pages: memory that is NaN at first, and addresses without memory.

use crate::fault::Fault;
use ascend_rs_sys::types::ACL_ERROR_RT_MEMORY_ALLOCATION;
use std::ffi::c_void;
use std::io;
use std::ptr;
use std::sync::OnceLock;

/// Bytes of a page of the host.
pub(crate) const PAGE: usize = 4096;

/// The byte of fresh memory: NaN in every floating type, -1 in every signed one.
pub(crate) const FRESH: u8 = 0xff;

/// From this size on, fresh pages are copies made when they are first written.
const LARGE: usize = 4 << 20;

/// Pages with a page on either side that may not be touched.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Where the first guard begins.
    base: usize,
    /// All bytes, guards included.
    len: usize,
}

impl Mapping {
    /// Addresses for `len` bytes, none of which may be touched.
    pub(crate) fn reserve(len: usize) -> Result<Self, Fault> {
        let len = len.next_multiple_of(PAGE).saturating_add(2 * PAGE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the system's choice.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED { Err(failed(len)) } else { Ok(Self { base: base as usize, len }) }
    }

    /// Fresh memory for at least `len` bytes.
    pub(crate) fn fresh(len: usize) -> Result<Self, Fault> {
        let mapping = Self::reserve(len)?;
        let body = mapping.len - 2 * PAGE;
        if body >= LARGE {
            map_fresh(mapping.body(), body)?;
        } else {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the pages are this mapping's.
            let status = unsafe { libc::mprotect(mapping.body() as *mut c_void, body, prot) };
            if status != 0 {
                return Err(failed(body));
            }
            // SAFETY: these pages may be written now, and nobody else knows them yet.
            unsafe { ptr::write_bytes(mapping.body() as *mut u8, FRESH, body) };
        }
        Ok(mapping)
    }

    /// The first address after the first guard.
    pub(crate) fn body(&self) -> usize {
        self.base + PAGE
    }

    /// The address of the second guard.
    pub(crate) fn body_end(&self) -> usize {
        self.base + self.len - PAGE
    }

    /// Puts the first `len` bytes of the file `fd` at `address` of this mapping.
    pub(crate) fn place(&self, address: usize, len: usize, fd: i32) -> Result<(), Fault> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        fixed(address, len, prot, libc::MAP_SHARED, fd)
    }

    /// Takes the memory at `address` away; the addresses stay reserved.
    pub(crate) fn take(&self, address: usize, len: usize) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // Failing leaves the old pages: the range checks still refuse them.
        let _ = fixed(address, len, libc::PROT_NONE, flags, -1);
    }

    /// Takes all memory away; the addresses stay reserved.
    pub(crate) fn take_all(&self) {
        self.take(self.base, self.len);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and who drops it has seen that nothing uses it.
        unsafe { libc::munmap(self.base as *mut c_void, self.len) };
    }
}

fn failed(len: usize) -> Fault {
    let error = io::Error::last_os_error();
    Fault::new(ACL_ERROR_RT_MEMORY_ALLOCATION, format!("the host has no {len} bytes: {error}"))
}

fn fixed(address: usize, len: usize, prot: i32, flags: i32, fd: i32) -> Result<(), Fault> {
    let flags = flags | libc::MAP_FIXED;
    // SAFETY: the caller replaces pages of its own mapping.
    let at = unsafe { libc::mmap(address as *mut c_void, len, prot, flags, fd, 0) };
    if at == libc::MAP_FAILED { Err(failed(len)) } else { Ok(()) }
}

/// Maps fresh bytes over `len` bytes at `address`: a small file of them, again and again, of which a page is copied when it is
/// first written. So a large allocation costs the host only what is used of it.
fn map_fresh(address: usize, len: usize) -> Result<(), Fault> {
    static SMALL: OnceLock<i32> = OnceLock::new();
    static BIG: OnceLock<i32> = OnceLock::new();
    let (cell, chunk) = if len < 4 << 30 { (&SMALL, LARGE) } else { (&BIG, 8 * LARGE) };
    let fd = *cell.get_or_init(|| fresh_file(chunk).unwrap_or(-1));
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
    for offset in (0..len).step_by(chunk) {
        fixed(address + offset, chunk.min(len - offset), prot, flags, fd)?;
    }
    Ok(())
}

/// A file without a name of `len` fresh bytes.
pub(crate) fn fresh_file(len: usize) -> Result<i32, Fault> {
    // SAFETY: the name is a text that ends with zero.
    let fd = unsafe { libc::memfd_create(c"host-cann".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: the file is new.
    if fd < 0 || unsafe { libc::ftruncate(fd, len as libc::off_t) } != 0 {
        return Err(failed(len));
    }
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of the new file.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, prot, libc::MAP_SHARED, fd, 0) };
    if at == libc::MAP_FAILED {
        return Err(failed(len));
    }
    // SAFETY: the mapping has `len` bytes and is unknown to others.
    unsafe {
        ptr::write_bytes(at.cast::<u8>(), FRESH, len);
        libc::munmap(at, len);
    }
    Ok(fd)
}
