//! A rank's device: whose objects are made, how their errors are told, and how they are given back.

use super::cann::{Cann, diag};
use crate::comm::Comm;
use crate::device::RankError;
use ascend_rs_sys::types::*;
use ascend_rs_sys::{Acl, Error};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;
use titan_ir::{Diag, Plan};

/// What a wait on the device says when its time is over.
const WAIT_IS_OVER: i32 = 507_046;

/// How long a wait on the device lasts before it looks whether another rank has failed.
const WAIT_MS: i32 = 200;

/// A device set for this thread. It is reset when the last object made on it is gone.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) cann: &'static Cann,
    pub(super) plan: &'a Plan,
    /// Rank in the run.
    pub(super) rank: u64,
    /// The device's number on this machine.
    pub(super) device: i32,
    pub(super) comm: Comm,
    /// What is under way, for errors.
    place: Cell<Option<Place>>,
    /// What was under way last.
    last: Cell<Option<Place>>,
    /// Communicators that may hear of faults on their links.
    communicators: RefCell<Vec<HcclComm>>,
    /// The first fault while giving things back.
    fault: RefCell<Option<Diag>>,
}

/// A call of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) segment: usize,
    pub(super) part: usize,
    /// Number of the submission in the part, stream, instruction of the plan.
    pub(super) call: Option<(usize, u8, u32)>,
    /// Whether it is being captured.
    pub(super) captured: bool,
}

impl<'a> Context<'a> {
    /// Sets the device.
    ///
    /// # Errors
    /// T0742 when that fails.
    pub(super) fn new(
        cann: &'static Cann,
        plan: &'a Plan,
        rank: u64,
        device: i32,
        comm: Comm,
    ) -> Result<Rc<Self>, Diag> {
        // SAFETY: only the device of this thread is chosen.
        unsafe { cann.acl.aclrtSetDevice(device) }
            .map_err(|e| diag(&e).at(format!("rank {rank}, device {device}")))?;
        let context = Self {
            cann,
            plan,
            rank,
            device,
            comm,
            place: Cell::new(None),
            last: Cell::new(None),
            communicators: RefCell::default(),
            fault: RefCell::new(None),
        };
        // Reductions in an order of their own: what the operators plan depends on it, so it comes before all of them.
        // SAFETY: a plain option.
        let set = unsafe { cann.acl.aclrtSetSysParamOpt(aclSysParamOpt::ACL_OPT_DETERMINISTIC, 1) };
        set.map_err(|e| context.explain(&e))?;
        Ok(Rc::new(context))
    }

