//! Memory: every value gets an address.
//!
//! State lives in its own arena: weights, optimizer, tables, gradient accumulators. Everything else shares the step arena by
//! the intervals in which it is in use. Views share their operand's bytes, an elementwise kernel may write over an
//! operand that dies there, and the next value of a state is computed where the state is whenever all its readers come earlier.

mod alias;
mod pack;

use crate::schedule::streams::{Timeline, timeline};
use std::collections::BTreeMap;
use titan_ir::plan::{ALIGN_BYTES, Address, Arena};
use titan_ir::{Diag, DiagResult, Func, Module, Role, ValueId};

/// What a buffer of the step arena is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Function.
    pub func: u32,
    /// The value that names it: the first one stored there.
    pub value: ValueId,
    /// First entry that uses it, over the concatenated timelines.
    pub start: u32,
    /// Last entry that uses it.
    pub end: u32,
    /// Bytes, a multiple of [`ALIGN_BYTES`].
    pub size_bytes: u64,
}

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// In this state of [`Placement::states`].
    State(u32),
    /// In this buffer of [`Placement::buffers`].
    Step(u32),
}

/// The next value of a state that had to be made elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyBack {
    /// Function at whose end it is copied.
    pub func: u32,
    /// From.
    pub src: Home,
    /// To.
    pub dst: Home,
    /// How much.
    pub size_bytes: u64,
}

/// A named tensor of the state arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Function and parameter that declare it first.
    pub first: (u32, u32),
    /// Where it is.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u64,
    /// What it is.
    pub role: Role,
}

/// Where everything is.
#[derive(Debug)]
pub struct Placement {
    /// Per function.
    pub timelines: Vec<Timeline>,
    /// Number of events.
    pub num_events: u32,
    /// Per function and value; `None` for what never is in memory.
    pub homes: Vec<Vec<Option<Home>>>,
    /// In arena order.
    pub states: Vec<State>,
    /// Bytes of the state arena.
    pub state_bytes: u64,
    /// Buffers of the step arena with their offsets.
    pub buffers: Vec<(Interval, u64)>,
    /// Bytes of the step arena.
    pub step_bytes: u64,
    /// What no placement can go below: most bytes in use at once.
    pub lower_bound_bytes: u64,
    /// Copies after the last entry of a function.
    pub copies: Vec<CopyBack>,
}

impl Placement {
    /// The address of a home.
    pub fn address(&self, home: Home) -> Address {
        match home {
            Home::State(s) => {
                Address { arena: Arena::State, offset_bytes: self.states[s as usize].offset_bytes }
            }
            Home::Step(b) => Address { arena: Arena::Step, offset_bytes: self.buffers[b as usize].1 },
        }
    }

    /// The address of a value of function `func` that is in memory.
    pub fn address_of(&self, func: usize, value: ValueId) -> Address {
        let home = self.homes[func][value.index()];
        self.address(home.unwrap_or_else(|| titan_ir::ice!("place: {value:?} is read but never made")))
    }
}

/// `bytes` rounded up to the alignment of buffers.
pub(crate) fn aligned(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(ALIGN_BYTES)
}

/// Places every value of a module of stage `Kernels`.
///
/// # Errors
/// T0502 when two functions disagree about a state, or states swap their values.
pub fn place(module: &Module) -> DiagResult<Placement> {
    let mut timelines = Vec::new();
    let mut num_events = 0;
    for func in &module.funcs {
        let timeline = timeline(func, num_events);
        num_events += timeline.num_events();
        timelines.push(timeline);
    }
    let states = states(&module.funcs)?;
    let buffers = alias::buffers(module, &timelines, &states)?;
    let packed = pack::pack(&items(&buffers.step));
    Ok(Placement {
        timelines,
        num_events,
        homes: buffers.homes,
        copies: buffers.copies,
        state_bytes: states.iter().map(|s| s.offset_bytes + aligned(s.size_bytes)).max().unwrap_or(0),
        states,
        buffers: buffers.step.iter().copied().zip(packed.offsets.iter().copied()).collect(),
        step_bytes: packed.peak_bytes,
        lower_bound_bytes: packed.lower_bound_bytes,
    })
}

/// In the present order of nodes: most bytes of the step arena in use at once, and bytes times entries in use.
///
/// # Errors
/// As [`place`].
pub(crate) fn held_bytes(module: &Module) -> DiagResult<(u64, u128)> {
    let timelines: Vec<Timeline> = module.funcs.iter().map(|func| timeline(func, 0)).collect();
    let buffers = alias::buffers(module, &timelines, &states(&module.funcs)?)?;
    let area = |i: &Interval| u128::from(i.size_bytes) * u128::from(i.end - i.start + 1);
    Ok((pack::lower_bound(&items(&buffers.step)), buffers.step.iter().map(area).sum()))
}

fn items(intervals: &[Interval]) -> Vec<pack::Item> {
    intervals.iter().map(|i| pack::Item { start: i.start, end: i.end, size_bytes: i.size_bytes }).collect()
}

/// The state arena: what the functions share by name, accumulators last so that one fill clears them.
fn states(funcs: &[Func]) -> DiagResult<Vec<State>> {
    let mut states: Vec<State> = Vec::new();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (f, func) in (0u32..).zip(funcs) {
        for (p, param) in (0u32..).zip(&func.params) {
            let size_bytes = func.ty(param.value).size_bytes();
            if param.role == Role::Input {
                continue;
            }
            if let Some(&known) = by_name.get(param.name.as_str()) {
                if states[known].size_bytes != size_bytes {
                    let message = format!(
                        "`{}` has {} bytes in one function and {size_bytes} in another",
                        param.name, states[known].size_bytes
                    );
                    return Err(Diag::new("T0502", message).at(param.name.clone()));
                }
                continue;
            }
            by_name.insert(&param.name, states.len());
            let (name, role) = (param.name.clone(), param.role);
            states.push(State { name, first: (f, p), offset_bytes: 0, size_bytes, role });
        }
    }
    states.sort_by_key(|s| s.role == Role::GradAccum);
    let mut offset_bytes = 0;
    for state in &mut states {
        state.offset_bytes = offset_bytes;
        offset_bytes += aligned(state.size_bytes);
    }
    Ok(states)
}
