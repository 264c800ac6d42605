//! Mapped memory: the arenas of a plan.

use std::ptr::NonNull;

/// A private, zeroed, page-aligned mapping. It is the only memory tensors live in.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the mapping is owned; what threads do with the addresses is the executor's business.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len_bytes` of zeros; pages are backed when first touched.
    ///
    /// # Errors
    /// What the system says, mostly that there is not enough memory.
    pub fn zeroed(len_bytes: u64) -> std::io::Result<Self> {
        let too_large = |_| std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let len_bytes = usize::try_from(len_bytes).map_err(too_large)?;
        if len_bytes == 0 {
            return Ok(Self { start: NonNull::dangling(), len_bytes });
        }
        // SAFETY: a fresh anonymous mapping; the result is checked.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        // Large pages spare the TLB; a system without them says so and nothing is lost.
        // SAFETY: the range was just mapped.
        unsafe { libc::madvise(start, len_bytes, libc::MADV_HUGEPAGE) };
        let start = NonNull::new(start.cast()).expect("mmap never maps address 0 unless asked");
        Ok(Self { start, len_bytes })
    }

    /// The first byte.
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes mapped.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes as u64
    }

    /// The address `offset_bytes` from the start.
    ///
    /// # Panics
    /// If `offset_bytes + size_bytes` is past the end: the plan was verified, so this is our fault.
    pub fn at(&self, offset_bytes: u64, size_bytes: u64) -> *mut u8 {
        let end = offset_bytes.checked_add(size_bytes).filter(|&end| end <= self.len_bytes());
        if end.is_none() {
            titan_ir::ice!(
                "address {offset_bytes}+{size_bytes} is outside a mapping of {} bytes",
                self.len_bytes
            );
        }
        // SAFETY: inside the mapping, just checked.
        unsafe { self.start().add(offset_bytes as usize) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.len_bytes > 0 {
            // SAFETY: mapped by `zeroed`, unmapped once.
            unsafe { libc::munmap(self.start().cast(), self.len_bytes) };
        }
    }
}

/// Peak resident memory of this process, in bytes.
pub fn peak_resident_bytes() -> u64 {
    // SAFETY: rusage is plain data and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024
}

/// Memory of the machine, in bytes.
pub fn machine_bytes() -> u64 {
    // SAFETY: sysconf only reads.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(page).unwrap_or(0)
}

/// Memory the system could give without swapping, in bytes; all of it where the system does not say.
pub fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse().ok());
    kib.map_or_else(machine_bytes, |kib: u64| kib * 1024)
}
