//! Objects of CANN, given back when dropped.

use super::cann::Cann;
use super::context::Context;
use ascend_rs_sys::Error;
use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::rc::Rc;
use titan_ir::Diag;

/// Gives an object back.
pub(super) type Destroy<T> = unsafe fn(&'static Cann, T) -> Result<(), Error>;

/// An object of CANN, given back when dropped.
#[derive(Debug)]
pub(super) struct Owned<'a, T: Copy> {
    value: T,
    destroy: Destroy<T>,
    context: Rc<Context<'a>>,
}

impl<'a, T: Copy> Owned<'a, T> {
    /// Owns `value`.
    pub(super) fn new(context: &Rc<Context<'a>>, value: T, destroy: Destroy<T>) -> Self {
        Self { value, destroy, context: Rc::clone(context) }
    }

    pub(super) fn get(&self) -> T {
        self.value
    }
}

impl<T: Copy> Drop for Owned<'_, T> {
    fn drop(&mut self) {
        // SAFETY: made on this device, in this thread, and not used any more.
        self.context.remember(unsafe { (self.destroy)(self.context.cann, self.value) });
    }
}

/// A stream.
pub(super) type Stream<'a> = Owned<'a, aclrtStream>;

/// An event.
pub(super) type Event<'a> = Owned<'a, aclrtEvent>;

/// Host memory that the device copies from and to.
pub(super) type Pinned<'a> = Owned<'a, *mut c_void>;

impl<'a> Context<'a> {
    /// A stream.
    pub(super) fn stream(self: &Rc<Self>) -> Result<Stream<'a>, Diag> {
        let mut stream = aclrtStream::NULL;
        // SAFETY: the handle is written.
        self.check(unsafe { self.acl().aclrtCreateStream(&mut stream) })?;
        // After a call that failed on the device, those queued behind it must not go on with what it left. A device that cannot stop
        // is as it was.
        // SAFETY: the stream was just made.
        let _ = unsafe { self.acl().aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE.into()) };
        // SAFETY: see `Owned`.
        Ok(Owned::new(self, stream, |cann, stream| unsafe { cann.acl.aclrtDestroyStream(stream) }))
    }

    /// An event that may be recorded again and again, and inside a capture.
    pub(super) fn event(self: &Rc<Self>) -> Result<Event<'a>, Diag> {
        let mut event = aclrtEvent::NULL;
        // SAFETY: the handle is written.
        self.check(unsafe { self.acl().aclrtCreateEventExWithFlag(&mut event, ACL_EVENT_SYNC) })?;
        // SAFETY: see `Owned`.
        Ok(Owned::new(self, event, |cann, event| unsafe { cann.acl.aclrtDestroyEvent(event) }))
    }

    /// Host memory that copies of a stream may use.
    pub(super) fn pinned(self: &Rc<Self>, size_bytes: usize) -> Result<Pinned<'a>, Diag> {
        let mut at = std::ptr::null_mut();
        // SAFETY: the pointer is written.
        self.check(unsafe { self.acl().aclrtMallocHost(&mut at, size_bytes.max(64)) })?;
        // SAFETY: see `Owned`.
        Ok(Owned::new(self, at, |cann, at| unsafe { cann.acl.aclrtFreeHost(at) }))
    }
}
