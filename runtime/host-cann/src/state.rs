//! Everything the runtime knows, behind one lock.

use crate::capture::graph::{Graph, LaneStream, TaskRef};
use crate::capture::group::Group;
use crate::clock::Clock;
use crate::context::Context;
use crate::device::Device;
use crate::event::Event;
use crate::fault::Fault;
use crate::handles::{Codes, Handles};
use crate::kernel::{Arguments, Binary, Function};
use crate::memory::Memory;
use crate::memory::physical::{Physical, Reserved};
use crate::random::Random;
use crate::shadow::Shadow;
use crate::soc;
use crate::stats::Stats;
use crate::stream::Stream;
use ascend_rs_sys::types::*;
use std::collections::BTreeMap;
use std::env;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Devices a process may have.
const MAX_DEVICES: i32 = 64;

/// What the environment asks for.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// `HOST_CANN_DEVICES`.
    pub(crate) num_devices: i32,
    /// `HOST_CANN_STRICT`.
    pub(crate) is_strict: bool,
    /// `HOST_CANN_STATS`.
    pub(crate) stats: Option<String>,
}

/// The state of the process.
pub(crate) struct Runtime {
    /// What the environment asks for.
    pub(crate) options: Options,
    /// Calls of `aclInit` without their end; 0: it is not initialised.
    pub(crate) references: u64,
    /// By number.
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Handles<Context>,
    pub(crate) streams: Handles<Stream>,
    pub(crate) events: Handles<Event>,
    pub(crate) graphs: Handles<Graph>,
    pub(crate) groups: Handles<Group>,
    /// Streams of captured graphs, which can only be looked at.
    pub(crate) lane_streams: Handles<LaneStream>,
    /// Tasks of captured graphs, which can only be looked at.
    pub(crate) task_refs: Handles<TaskRef>,
    pub(crate) binaries: Handles<Binary>,
    pub(crate) functions: Handles<Function>,
    pub(crate) arguments: Handles<Arguments>,
    pub(crate) physical: Handles<Physical>,
    pub(crate) reserved: Vec<Reserved>,
    pub(crate) memory: Memory,
    pub(crate) shadow: Shadow,
    /// What the host knows to be past.
    pub(crate) host: Clock,
    /// `aclSysParamOpt` by number.
    pub(crate) parameters: BTreeMap<i32, i64>,
    pub(crate) stats: Stats,
    /// What was left when devices were reset.
    pub(crate) leaks: Vec<String>,
    /// Whether a stream has moved since the last time everybody was told.
    pub(crate) has_news: bool,
    /// Threads that wait for the end of whatever runs at the moment.
    pub(crate) num_watchers: usize,
    next_component: u32,
    next_launch: u64,
    next_id: u32,
}

impl Runtime {
    const fn new() -> Self {
        const fn none<T>(kind: &'static str, tag: u8) -> Handles<T> {
            Handles::new(kind, tag, Codes::ACL)
        }
        Self {
            options: Options { num_devices: 8, is_strict: false, stats: None },
            references: 0,
            devices: Vec::new(),
            contexts: none("context", 0x11),
            streams: none("stream", 0x12),
            events: none("event", 0x13),
            graphs: none("graph", 0x14),
            groups: none("task group", 0x15),
            lane_streams: none("stream of a graph", 0x16),
            task_refs: none("task of a graph", 0x17),
            binaries: none("kernel binary", 0x18),
            functions: none("kernel", 0x19),
            arguments: none("argument list", 0x1a),
            physical: none("physical memory", 0x1b),
            reserved: Vec::new(),
            memory: Memory::new(),
            shadow: Shadow::new(),
            host: Clock::new(),
            parameters: BTreeMap::new(),
            stats: Stats::new(),
            leaks: Vec::new(),
            has_news: false,
            num_watchers: 0,
            next_component: 1,
            next_launch: 0,
            next_id: 0,
        }
    }

    /// Reads the environment and starts anew. Clocks and handles go on, so that what is stale stays stale.
    pub(crate) fn start(&mut self) -> Result<(), Fault> {
        let number = |name: &str, default: u64| match env::var(name) {
            Ok(text) => text
                .parse()
                .map_err(|_| Fault::new(ACL_ERROR_INVALID_PARAM, format!("{name}: `{text}` is no number"))),
            Err(_) => Ok(default),
        };
        soc::find()?;
        let num_devices = number("HOST_CANN_DEVICES", 8)?;
        let num_devices = i32::try_from(num_devices).ok().filter(|num| (1..=MAX_DEVICES).contains(num));
        let num_devices = num_devices.ok_or_else(|| {
            let message = format!("HOST_CANN_DEVICES: it is from 1 to {MAX_DEVICES}");
            Fault::new(ACL_ERROR_INVALID_PARAM, message)
        })?;
        self.options = Options {
            num_devices,
            is_strict: number("HOST_CANN_STRICT", 0)? != 0,
            stats: env::var("HOST_CANN_STATS").ok().filter(|path| !path.is_empty()),
        };
        let seed = number("HOST_CANN_SEED", 0)?;
        while self.devices.len() < num_devices as usize {
            self.devices.push(Device::new(self.devices.len() as i32));
        }
        for (id, device) in self.devices.iter_mut().enumerate() {
            device.random = Random::new(seed.wrapping_mul(1 << 32).wrapping_add(id as u64));
        }
        self.parameters.clear();
        self.stats = Stats::new();
        Ok(())
    }

    /// A new component of clocks.
    pub(crate) fn new_component(&mut self) -> u32 {
        self.next_component += 1;
        self.next_component - 1
    }

    /// A number no execution had before.
    pub(crate) fn new_launch(&mut self) -> u64 {
        self.next_launch += 1;
        self.next_launch
    }

    /// A small number for a stream, event or graph.
    pub(crate) fn new_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }
}

static RUNTIME: Mutex<Runtime> = Mutex::new(Runtime::new());
/// Told whenever the state has changed in a way somebody may wait for.
pub(crate) static CHANGED: Condvar = Condvar::new();

/// The lock on the state.
pub(crate) type Guard = MutexGuard<'static, Runtime>;

/// The state, initialised or not.
pub(crate) fn lock() -> Guard {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state.
///
/// # Errors
/// 100001: `aclInit` has not been called.
pub(crate) fn ready() -> Result<Guard, Fault> {
    let runtime = lock();
    if runtime.references == 0 {
        return Err(Fault::new(ACL_ERROR_UNINITIALIZE, "aclInit has not been called"));
    }
    Ok(runtime)
}
