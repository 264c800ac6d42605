//! Physical memory and reserved addresses, which are joined by mapping: how allocators grow a range in place.

use super::Place;
use super::mapping::{Mapping, fresh_file};
use crate::fault::Fault;
use crate::span::Span;
use crate::state::Runtime;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

/// Sizes of physical memory are multiples of this.
pub(crate) const GRANULARITY: usize = 2 << 20;

/// Physical memory.
#[derive(Debug)]
pub(crate) struct Physical {
    device: i32,
    len: usize,
    /// The file that is the memory.
    fd: i32,
    /// Where it is mapped.
    mapped: Option<usize>,
    /// Freed while it was mapped: it goes when it is unmapped.
    freed: bool,
}

impl Drop for Physical {
    fn drop(&mut self) {
        // SAFETY: the file is this object's.
        unsafe { libc::close(self.fd) };
    }
}

/// Reserved addresses.
#[derive(Debug)]
pub(crate) struct Reserved {
    mapping: Mapping,
    span: Span,
}

impl Runtime {
    /// Where `address` leads; reserved addresses without memory lead nowhere.
    pub(crate) fn place(&self, address: usize) -> Place {
        match self.memory.place(address) {
            Place::Pageable
                if self.reserved.iter().any(|r| r.span.contains(Span { start: address, len: 1 })) =>
            {
                Place::Nothing
            }
            place => place,
        }
    }

    /// Reserves addresses.
    pub(crate) fn reserve(&mut self, len: usize) -> Result<usize, Fault> {
        let len = len.next_multiple_of(GRANULARITY);
        let mapping = Mapping::reserve(len + GRANULARITY)?;
        let start = mapping.body().next_multiple_of(GRANULARITY);
        self.reserved.push(Reserved { mapping, span: Span { start, len } });
        Ok(start)
    }

    /// Gives reserved addresses back.
    pub(crate) fn unreserve(&mut self, start: usize) -> Result<(), Fault> {
        let index = self.reserved.iter().position(|r| r.span.start == start);
        let index = index.ok_or_else(|| Fault::parameter(format!("{start:#x} is no reserved address")))?;
        let span = self.reserved[index].span;
        if self.memory.live().any(|allocation| allocation.span.overlaps(span)) {
            return Err(Fault::parameter(format!("memory is still mapped in the reserved {span}")));
        }
        self.reserved.remove(index);
        Ok(())
    }

    /// Allocates physical memory of `device`.
    pub(crate) fn allocate_physical(&mut self, len: usize, device: i32) -> Result<*mut c_void, Fault> {
        if len == 0 || !len.is_multiple_of(GRANULARITY) {
            return Err(Fault::parameter(format!("{len} bytes are no multiple of {GRANULARITY}")));
        }
        self.charge(device, len as u64)?;
        let fd = fresh_file(len).inspect_err(|_| self.discharge(device, len as u64))?;
        Ok(self.physical.insert(Physical { device, len, fd, mapped: None, freed: false }))
    }

    /// Frees physical memory, at once or when it is unmapped.
    pub(crate) fn free_physical(&mut self, handle: aclrtDrvMemHandle) -> Result<(), Fault> {
        let physical = self.physical.get_mut(handle.0)?;
        if physical.freed {
            return Err(Fault::parameter("the physical memory has been freed before"));
        }
        physical.freed = true;
        self.end_physical(handle.0 as usize);
        Ok(())
    }

    fn end_physical(&mut self, key: usize) {
        let gone = self.physical.at(key).is_some_and(|p| p.freed && p.mapped.is_none());
        if gone && let Ok(physical) = self.physical.remove(key as *const c_void) {
            self.discharge(physical.device, physical.len as u64);
        }
    }

    /// Maps all of a physical memory at `start`.
    pub(crate) fn map(&mut self, start: usize, len: usize, handle: aclrtDrvMemHandle) -> Result<(), Fault> {
        let physical = self.physical.get(handle.0)?;
        if physical.len != len || physical.mapped.is_some() || physical.freed {
            let message = format!("physical memory of {} bytes is mapped whole, once", physical.len);
            return Err(Fault::parameter(message));
        }
        let (span, device, fd) = (Span { start, len }, physical.device, physical.fd);
        let reserved = self.reserved.iter().find(|r| r.span.contains(span));
        let reserved = reserved.ok_or_else(|| Fault::parameter(format!("{span} is not reserved")))?;
        let mut inside = self.memory.live().filter(|a| a.span.overlaps(reserved.span));
        if let Some(other) = inside.find(|a| a.span.overlaps(span) || a.place != Place::Device(device)) {
            return Err(Fault::parameter(format!("{span} cannot be mapped beside {}", other.span)));
        }
        drop(inside);
        reserved.mapping.place(start, len, fd)?;
        self.memory.adopt(span, Place::Device(device), 0, None);
        self.shadow.forget(span);
        self.physical.get_mut(handle.0)?.mapped = Some(start);
        Ok(())
    }

    /// Ends the mapping that begins at `start`.
    pub(crate) fn unmap(&mut self, start: usize) -> Result<(), Fault> {
        let mapped = self.physical.keys(|p| p.mapped == Some(start));
        let key =
            *mapped.first().ok_or_else(|| Fault::parameter(format!("nothing is mapped at {start:#x}")))?;
        let Some((span, _)) = self.memory.release(start) else { return Ok(()) };
        if let Some(reserved) = self.reserved.iter().find(|r| r.span.contains(span)) {
            reserved.mapping.take(span.start, span.len);
        }
        if let Some(physical) = self.physical.at_mut(key) {
            physical.mapped = None;
        }
        self.end_physical(key);
        Ok(())
    }
}
