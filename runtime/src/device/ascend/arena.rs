//! A rank's device memory: one range, of one allocation or, with expandable segments, of pieces mapped side by side.

use super::context::Context;
use super::owned::Owned;
use ascend_rs_sys::Error;
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use titan_ir::Diag;
use titan_ir::plan::MemoryReport;

/// Bytes of a piece of an expandable arena, before rounding to the device's granularity.
const PIECE_BYTES: u64 = 256 << 20;

/// Bytes the device's kernels may read past the end of what they are given.
const SLACK_BYTES: u64 = 32;

/// The memory of a rank.
#[derive(Debug)]
pub(super) struct Arena<'a> {
    base: *mut u8,
    size_bytes: u64,
    /// The whole, if it is one allocation.
    _whole: Option<Owned<'a, *mut c_void>>,
    // Dropped in this order: unmapped, freed, released.
    _maps: Vec<Owned<'a, *mut c_void>>,
    _pieces: Vec<Owned<'a, aclrtDrvMemHandle>>,
    _range: Option<Owned<'a, *mut c_void>>,
}

impl<'a> Arena<'a> {
    /// Allocates `size_bytes`.
    ///
    /// # Errors
    /// T0755 when the device has not as much.
    pub(super) fn new(
        context: &Rc<Context<'a>>,
        size_bytes: u64,
        memory: &MemoryReport,
        expandable: bool,
    ) -> Result<Self, Diag> {
        let free = free_bytes(context);
        let needed = size_bytes + memory.communication_bytes;
        if let Some((free, total)) = free.filter(|(free, _)| *free < needed) {
            return Err(too_large(context, needed, Some((free, total))));
        }
        let made =
            if expandable { Self::mapped(context, size_bytes) } else { Self::whole(context, size_bytes) };
        made.map_err(|error| match error {
            Error::Call { .. } => too_large(context, needed, free).note(error.to_string()),
            error => context.explain(&error),
        })
    }

    fn whole(context: &Rc<Context<'a>>, size_bytes: u64) -> Result<Self, Error> {
        let mut at = ptr::null_mut();
        let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
        // SAFETY: the pointer is written.
        unsafe { context.acl().aclrtMalloc(&mut at, (size_bytes + SLACK_BYTES) as usize, policy)? };
        // SAFETY: see `Owned`.
        let whole = Owned::new(context, at, |cann, at| unsafe { cann.acl.aclrtFree(at) });
        Ok(Self {
            base: at.cast(),
            size_bytes,
            _whole: Some(whole),
            _maps: Vec::new(),
            _pieces: Vec::new(),
            _range: None,
        })
    }

    fn mapped(context: &Rc<Context<'a>>, size_bytes: u64) -> Result<Self, Error> {
        let acl = context.acl();
        let location = aclrtMemLocation {
            id: context.device as u32,
            type_: aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE,
        };
        let mut property = aclrtPhysicalMemProp {
            handleType: aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE,
            allocationType: aclrtMemAllocationType::ACL_MEM_ALLOCATION_TYPE_PINNED,
            memAttr: aclrtMemAttr::ACL_HBM_MEM_HUGE,
            location,
            reserve: 0,
        };
        let mut granularity = 0;
        let minimum = aclrtMemGranularityOptions::ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: the property is as documented, the number is written.
        unsafe { acl.aclrtMemGetAllocationGranularity(&mut property, minimum, &mut granularity)? };
        let granularity = (granularity as u64).max(1);
        let total = (size_bytes + SLACK_BYTES).next_multiple_of(granularity);
        let mut at = ptr::null_mut();
        // SAFETY: the pointer is written.
        unsafe { acl.aclrtReserveMemAddress(&mut at, total as usize, 0, ptr::null_mut(), 0)? };
        // SAFETY: see `Owned`.
        let range = Owned::new(context, at, |cann, at| unsafe { cann.acl.aclrtReleaseMemAddress(at) });
        let mut arena = Self {
            base: at.cast(),
            size_bytes,
            _whole: None,
            _maps: Vec::new(),
            _pieces: Vec::new(),
            _range: Some(range),
        };
        let mut done = 0;
        while done < total {
            let piece_bytes = PIECE_BYTES.next_multiple_of(granularity).min(total - done) as usize;
            let mut piece = aclrtDrvMemHandle::NULL;
            // SAFETY: the handle is written.
            unsafe { acl.aclrtMallocPhysical(&mut piece, piece_bytes, &property, 0)? };
            // SAFETY: see `Owned`.
            let free = |cann: &'static super::cann::Cann, piece| unsafe { cann.acl.aclrtFreePhysical(piece) };
            arena._pieces.push(Owned::new(context, piece, free));
            // SAFETY: inside the reserved range.
            let place = unsafe { arena.base.add(done as usize) }.cast::<c_void>();
            // SAFETY: the place is reserved and not mapped; the piece is as large.
            unsafe { acl.aclrtMapMem(place, piece_bytes, 0, piece, 0)? };
            // SAFETY: see `Owned`.
            let unmap = |cann: &'static super::cann::Cann, at| unsafe { cann.acl.aclrtUnmapMem(at) };
            arena._maps.push(Owned::new(context, place, unmap));
            done += piece_bytes as u64;
        }
        Ok(arena)
    }

    /// The address of `size_bytes` from `at`.
    ///
    /// # Panics
    /// If they are not inside: the program was checked, so that is our fault.
    pub(super) fn at(&self, at: u64, size_bytes: u64) -> *mut c_void {
        if at.checked_add(size_bytes).is_none_or(|end| end > self.size_bytes) {
            titan_ir::ice!("address {at}+{size_bytes} is outside an arena of {} bytes", self.size_bytes);
        }
        self.base.wrapping_add(at as usize).cast()
    }
}

/// Free and total bytes of the device, if it says so.
pub(super) fn free_bytes(context: &Context<'_>) -> Option<(u64, u64)> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the numbers are written.
    unsafe { context.acl().aclrtGetMemInfo(aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total) }.ok()?;
    (total > 0).then_some((free as u64, total as u64))
}

fn too_large(context: &Context<'_>, needed: u64, free: Option<(u64, u64)>) -> Diag {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let has = free.map_or(String::new(), |(free, total)| {
        format!(", of its {:.2} GiB {:.2} GiB are free", gib(total), gib(free))
    });
    let message = format!("a rank needs {:.2} GiB of device memory{has}", gib(needed));
    context.place_of(Diag::new("T0755", message)).help(
        "end other programs on the device, use more ranks, or rebuild with a smaller batch or more recomputation, e.g. \
         `--activation_checkpoint.mode full`",
    )
}
