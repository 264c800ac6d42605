//! Buffers, random numbers and scratch that notices being overrun.

use titan_ir::DType;
use titan_ir::kernel::Workspace;
use titan_run::kernels::{Isa, ThreadScratch, bf16};

/// The instruction levels of this machine.
pub(crate) fn levels() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// A vector of f32 or bf16 in memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Buffer {
    pub(crate) dtype: DType,
    pub(crate) bytes: Vec<u8>,
}

impl Buffer {
    /// Every byte set, so that an element nobody wrote is a NaN.
    pub(crate) fn unwritten(dtype: DType, len: usize) -> Self {
        Self { dtype, bytes: vec![0xff; len * dtype.size_bytes()] }
    }

    /// Uniform in -1..1, representable.
    pub(crate) fn random(dtype: DType, len: usize, seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let values = (0..len).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        });
        let bytes = match dtype {
            DType::Bf16 => values.flat_map(|x| bf16::round(x).to_ne_bytes()).collect(),
            _ => values.flat_map(f32::to_ne_bytes).collect(),
        };
        Self { dtype, bytes }
    }

    /// The values, exactly.
    pub(crate) fn values(&self) -> Vec<f64> {
        match self.dtype {
            DType::Bf16 => {
                let halves = self.bytes.as_chunks::<2>().0.iter();
                halves.map(|b| f64::from(bf16::widen(u16::from_ne_bytes(*b)))).collect()
            }
            _ => self.bytes.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_ne_bytes(*b))).collect(),
        }
    }

    pub(crate) fn ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    pub(crate) fn ptr_mut(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }
}

/// Scratch of exactly the promised size, each part followed by guard bytes.
pub(crate) struct Guarded {
    memory: Vec<[u8; 64]>,
    workspace: Workspace,
    num_threads: usize,
}

const GUARD: u8 = 0xa5;

impl Guarded {
    pub(crate) fn new(workspace: Workspace, num_threads: usize) -> Self {
        let part = |bytes: u64| bytes.div_ceil(64) as usize + 2;
        let len = part(workspace.shared_bytes) + num_threads * part(workspace.per_thread_bytes);
        Self { memory: vec![[GUARD; 64]; len], workspace, num_threads }
    }

    fn stride_bytes(&self) -> usize {
        (self.workspace.per_thread_bytes.div_ceil(64) as usize + 2) * 64
    }

    fn shared_len_bytes(&self) -> usize {
        (self.workspace.shared_bytes.div_ceil(64) as usize + 2) * 64
    }

    pub(crate) fn scratch(&mut self) -> ThreadScratch {
        let shared = self.memory.as_mut_ptr().cast::<u8>();
        let per_thread = shared.wrapping_add(self.shared_len_bytes());
        ThreadScratch { shared, per_thread, per_thread_stride_bytes: self.stride_bytes() }
    }

    /// Fails when a kernel wrote beyond its scratch.
    pub(crate) fn check(&self) {
        let bytes = self.memory.as_flattened();
        let intact = |start: usize, end: usize| bytes[start..end].iter().all(|b| *b == GUARD);
        let shared_end = self.shared_len_bytes();
        assert!(intact(self.workspace.shared_bytes as usize, shared_end), "shared scratch overrun");
        for thread in 0..self.num_threads {
            let start = shared_end + thread * self.stride_bytes();
            let used = self.workspace.per_thread_bytes as usize;
            assert!(intact(start + used, start + self.stride_bytes()), "scratch of thread {thread} overrun");
        }
    }
}

/// A copy of a buffer whose end is the end of a page, before one that may not be touched.
pub(crate) struct PageEnd {
    map: *mut u8,
    len_bytes: usize,
    data_bytes: usize,
}

const PAGE_BYTES: usize = 4096;

impl PageEnd {
    pub(crate) fn new(buffer: &Buffer) -> Self {
        let data_bytes = buffer.bytes.len();
        let len_bytes = data_bytes.next_multiple_of(PAGE_BYTES) + PAGE_BYTES;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping, written within its readable part.
        unsafe {
            let map = libc::mmap(std::ptr::null_mut(), len_bytes, access, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            let map = map.cast::<u8>();
            let guard = map.add(len_bytes - PAGE_BYTES);
            assert_eq!(libc::mprotect(guard.cast(), PAGE_BYTES, libc::PROT_NONE), 0);
            guard.sub(data_bytes).copy_from_nonoverlapping(buffer.ptr(), data_bytes);
            Self { map, len_bytes, data_bytes }
        }
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        self.map.wrapping_add(self.len_bytes - PAGE_BYTES - self.data_bytes)
    }
}

impl Drop for PageEnd {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours.
        unsafe { libc::munmap(self.map.cast(), self.len_bytes) };
    }
}

/// Root of the summed squares of the differences over that of `expected`.
pub(crate) fn relative_l2(actual: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(actual.len(), expected.len());
    let difference: f64 = actual.iter().zip(expected).map(|(a, e)| (a - e) * (a - e)).sum();
    let norm: f64 = expected.iter().map(|e| e * e).sum();
    (difference / norm).sqrt()
}
