//! Handles that say what they are and which generation of their place they belong to.

use crate::fault::Fault;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

/// Bits of the place in a handle.
const INDEX_BITS: u32 = 24;
/// Bits of the generation.
const GENERATION_BITS: u32 = 24;

/// Objects of one kind, reached by handles. A handle is no address: it is `tag | generation | place | 1`, so that a stale
/// handle, a handle of another kind and a pointer are all told apart.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    kind: &'static str,
    tag: u64,
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    codes: Codes,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u64,
    value: Option<T>,
}

/// Statuses for handles that are no good.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Codes {
    /// For null.
    pub(crate) null: i32,
    /// For one that was destroyed or never was.
    pub(crate) stale: i32,
}

impl Codes {
    /// Those of the ACL runtime.
    pub(crate) const ACL: Self = Self { null: ACL_ERROR_INVALID_PARAM, stale: ACL_ERROR_RT_INVALID_HANDLE };
}

impl<T> Handles<T> {
    /// No objects. `tag` differs between kinds.
    pub(crate) const fn new(kind: &'static str, tag: u8, codes: Codes) -> Self {
        Self { kind, tag: tag as u64, slots: Vec::new(), free: Vec::new(), codes }
    }

    /// Takes `value` and gives its handle.
    pub(crate) fn insert(&mut self, value: T) -> *mut c_void {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.generation = (slot.generation + 1) & ((1 << GENERATION_BITS) - 1);
        slot.value = Some(value);
        self.handle(index)
    }

    fn handle(&self, index: usize) -> *mut c_void {
        let place = (index as u64) << 1 | 1;
        let generation = self.slots[index].generation << (INDEX_BITS + 1);
        (self.tag << (INDEX_BITS + GENERATION_BITS + 1) | generation | place) as usize as *mut c_void
    }

    /// Where the object of `handle` is.
    fn find(&self, handle: *const c_void) -> Result<usize, Fault> {
        let (kind, codes) = (self.kind, self.codes);
        if handle.is_null() {
            return Err(Fault::new(codes.null, format!("the {kind} is null")));
        }
        let bits = handle as usize as u64;
        let index = (bits >> 1 & ((1 << INDEX_BITS) - 1)) as usize;
        let slot = self
            .slots
            .get(index)
            .filter(|_| bits & 1 == 1 && bits >> (INDEX_BITS + GENERATION_BITS + 1) == self.tag);
        match slot {
            None => Err(Fault::new(codes.stale, format!("{handle:p} is no {kind}"))),
            Some(slot) if slot.value.is_some() && self.handle(index) as usize as u64 == bits => Ok(index),
            Some(_) => Err(Fault::new(codes.stale, format!("the {kind} {handle:p} has been destroyed"))),
        }
    }

    /// The object.
    ///
    /// # Errors
    /// The handle is null, of another kind, or its object is gone.
    pub(crate) fn get(&self, handle: *const c_void) -> Result<&T, Fault> {
        self.find(handle).map(|index| self.slots[index].value.as_ref().expect("found ones have values"))
    }

    /// As [`Handles::get`], to change it.
    pub(crate) fn get_mut(&mut self, handle: *const c_void) -> Result<&mut T, Fault> {
        self.find(handle).map(|index| self.slots[index].value.as_mut().expect("found ones have values"))
    }

    /// Takes the object out. Its handle is stale from now on.
    pub(crate) fn remove(&mut self, handle: *const c_void) -> Result<T, Fault> {
        let index = self.find(handle)?;
        self.free.push(index);
        Ok(self.slots[index].value.take().expect("found ones have values"))
    }

    /// As [`Handles::insert`]; the handle as a number, which is how the runtime's own structures refer to objects.
    pub(crate) fn insert_key(&mut self, value: T) -> usize {
        self.insert(value) as usize
    }

    /// The object of a handle given as a number, if it still lives.
    pub(crate) fn at(&self, key: usize) -> Option<&T> {
        self.get(key as *const c_void).ok()
    }

    /// As [`Handles::at`], to change it.
    pub(crate) fn at_mut(&mut self, key: usize) -> Option<&mut T> {
        self.get_mut(key as *const c_void).ok()
    }

    /// The handles of all objects `of` picks, as numbers.
    pub(crate) fn keys(&self, of: impl Fn(&T) -> bool) -> Vec<usize> {
        self.iter().filter(|(_, value)| of(value)).map(|(handle, _)| handle as usize).collect()
    }

    /// Every object with its handle, oldest place first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (*mut c_void, &T)> {
        let full = self.slots.iter().enumerate();
        full.filter_map(|(index, slot)| slot.value.as_ref().map(|value| (self.handle(index), value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_outlives_its_object_only_as_an_error() {
        let mut streams = Handles::new("stream", 1, Codes::ACL);
        let mut events = Handles::new("event", 2, Codes::ACL);
        let first = streams.insert("a");
        assert_eq!(streams.get(first), Ok(&"a"));
        assert_eq!(streams.remove(first), Ok("a"));
        let second = streams.insert("b");
        assert_ne!(first, second, "the same place again");
        assert_eq!(streams.get(second), Ok(&"b"));
        for wrong in [first, events.insert("c"), &raw const wrong_target as *mut c_void] {
            assert_eq!(streams.get(wrong).unwrap_err().code, ACL_ERROR_RT_INVALID_HANDLE);
        }
        assert!(streams.remove(first).unwrap_err().message.contains("has been destroyed"));
        assert_eq!(streams.get(std::ptr::null()).unwrap_err().code, ACL_ERROR_INVALID_PARAM);
    }

    #[expect(non_upper_case_globals, reason = "only its address is used")]
    static wrong_target: u64 = 0;
}