    pub(super) fn acl(&self) -> &'static Acl {
        &self.cann.acl
    }

    /// Says what is under way.
    pub(super) fn at(&self, place: Option<Place>) {
        self.place.set(place);
        if place.is_some() {
            self.last.set(place);
        }
    }

    /// What was under way last, in words.
    pub(super) fn last_place(&self) -> Option<String> {
        let (path, words) = self.describe(self.last.get()?)?;
        Some(path.map_or_else(|| words.clone(), |path| format!("{path}, {words}")))
    }

    /// A place in words: module path and kind, and where in the program.
    fn describe(&self, place: Place) -> Option<(Option<String>, String)> {
        let segment = self.plan.segments.get(place.segment)?;
        let mut words = format!("part {} of segment `{}`", place.part, segment.name);
        let mut path = None;
        if let Some((call, stream, source)) = place.call {
            words += &format!(", call {call}, stream {stream}, instruction {source}");
            path = segment.instrs.get(source as usize).map(|instr| {
                let loc = self.plan.locs.get(instr.loc as usize).map_or("", String::as_str);
                format!("{loc} ({})", crate::diagnose::action_name(&instr.action))
            });
        }
        words += if place.captured { ", while capturing" } else { "" };
        Some((path, words))
    }

    /// An error of CANN as a finding that names rank, device, stream and instruction.
    pub(super) fn explain(&self, error: &Error) -> Diag {
        self.place_of(diag(error))
    }

    /// Adds rank, device, stream and instruction.
    pub(super) fn place_of(&self, mut diag: Diag) -> Diag {
        let rank = format!("rank {}, device {}", self.rank, self.device);
        match self.place.get().and_then(|place| self.describe(place)) {
            None => diag.path = Some(rank),
            Some((path, words)) => {
                diag.path = Some(path.map_or_else(|| rank.clone(), |path| format!("{path}, {rank}")));
                diag.notes.push(words);
            }
        }
        diag
    }

    /// The value, or the error as a finding.
    pub(super) fn check<T>(&self, result: Result<T, Error>) -> Result<T, Diag> {
        result.map_err(|e| self.explain(&e))
    }

    /// Waits until all queued on `stream` is done.
    ///
    /// # Errors
    /// T0742 for faults of the device, which may belong to any work queued before; stopped when another rank failed.
    pub(super) fn synchronize(&self, stream: aclrtStream) -> Result<(), RankError> {
        loop {
            // SAFETY: the stream is this context's.
            match unsafe { self.acl().aclrtSynchronizeStreamWithTimeout(stream, WAIT_MS) } {
                Ok(()) => return Ok(()),
                Err(Error::Call { status: WAIT_IS_OVER, .. }) => {
                    self.comm.check()?;
                    self.check_links()?;
                }
                Err(error) => {
                    let diag = self.explain(&error);
                    return Err(diag
                        .note("a fault of the device is seen when the host waits: any call of the part may be its cause")
                        .help("run with `--profile`, which waits after every call, to see which")
                        .into());
                }
            }
        }
    }

    /// Has a communicator asked for faults on its links while a wait lasts long.
    pub(super) fn watch(&self, communicator: HcclComm) {
        self.communicators.borrow_mut().push(communicator);
    }

    /// What HCCL knows of its links before its own time is over, which is half an hour.
    fn check_links(&self) -> Result<(), Diag> {
        let Some(hccl) = &self.cann.hccl else { return Ok(()) };
        for &communicator in self.communicators.borrow().iter() {
            let mut status = HcclResult::HCCL_SUCCESS;
            // SAFETY: the communicator lives while anything is waited for; the status is written.
            let asked = unsafe { hccl.HcclGetCommAsyncError(communicator, &mut status) };
            // Not every device can be asked.
            if asked.is_ok() && status != HcclResult::HCCL_SUCCESS {
                let name = status.name().unwrap_or("a status without a name");
                let message = format!("HcclGetCommAsyncError tells {} ({name}): a link is broken", status.0);
                return Err(self.place_of(Diag::new("T0742", message)));
            }
        }
        Ok(())
    }

    /// Copies to the device and waits.
    ///
    /// # Safety
    /// `dst` is device memory of that size.
    pub(super) unsafe fn write(&self, dst: *mut c_void, src: &[u8]) -> Result<(), Diag> {
        if src.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's.
        self.check(unsafe {
            let kind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE;
            self.acl().aclrtMemcpy(dst, src.len(), src.as_ptr().cast(), src.len(), kind)
        })
    }

    /// Copies from the device and waits. Nothing may be writing it.
    ///
    /// # Safety
    /// `src` is device memory of that size.
    pub(super) unsafe fn read(&self, dst: &mut [u8], src: *const c_void) -> Result<(), Diag> {
        if dst.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's.
        self.check(unsafe {
            let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST;
            self.acl().aclrtMemcpy(dst.as_mut_ptr().cast(), dst.len(), src, dst.len(), kind)
        })
    }

    /// Remembers a fault while giving things back.
    pub(super) fn remember(&self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.place.set(None);
            self.fault.borrow_mut().get_or_insert_with(|| self.explain(&error));
        }
    }

    /// The first fault while giving things back.
    pub(super) fn take_fault(&self) -> Option<Diag> {
        self.fault.borrow_mut().take()
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing made on it is left.
        let _ = unsafe { self.acl().aclrtResetDevice(self.device) };
    }
}
