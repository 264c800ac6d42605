//! Ranks: each a thread with a device, a stream and a communicator.

use crate::support::*;
use ascend_rs_sys::types::*;
use ascend_rs_sys::{Hccl, Search};
use std::ffi::c_void;
use std::sync::{Barrier, OnceLock};
use std::thread;

pub(crate) const F32: HcclDataType = HcclDataType::HCCL_DATA_TYPE_FP32;
pub(crate) const SUM: HcclReduceOp = HcclReduceOp::HCCL_REDUCE_SUM;

/// Collectives.
pub(crate) fn hccl() -> &'static Hccl {
    static HCCL: OnceLock<Hccl> = OnceLock::new();
    HCCL.get_or_init(|| Hccl::load(&Search::at(&library()), acl()).unwrap())
}

/// One rank.
pub(crate) struct Rank {
    pub(crate) rank: u32,
    pub(crate) comm: HcclComm,
    pub(crate) stream: aclrtStream,
}

/// Root information, made by this thread's device.
pub(crate) fn root_info() -> HcclRootInfo {
    let mut info = HcclRootInfo { internal: [0; 4108] };
    // SAFETY: the information is written.
    unsafe { hccl().HcclGetRootInfo(&mut info).unwrap() };
    info
}

/// Runs `body` on `size` ranks, each on its device.
pub(crate) fn on_ranks<T: Send>(size: u32, body: impl Fn(&Rank) -> T + Sync) -> Vec<T> {
    on_configured_ranks(size, |_| HcclCommConfig::unset(), body)
}

/// As [`on_ranks`], with a configuration for each.
pub(crate) fn on_configured_ranks<T: Send>(
    size: u32,
    config: impl Fn(u32) -> HcclCommConfig + Sync,
    body: impl Fn(&Rank) -> T + Sync,
) -> Vec<T> {
    let _session = session();
    // Nobody destroys a communicator that another rank still uses.
    let (info, all) = (root_info(), Barrier::new(size as usize));
    let one = |rank: u32| {
        let mut comm = HcclComm::NULL;
        // SAFETY: the communicator is written; the others are alive.
        unsafe {
            acl().aclrtSetDevice(rank as i32).unwrap();
            hccl().HcclCommInitRootInfoConfig(size, &info, rank, &config(rank), &mut comm).unwrap();
        }
        let rank = Rank { rank, comm, stream: stream() };
        let result = body(&rank);
        all.wait();
        // SAFETY: handles only.
        unsafe {
            hccl().HcclCommDestroy(comm).unwrap();
            acl().aclrtResetDevice(rank.rank as i32).unwrap();
        }
        result
    };
    let one = &one;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..size).map(|rank| scope.spawn(move || one(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// f32 values in device memory.
pub(crate) fn upload(values: &[f32]) -> *mut c_void {
    let memory = device_memory(values.len() * 4);
    overwrite(memory, values);
    memory
}

/// As [`upload`], to memory that is there.
pub(crate) fn overwrite(memory: *mut c_void, values: &[f32]) {
    let (len, kind) = (values.len() * 4, aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE);
    // SAFETY: the values are ours.
    unsafe { acl().aclrtMemcpy(memory, len, values.as_ptr().cast(), len, kind).unwrap() };
}

/// f32 values from device memory.
pub(crate) fn download(memory: *const c_void, count: usize) -> Vec<f32> {
    let bytes = read(memory, count * 4).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

impl Rank {
    /// `count` values that differ among ranks.
    pub(crate) fn values(&self, count: usize) -> Vec<f32> {
        (0..count).map(|i| (self.rank * 100) as f32 + i as f32).collect()
    }

    pub(crate) fn wait(&self) {
        synchronize(self.stream).unwrap();
    }
}
