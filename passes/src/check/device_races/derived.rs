//! What values that outlive their instruction were computed from, and whether that has changed since.

use super::access::Access;
use super::intervals::{Intervals, Range};
use super::regions::Place;
use std::rc::Rc;

/// A value between calls.
#[derive(Debug, Clone)]
struct Value {
    /// Memory of the plan it was computed from, through other such values.
    sources: Rc<[Range]>,
    /// Number of the call that made it.
    made: u64,
}

/// Values in slots and scratch, and the last writes of the plan's memory.
#[derive(Debug, Default)]
pub(super) struct Derived {
    values: Intervals<Value>,
    /// Number of the call that wrote last.
    written: Intervals<u64>,
    num_calls: u64,
}

impl Derived {
    /// Whether a slot holds what would be computed now.
    pub(super) fn is_current(&self, access: &Access) -> bool {
        self.values.touching(access.range()).all(|(_, value)| {
            let mut sources = value.sources.iter();
            sources.all(|&source| self.written.touching(source).all(|(_, call)| *call <= value.made))
        })
    }

    /// A call runs.
    pub(super) fn call(&mut self, list: &[Access], places: &[Option<Place>]) {
        self.num_calls += 1;
        let made = self.num_calls;
        let all = || list.iter().zip(places.iter().copied());
        if all().any(|(access, place)| access.writes && is_value(place)) {
            let sources = self.sources(all().filter(|(access, _)| access.reads));
            for (access, _) in all().filter(|(access, place)| access.writes && is_value(*place)) {
                self.values.set(access.range(), Value { sources: sources.clone(), made });
            }
        }
        for (access, _) in all().filter(|(access, place)| access.writes && is_plans(*place)) {
            self.written.set(access.range(), made);
        }
    }

    fn sources<'a>(&self, reads: impl Iterator<Item = (&'a Access, Option<Place>)>) -> Rc<[Range]> {
        let mut sources: Vec<Range> = Vec::new();
        for (access, place) in reads {
            if is_plans(place) {
                sources.push(access.range());
            } else if is_value(place) {
                let values = self.values.touching(access.range());
                values.for_each(|(_, value)| sources.extend_from_slice(&value.sources));
            }
        }
        sources.sort_unstable();
        sources.dedup();
        sources.into()
    }
}

fn is_plans(place: Option<Place>) -> bool {
    matches!(place, Some(Place::State | Place::Step))
}

fn is_value(place: Option<Place>) -> bool {
    matches!(place, Some(Place::Slot | Place::Scratch))
}
