//! Captured graphs.

use crate::boundary::{non_null, write};
use crate::capture::graph::{Graph, LaneStream, TaskRef};
use crate::fault::Fault;
use crate::schedule::wait;
use crate::state::{self, Guard, Runtime};
use crate::stream::{Item, enqueue};
use ascend_rs_sys::types::*;
use std::ffi::{CStr, c_char, c_void};
use std::fs;
use std::time::Duration;

/// How long a graph that is to be destroyed may still run.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(10);

/// The state and a graph that is complete.
fn complete(graph: aclmdlRI) -> Result<(Guard, usize), Fault> {
    let runtime = state::ready()?;
    let found = runtime.graphs.get(graph.0)?;
    if found.capture.is_some() {
        let message = format!("graph {} is being captured", found.id);
        return Err(Fault::new(ACL_ERROR_RT_MODEL_CAPTURED, message));
    }
    Ok((runtime, graph.0 as usize))
}

pub(crate) fn aclmdlRIExecuteAsync(graph: aclmdlRI, stream: aclrtStream) -> Result<(), Fault> {
    let (mut runtime, graph) = complete(graph)?;
    let key = runtime.stream_key(stream)?;
    let context = runtime.stream(key).context;
    runtime.stream(key).not_capturing()?;
    if runtime.graphs.at(graph).is_some_and(|graph| graph.context != context) {
        return Err(Fault::new(ACL_ERROR_RT_MODEL_CONTEXT, "the graph belongs to another context"));
    }
    let run = runtime.new_replay(graph, key)?;
    enqueue(runtime, key, Item::Graph(Box::new(run))).map(drop)
}

pub(crate) fn aclmdlRIDestroy(graph: aclmdlRI) -> Result<(), Fault> {
    let (mut runtime, key) = complete(graph)?;
    let (device, id) = (runtime.graphs.get(graph.0)?.device, runtime.graphs.get(graph.0)?.id);
    let is_done;
    (runtime, is_done) = wait::until(runtime, device, Some(DESTROY_TIMEOUT), |runtime| {
        runtime.graphs.at(key).is_none_or(|graph| graph.num_pending == 0)
    });
    if !is_done {
        return Err(Fault::new(ACL_ERROR_RT_MODEL_RUNNING, format!("graph {id} is still running")));
    }
    let callbacks = runtime.graphs.get(graph.0)?.callbacks.clone();
    runtime.remove_graph(key);
    drop(runtime);
    for (callback, data) in callbacks {
        if let Some(callback) = callback {
            // SAFETY: who registered it vouches for it and its data until the graph is destroyed.
            unsafe { callback(data as *mut c_void) };
        }
    }
    Ok(())
}

pub(crate) fn aclmdlRIDestroyRegisterCallback(
    graph: aclmdlRI,
    callback: aclrtCallback,
    data: *mut c_void,
) -> Result<(), Fault> {
    let (mut runtime, _) = complete(graph)?;
    if callback.is_none() {
        return Err(Fault::null("func"));
    }
    runtime.graphs.get_mut(graph.0)?.callbacks.push((callback, data as usize));
    Ok(())
}

pub(crate) fn aclmdlRIDestroyUnregisterCallback(
    graph: aclmdlRI,
    callback: aclrtCallback,
) -> Result<(), Fault> {
    let (mut runtime, _) = complete(graph)?;
    let address = |callback: aclrtCallback| callback.map(|callback| callback as usize);
    let callbacks = &mut runtime.graphs.get_mut(graph.0)?.callbacks;
    let before = callbacks.len();
    callbacks.retain(|(other, _)| address(*other) != address(callback));
    if callbacks.len() < before { Ok(()) } else { Err(Fault::parameter("the call-back is not registered")) }
}

pub(crate) fn aclmdlRIDebugPrint(graph: aclmdlRI) -> Result<(), Fault> {
    let (runtime, _) = complete(graph)?;
    print!("{}", runtime.graphs.get(graph.0)?.text());
    Ok(())
}

pub(crate) unsafe fn aclmdlRIDebugJsonPrint(
    graph: aclmdlRI,
    path: *const c_char,
    flags: u32,
) -> Result<(), Fault> {
    non_null(path, "path")?;
    let (runtime, _) = complete(graph)?;
    if flags > ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE {
        return Err(Fault::parameter(format!("there is no flag {flags}")));
    }
    // SAFETY: the caller vouches for a text that ends with zero.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    let trace = runtime.graphs.get(graph.0)?.trace(flags == ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE);
    fs::write(&*path, trace.to_string())
        .map_err(|error| Fault::new(ACL_ERROR_RT_FILE_WRITE, format!("{path}: {error}")))
}

