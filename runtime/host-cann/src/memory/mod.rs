//! Device memory and pinned host memory: what lives, what has lived, and which ranges a task may touch.

pub(crate) mod mapping;
pub(crate) mod physical;

use crate::fault::Fault;
use crate::span::Span;
use ascend_rs_sys::types::*;
use mapping::Mapping;
use std::collections::{BTreeMap, VecDeque};

/// Alignment of allocations.
const ALIGN: usize = 64;
/// Bytes the device adds to every allocation.
const PADDING: u64 = 32;
/// Freed allocations whose addresses are not used again, so that errors can name them.
const MAX_FREED: usize = 4096;

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Memory of this device.
    Device(i32),
    /// Host memory the device can reach.
    Pinned,
    /// Memory that was freed, or addresses reserved without memory.
    Nothing,
    /// Any other host memory.
    Pageable,
}

/// An allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// What the caller asked for.
    pub(crate) span: Span,
    /// Where it is.
    pub(crate) place: Place,
    /// Bytes of the device it takes.
    pub(crate) charged_bytes: u64,
    /// Its pages; none if they are somebody else's.
    mapping: Option<Mapping>,
}

impl Allocation {
    /// Whether its pages were made for it, by an allocating call.
    pub(crate) fn is_own(&self) -> bool {
        self.mapping.is_some()
    }
}

/// All allocations by address.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    live: BTreeMap<usize, Allocation>,
    freed: BTreeMap<usize, Allocation>,
    freed_order: VecDeque<usize>,
    /// Ranges in use by running tasks and copies, with what uses them.
    pins: Vec<(u64, Span)>,
    next_pin: u64,
}

/// Bytes of the device an allocation of `len` takes.
pub(crate) fn charge(len: usize) -> u64 {
    (len as u64).next_multiple_of(32).saturating_add(PADDING)
}

impl Memory {
    /// No memory.
    pub(crate) const fn new() -> Self {
        Self {
            live: BTreeMap::new(),
            freed: BTreeMap::new(),
            freed_order: VecDeque::new(),
            pins: Vec::new(),
            next_pin: 0,
        }
    }

    /// Allocates `len` bytes at `place`: aligned to 64, ended by a guard page, fresh.
    ///
    /// # Errors
    /// 207001: the host has no memory.
    pub(crate) fn allocate(&mut self, len: usize, place: Place, charged_bytes: u64) -> Result<Span, Fault> {
        let mapping = Mapping::fresh(len.next_multiple_of(ALIGN))?;
        let span = Span { start: mapping.body_end() - len.next_multiple_of(ALIGN), len };
        self.adopt(span, place, charged_bytes, Some(mapping));
        Ok(span)
    }

    /// Makes `span` known as an allocation.
    pub(crate) fn adopt(&mut self, span: Span, place: Place, charged_bytes: u64, mapping: Option<Mapping>) {
        self.live.insert(span.start, Allocation { span, place, charged_bytes, mapping });
    }

    /// The allocation that begins at `start`.
    ///
    /// # Errors
    /// There is none; the text says what is known of the address.
    pub(crate) fn starting_at(&self, start: usize) -> Result<&Allocation, Fault> {
        self.live.get(&start).ok_or_else(|| {
            Fault::parameter(format!(
                "{start:#x} is not the start of an allocation: {}",
                self.describe(start)
            ))
        })
    }

    /// Ends an allocation. The addresses lead nowhere from now on.
    pub(crate) fn release(&mut self, start: usize) -> Option<(Span, u64)> {
        let allocation = self.live.remove(&start)?;
        let (span, charged) = (allocation.span, allocation.charged_bytes);
        if let Some(mapping) = &allocation.mapping {
            mapping.take_all();
            self.freed.insert(start, allocation);
            self.freed_order.push_back(start);
            if self.freed_order.len() > MAX_FREED {
                self.freed_order.pop_front().and_then(|oldest| self.freed.remove(&oldest));
            }
        }
        Some((span, charged))
    }

