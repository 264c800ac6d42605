//! What operators and collectives ask the runtime.

use crate::fault::Fault;
use crate::state::{self, CHANGED};
use ascend_rs_sys::types::*;

/// The device of this thread's context.
///
/// # Errors
/// 100001: not initialised. 107002: no context.
pub(crate) fn current_device() -> Result<i32, Fault> {
    Ok(state::ready()?.context()?.1.device)
}

/// A parameter of `aclrtSetSysParamOpt`, 0 if it was not set.
pub(crate) fn parameter(option: aclSysParamOpt) -> i64 {
    state::lock().parameters.get(&option.0).copied().unwrap_or(0)
}

/// The number of the graph that is being captured from `stream`; none if it is not being captured.
///
/// # Errors
/// The stream is no live stream of this thread's context.
pub(crate) fn capturing(stream: aclrtStream) -> Result<Option<u32>, Fault> {
    let mut runtime = state::ready()?;
    let key = runtime.stream_key(stream)?;
    let graph = runtime.stream(key).capture;
    Ok(graph.and_then(|graph| runtime.graphs.at(graph)).map(|graph| graph.id))
}

/// Takes `bytes` of a device's memory for buffers of a library.
///
/// # Errors
/// 207001: it has no more.
pub(crate) fn charge(device: i32, bytes: u64) -> Result<(), Fault> {
    state::ready()?.charge(device, bytes)
}

/// Gives them back.
pub(crate) fn discharge(device: i32, bytes: u64) {
    state::lock().discharge(device, bytes);
}

/// Lets tasks that are blocked be asked again soon.
pub(crate) fn wake() {
    CHANGED.notify_all();
}
