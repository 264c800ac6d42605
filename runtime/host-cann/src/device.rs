//! Devices: their memory, their counts, and who waits for them.

use crate::fault::Fault;
use crate::random::Random;
use crate::soc;
use crate::state::Runtime;
use ascend_rs_sys::types::*;
use std::collections::BTreeSet;
use std::time::Instant;

/// Streams a device has.
pub(crate) const MAX_STREAMS: usize = 1984;
/// Events a device has.
pub(crate) const MAX_EVENTS: usize = 65536;

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    /// Its number.
    pub(crate) id: i32,
    /// Calls of `aclrtSetDevice` without `aclrtResetDevice`.
    pub(crate) count: u64,
    /// The context `aclrtSetDevice` made.
    pub(crate) primary: Option<usize>,
    /// Bytes in use.
    pub(crate) used_bytes: u64,
    /// Streams in use, hidden ones of graphs included.
    pub(crate) num_streams: usize,
    /// Events in use.
    pub(crate) num_events: usize,
    /// Devices whose memory its tasks may touch.
    pub(crate) peers: BTreeSet<i32>,
    /// Core limits: cube, vector.
    pub(crate) core_limits: [Option<u32>; 2],
    /// Streams that have something queued.
    pub(crate) active: BTreeSet<usize>,
    /// Threads that wait for it.
    pub(crate) waiters: usize,
    /// Whether its worker is running a task.
    pub(crate) is_busy: bool,
    /// Whether it has a worker.
    pub(crate) has_worker: bool,
    /// Whether its worker sleeps until somebody tells it of something.
    pub(crate) is_idle: bool,
    /// While nobody waits, nothing runs before this.
    pub(crate) hold_until: Option<Instant>,
    /// What the order of its tasks is drawn from.
    pub(crate) random: Random,
}

impl Device {
    /// An unused device.
    pub(crate) fn new(id: i32) -> Self {
        Self {
            id,
            count: 0,
            primary: None,
            used_bytes: 0,
            num_streams: 0,
            num_events: 0,
            peers: BTreeSet::new(),
            core_limits: [None; 2],
            active: BTreeSet::new(),
            waiters: 0,
            is_busy: false,
            has_worker: false,
            is_idle: false,
            hold_until: None,
            random: Random::new(0),
        }
    }
}

impl Runtime {
    /// The device of this number.
    ///
    /// # Errors
    /// 107001: there is none.
    pub(crate) fn device(&mut self, id: i32) -> Result<&mut Device, Fault> {
        let num = self.options.num_devices;
        let fault =
            || Fault::new(ACL_ERROR_RT_INVALID_DEVICEID, format!("there is no device {id}, there are {num}"));
        let index = usize::try_from(id).ok().filter(|_| id < num).ok_or_else(fault)?;
        self.devices.get_mut(index).ok_or_else(fault)
    }

    /// Takes `bytes` of a device's memory, for an allocation or for a library's own buffers.
    ///
    /// # Errors
    /// 207001: it has no more.
    pub(crate) fn charge(&mut self, id: i32, bytes: u64) -> Result<(), Fault> {
        let total = soc::current().hbm_bytes;
        let device = self.device(id)?;
        if device.used_bytes.saturating_add(bytes) > total {
            let message =
                format!("device {id} has no {bytes} bytes: {} of {total} are in use", device.used_bytes);
            return Err(Fault::new(ACL_ERROR_RT_MEMORY_ALLOCATION, message));
        }
        device.used_bytes += bytes;
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.devices[id as usize].used_bytes);
        Ok(())
    }

    /// Gives `bytes` back.
    pub(crate) fn discharge(&mut self, id: i32, bytes: u64) {
        if let Ok(device) = self.device(id) {
            device.used_bytes = device.used_bytes.saturating_sub(bytes);
        }
    }
}
