//! Contexts: which device a thread's calls are for, and whose streams they may use.

use crate::event;
use crate::fault::Fault;
use crate::state::{Guard, Runtime};
use crate::stream::{self, Stream};
use ascend_rs_sys::types::*;
use std::cell::Cell;
use std::ffi::c_void;

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    /// Its device.
    pub(crate) device: i32,
    /// Its default stream.
    pub(crate) default_stream: usize,
}

thread_local! {
    /// The handle of this thread's context, 0 before it has one.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The handle of this thread's context, 0 if it has none.
pub(crate) fn current_key() -> usize {
    CURRENT.get()
}

/// Makes `key` this thread's context.
pub(crate) fn set_current(key: usize) {
    CURRENT.set(key);
}

impl Runtime {
    /// This thread's context.
    ///
    /// # Errors
    /// 107002: it has none, or that is gone.
    pub(crate) fn context(&self) -> Result<(usize, &Context), Fault> {
        let key = CURRENT.get();
        let context = self.contexts.at(key).ok_or_else(|| {
            Fault::new(ACL_ERROR_RT_CONTEXT_NULL, "this thread has no context: call aclrtSetDevice")
        })?;
        Ok((key, context))
    }

    /// Makes a context with its default stream.
    pub(crate) fn create_context(&mut self, device: i32) -> Result<usize, Fault> {
        self.device(device)?;
        let key = self.contexts.insert_key(Context { device, default_stream: 0 });
        match self.create_stream(key, device, 0, 0, true) {
            Ok(stream) => self.contexts.at_mut(key).expect("it was just made").default_stream = stream,
            Err(fault) => {
                let _ = self.contexts.remove(key as *const c_void);
                return Err(fault);
            }
        }
        Ok(key)
    }

    /// The key of the stream of a call: the context's default stream for null.
    ///
    /// # Errors
    /// 107003: it is another context's. 107017: it is no live stream.
    pub(crate) fn stream_key(&self, stream: aclrtStream) -> Result<usize, Fault> {
        let (key, context) = self.context()?;
        if stream.is_null() {
            return Ok(context.default_stream);
        }
        let found = self.streams.get(stream.0)?;
        if found.context != key {
            let message = format!("{} belongs to another context", found.name());
            return Err(Fault::new(ACL_ERROR_RT_STREAM_CONTEXT, message));
        }
        Ok(stream.0 as usize)
    }

    /// As [`Runtime::stream_key`], where null is an error.
    ///
    /// # Errors
    /// 100000 as well: it is null.
    pub(crate) fn given_stream_key(&self, stream: aclrtStream) -> Result<usize, Fault> {
        if stream.is_null() { Err(Fault::null("the stream")) } else { self.stream_key(stream) }
    }

    /// The stream of a key that was just checked.
    pub(crate) fn stream(&mut self, key: usize) -> &mut Stream {
        self.streams.at_mut(key).expect("the key was checked under this lock")
    }
}

/// Ends a context: its captures, streams, graphs and events. What the caller should have ended is listed. What is queued is run, or
/// dropped if this is forced.
pub(crate) fn destroy(mut runtime: Guard, key: usize, is_forced: bool) -> Guard {
    let Some(context) = runtime.contexts.at(key) else { return runtime };
    let default_stream = context.default_stream;
    let graphs = runtime.graphs.keys(|graph| graph.context == key);
    graphs.iter().for_each(|graph| runtime.discard_capture(*graph));
    for stream in runtime.streams.keys(|stream| stream.context == key) {
        let found = runtime.stream(stream);
        let (name, num_left) = (found.name(), found.queue.len());
        if stream != default_stream {
            runtime.leaks.push(name.clone());
        }
        if is_forced && num_left > 0 {
            runtime.leaks.push(format!("{num_left} tasks of {name} nobody waited for"));
        }
        let end = if is_forced { stream::end_now } else { stream::end };
        runtime = end(runtime, stream);
    }
    graphs.into_iter().for_each(|graph| runtime.leak_graph(graph));
    for event in runtime.events.keys(|event| event.context == key) {
        event::leak(&mut runtime, event);
    }
    let _ = runtime.contexts.remove(key as *const c_void);
    runtime
}
