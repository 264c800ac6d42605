//! The end of devices and of the runtime, and what was forgotten until then.

use crate::context;
use crate::fault::Fault;
use crate::memory::Place;
use crate::span::Span;
use crate::state::{Guard, Runtime};
use ascend_rs_sys::types::ACL_ERROR_RT_PARAM_INVALID;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Names that a report lists; more are only counted.
const MAX_NAMED: usize = 20;

/// Lists what was left of objects this module does not know.
pub(crate) type LeakSource = fn() -> Vec<String>;

static SOURCES: Mutex<Vec<LeakSource>> = Mutex::new(Vec::new());

/// Asks `source` at the end of the runtime, too.
pub(crate) fn add_leak_source(source: LeakSource) {
    let mut sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner);
    if sources.iter().all(|other| !std::ptr::fn_addr_eq(*other, source)) {
        sources.push(source);
    }
}

/// Ends one use of a device; the last one ends its contexts and its memory.
pub(crate) fn reset_device(mut runtime: Guard, id: i32, is_forced: bool) -> Result<Guard, Fault> {
    let device = runtime.device(id)?;
    if device.count == 0 {
        let message = format!("aclrtSetDevice was not called for device {id}");
        return Err(Fault::new(ACL_ERROR_RT_PARAM_INVALID, message));
    }
    device.count = if is_forced { 0 } else { device.count - 1 };
    if device.count > 0 {
        return Ok(runtime);
    }
    device.primary = None;
    for key in runtime.contexts.keys(|context| context.device == id) {
        runtime = context::destroy(runtime, key, is_forced);
    }
    runtime.release_memory(Place::Device(id));
    runtime.device(id)?.core_limits = [None; 2];
    Ok(runtime)
}

impl Runtime {
    /// Frees and lists all memory at `place`.
    fn release_memory(&mut self, place: Place) {
        let spans: Vec<Span> = self.memory.live().filter(|a| a.place == place).map(|a| a.span).collect();
        for span in spans {
            let kind = if place == Place::Pinned { "pinned host memory" } else { "device memory" };
            self.leaks.push(format!("{} bytes of {kind}", span.len));
            let charged = self.memory.release(span.start).map_or(0, |(_, charged)| charged);
            self.shadow.forget(span);
            if let Place::Device(device) = place {
                self.discharge(device, charged);
            }
        }
    }

    /// What is left, in one line; none if nothing is.
    fn report(&self) -> Option<String> {
        let num = self.leaks.len();
        let (mut counts, mut places) = (Vec::<(&str, usize)>::new(), BTreeMap::<&str, usize>::new());
        for leak in &self.leaks {
            let place = *places.entry(leak).or_insert(counts.len());
            match counts.get_mut(place) {
                Some((_, count)) => *count += 1,
                None => counts.push((leak, 1)),
            }
        }
        let more = counts.len().saturating_sub(MAX_NAMED);
        let named = counts[..counts.len() - more].iter().map(|(name, count)| match count {
            1 => (*name).to_owned(),
            _ => format!("{count} times {name}"),
        });
        let mut names = named.collect::<Vec<_>>().join(", ");
        if more > 0 {
            names.push_str(&format!(" and {more} kinds more"));
        }
        (num > 0).then(|| format!("host-cann: {num} left at aclFinalize: {names}"))
    }
}

/// Ends the runtime, and gives the report of what was left, if anything was.
pub(crate) fn finalize(mut runtime: Guard) -> Option<String> {
    for id in 0..runtime.devices.len() as i32 {
        if runtime.devices[id as usize].count > 0 {
            runtime.leaks.push(format!("device {id}, which was not reset"));
            if let Ok(guard) = reset_device(runtime, id, true) {
                runtime = guard;
            } else {
                runtime = crate::state::lock();
            }
        }
    }
    runtime.release_memory(Place::Pinned);
    let keys = runtime.binaries.keys(|_| true);
    for key in keys {
        runtime.leaks.push("a kernel binary".to_owned());
        let _ = runtime.binaries.remove(key as *const std::ffi::c_void);
    }
    for key in runtime.physical.keys(|_| true) {
        runtime.leaks.push("physical memory".to_owned());
        let _ = runtime.physical.remove(key as *const std::ffi::c_void);
    }
    let num_reserved = runtime.reserved.len();
    runtime.leaks.extend((0..num_reserved).map(|_| "reserved addresses".to_owned()));
    runtime.reserved.clear();
    let sources = SOURCES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    runtime.leaks.extend(sources.iter().flat_map(|source| source()));
    runtime.references = 0;
    runtime.stats.leaks = runtime.leaks.len() as u64;
    let report = runtime.report();
    runtime.leaks.clear();
    if let Some(path) = &runtime.options.stats {
        let file = OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| writeln!(file, "{}", runtime.stats)) {
            eprintln!("host-cann: {path}: {error}");
        }
    }
    if let Some(report) = &report {
        eprintln!("{report}");
        if runtime.options.is_strict {
            std::process::abort();
        }
    }
    report
}