    /// The live allocation that holds `address`.
    pub(crate) fn find(&self, address: usize) -> Option<&Allocation> {
        let (_, allocation) = self.live.range(..=address).next_back()?;
        (address < allocation.span.end()).then_some(allocation)
    }

    /// The first address from `span`'s on that is not in its allocation, or in those mapped right behind it into the same range:
    /// memory that was mapped piece by piece is used as one. None if all of `span` is.
    fn first_outside(&self, span: Span) -> Option<usize> {
        let first = self.find(span.start)?;
        let (mut end, place) = (first.span.end(), first.place);
        let is_mapped =
            |a: &&Allocation| !a.is_own() && a.place == place && matches!(place, Place::Device(_));
        while end < span.end() && is_mapped(&first) {
            match self.live.get(&end).filter(is_mapped) {
                Some(next) => end = next.span.end(),
                None => break,
            }
        }
        (end < span.end()).then_some(end)
    }

    /// Whether every byte of `span` is in one live allocation, or in memory mapped as one range.
    pub(crate) fn is_whole(&self, span: Span) -> bool {
        self.find(span.start).is_some() && self.first_outside(span).is_none()
    }

    /// Live allocations, by address.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Allocation> {
        self.live.values()
    }

    /// Where `address` leads.
    pub(crate) fn place(&self, address: usize) -> Place {
        match self.find(address) {
            Some(allocation) => allocation.place,
            None if self.find_freed(address).is_some() => Place::Nothing,
            None => Place::Pageable,
        }
    }

    fn find_freed(&self, address: usize) -> Option<&Allocation> {
        let (_, allocation) = self.freed.range(..=address).next_back()?;
        (address < allocation.span.end()).then_some(allocation)
    }

    /// Checks that every byte of `span` is in one live allocation of `device`, or in memory mapped as one range.
    ///
    /// # Errors
    /// 507015: it is not; the text says why.
    pub(crate) fn check(&self, span: Span, device: i32, verb: &str) -> Result<(), Fault> {
        let fail = |why: String| {
            Err(Fault::new(ACL_ERROR_RT_AICORE_EXCEPTION, format!("it {verb} the bytes {span}, {why}")))
        };
        let Some(allocation) = self.find(span.start) else {
            return fail(format!("but {:#x} is {}", span.start, self.describe(span.start)));
        };
        match allocation.place {
            Place::Device(other) if other == device => {}
            Place::Device(other) => return fail(format!("which are memory of device {other}, not {device}")),
            _ => return fail("which are host memory, not device memory".to_owned()),
        }
        match self.first_outside(span) {
            None => Ok(()),
            Some(end) => {
                fail(format!("which run {} past the allocation {}", span.end() - end, allocation.span))
            }
        }
    }

    /// What is known of `address`.
    pub(crate) fn describe(&self, address: usize) -> String {
        if let Some(Allocation { span, place, .. }) = self.find(address) {
            let kind = match place {
                Place::Device(device) => format!("memory of device {device}"),
                _ => "pinned host memory".to_owned(),
            };
            return format!("{} bytes into {kind} {span}", address - span.start);
        }
        match self.find_freed(address) {
            Some(Allocation { span, .. }) => {
                format!("{} bytes into freed memory {span}", address - span.start)
            }
            None => "in no allocation".to_owned(),
        }
    }

    /// Keeps `spans` from being freed until the pin is removed.
    pub(crate) fn pin(&mut self, spans: impl IntoIterator<Item = Span>) -> u64 {
        self.next_pin += 1;
        let pin = self.next_pin;
        self.pins.extend(spans.into_iter().map(|span| (pin, span)));
        pin
    }

    /// Removes a pin.
    pub(crate) fn unpin(&mut self, pin: u64) {
        self.pins.retain(|(other, _)| *other != pin);
    }

    /// Whether something is using bytes of `span` right now.
    pub(crate) fn is_pinned(&self, span: Span) -> bool {
        self.pins.iter().any(|(_, pinned)| pinned.overlaps(span))
    }
}