pub(crate) unsafe fn aclmdlRISetName(graph: aclmdlRI, name: *const c_char) -> Result<(), Fault> {
    non_null(name, "name")?;
    let (mut runtime, _) = complete(graph)?;
    // SAFETY: the caller vouches for a text that ends with zero.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    runtime.graphs.get_mut(graph.0)?.name = name;
    Ok(())
}

pub(crate) unsafe fn aclmdlRIGetName(graph: aclmdlRI, max: u32, out: *mut c_char) -> Result<(), Fault> {
    non_null(out, "name")?;
    let (runtime, _) = complete(graph)?;
    let name = &runtime.graphs.get(graph.0)?.name;
    if name.len() >= max as usize {
        return Err(Fault::parameter(format!("the name has {} bytes and a zero", name.len())));
    }
    // SAFETY: the caller vouches for `max` bytes.
    unsafe {
        std::ptr::copy(name.as_ptr().cast::<c_char>(), out, name.len());
        out.add(name.len()).write(0);
    }
    Ok(())
}

pub(crate) unsafe fn aclmdlRIGetId(graph: aclmdlRI, id: *mut u32) -> Result<(), Fault> {
    let (runtime, _) = complete(graph)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(id, runtime.graphs.get(graph.0)?.id, "modelRIId") }
}

/// Gives a list the caller has room for, or its length if there is no room at all.
///
/// # Safety
/// `num` may be read and written, and `out` is null or has room for so many.
unsafe fn list<T: Copy>(items: &[T], out: *mut T, num: *mut u32, name: &str) -> Result<(), Fault> {
    non_null(num, name)?;
    // SAFETY: the caller vouches for the pointer.
    let room = unsafe { num.replace(items.len() as u32) } as usize;
    if out.is_null() {
        return Ok(());
    }
    if room < items.len() {
        let message = format!("{name}: room for {room} of {}", items.len());
        return Err(Fault::new(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, message));
    }
    // SAFETY: the caller vouches for the room.
    unsafe { std::ptr::copy(items.as_ptr(), out, items.len()) };
    Ok(())
}

pub(crate) unsafe fn aclmdlRIGetStreams(
    graph: aclmdlRI,
    out: *mut aclrtStream,
    num: *mut u32,
) -> Result<(), Fault> {
    let (mut runtime, key) = complete(graph)?;
    if runtime.graphs.get(graph.0)?.lane_streams.is_empty() {
        runtime.name_lanes(key);
    }
    let streams = &runtime.graphs.get(graph.0)?.lane_streams;
    let streams: Vec<_> = streams.iter().map(|stream| aclrtStream(*stream as *mut c_void)).collect();
    // SAFETY: the caller vouches for the pointers.
    unsafe { list(&streams, out, num, "numStreams") }
}

impl Runtime {
    /// Makes handles for the streams and tasks of a graph.
    fn name_lanes(&mut self, key: usize) {
        let Some(Graph { lanes, .. }) = self.graphs.at(key) else { return };
        let lengths: Vec<usize> = lanes.iter().map(|lane| lane.nodes.len()).collect();
        let mut streams = Vec::new();
        for (lane, len) in lengths.into_iter().enumerate() {
            // The first stream ends with a task that ends the graph.
            let num = len + usize::from(lane == 0);
            let task = |node| self.task_refs.insert_key(TaskRef { graph: key, lane, node });
            let tasks = (0..num).map(task).collect();
            streams.push(self.lane_streams.insert_key(LaneStream { tasks }));
        }
        if let Some(graph) = self.graphs.at_mut(key) {
            graph.lane_streams = streams;
        }
    }
}

pub(crate) unsafe fn aclmdlRIGetTasksByStream(
    stream: aclrtStream,
    out: *mut aclmdlRITask,
    num: *mut u32,
) -> Result<(), Fault> {
    let runtime = state::ready()?;
    let tasks = &runtime.lane_streams.get(stream.0)?.tasks;
    let tasks: Vec<_> = tasks.iter().map(|task| aclmdlRITask(*task as *mut c_void)).collect();
    // SAFETY: the caller vouches for the pointers.
    unsafe { list(&tasks, out, num, "numTasks") }
}

pub(crate) unsafe fn aclmdlRITaskGetType(
    task: aclmdlRITask,
    out: *mut aclmdlRITaskType,
) -> Result<(), Fault> {
    let runtime = state::ready()?;
    let &TaskRef { graph, lane, node } = runtime.task_refs.get(task.0)?;
    let nodes = &runtime.graphs.get(graph as *const c_void)?.lanes[lane].nodes;
    let kind = nodes.get(node).map_or(aclmdlRITaskType::ACL_MODEL_RI_TASK_DEFAULT, |node| node.kind());
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, kind, "type") }
}

pub(crate) unsafe fn aclmdlRITaskGetSeqId(task: aclmdlRITask, out: *mut u32) -> Result<(), Fault> {
    let runtime = state::ready()?;
    let node = runtime.task_refs.get(task.0)?.node;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, node as u32, "id") }
}
