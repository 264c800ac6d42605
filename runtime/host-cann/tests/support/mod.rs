//! Opens the library as a program would, and makes its objects.
#![expect(dead_code, reason = "every test file uses a part")]

use ascend_rs_sys::types::*;
use ascend_rs_sys::{Acl, Error, Search};
use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The shared library, next to the test's program.
pub(crate) fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().join("libhost_cann.so")
}

/// The runtime of the process.
pub(crate) fn acl() -> &'static Acl {
    static ACL: OnceLock<Acl> = OnceLock::new();
    ACL.get_or_init(|| Acl::load(&Search::at(&library())).unwrap())
}

/// A device in use, by one test at a time.
pub(crate) struct Session {
    _only: MutexGuard<'static, ()>,
}

/// Keeps other tests from running.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONLY: Mutex<()> = Mutex::new(());
    ONLY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Initialises and sets device 0.
pub(crate) fn session() -> Session {
    begin(alone())
}

/// As [`session`], for who is alone already.
pub(crate) fn begin(only: MutexGuard<'static, ()>) -> Session {
    // SAFETY: no configuration file.
    unsafe {
        acl().aclInit(ptr::null()).unwrap();
        acl().aclrtSetDevice(0).unwrap();
    }
    Session { _only: only }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the calls take no pointers.
        unsafe {
            let _ = acl().aclrtResetDeviceForce(0);
            let _ = acl().aclFinalize();
        }
    }
}

/// The status of a call: 0 or that of its error.
pub(crate) fn code<T>(result: Result<T, Error>) -> i32 {
    match result {
        Ok(_) => 0,
        Err(Error::Call { status, .. }) => status,
        Err(error) => panic!("{error}"),
    }
}

/// The text of a call's error.
pub(crate) fn text<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A new stream.
pub(crate) fn stream() -> aclrtStream {
    let mut stream = aclrtStream::NULL;
    // SAFETY: the stream is written.
    unsafe { acl().aclrtCreateStream(&mut stream).unwrap() };
    stream
}

/// A new Ex event.
pub(crate) fn event() -> aclrtEvent {
    let mut event = aclrtEvent::NULL;
    // SAFETY: the event is written.
    unsafe { acl().aclrtCreateEventExWithFlag(&mut event, ACL_EVENT_SYNC).unwrap() };
    event
}

/// Device memory.
pub(crate) fn device_memory(len: usize) -> *mut c_void {
    let mut pointer = ptr::null_mut();
    // SAFETY: the pointer is written.
    unsafe { acl().aclrtMalloc(&mut pointer, len, aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST).unwrap() };
    pointer
}

/// Pinned host memory.
pub(crate) fn pinned_memory(len: usize) -> *mut c_void {
    let mut pointer = ptr::null_mut();
    // SAFETY: the pointer is written.
    unsafe { acl().aclrtMallocHost(&mut pointer, len).unwrap() };
    pointer
}

/// A fill of device memory.
pub(crate) fn fill(pointer: *mut c_void, len: usize, value: u8, stream: aclrtStream) -> Result<(), Error> {
    // SAFETY: the library checks the memory.
    unsafe { acl().aclrtMemsetAsync(pointer, len, i32::from(value), len, stream) }
}

/// A copy between places the library knows.
pub(crate) fn copy(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    stream: aclrtStream,
) -> Result<(), Error> {
    // SAFETY: the library checks the memory.
    unsafe { acl().aclrtMemcpyAsync(to, len, from, len, aclrtMemcpyKind::ACL_MEMCPY_DEFAULT, stream) }
}

/// Waits for a stream.
pub(crate) fn synchronize(stream: aclrtStream) -> Result<(), Error> {
    // SAFETY: the call takes no pointers of ours.
    unsafe { acl().aclrtSynchronizeStream(stream) }
}

/// Bytes of device memory, read by the host.
pub(crate) fn read(pointer: *const c_void, len: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0_u8; len];
    let kind = aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST;
    // SAFETY: the vector has room.
    unsafe { acl().aclrtMemcpy(bytes.as_mut_ptr().cast(), len, pointer, len, kind)? };
    Ok(bytes)
}

/// Records an event.
pub(crate) fn record(event: aclrtEvent, stream: aclrtStream) {
    // SAFETY: handles only.
    unsafe { acl().aclrtRecordEvent(event, stream).unwrap() };
}

/// Makes a stream wait.
pub(crate) fn wait(stream: aclrtStream, event: aclrtEvent) {
    // SAFETY: handles only.
    unsafe { acl().aclrtStreamWaitEvent(stream, event).unwrap() };
}

/// Captures what `submit` submits from `stream` on.
pub(crate) fn capture(stream: aclrtStream, submit: impl FnOnce()) -> Result<aclmdlRI, Error> {
    let mut graph = aclmdlRI::NULL;
    // SAFETY: the graph is written.
    unsafe {
        acl().aclmdlRICaptureBegin(stream, aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)?;
        submit();
        acl().aclmdlRICaptureEnd(stream, &mut graph)?;
    }
    Ok(graph)
}

/// Replays a graph.
pub(crate) fn replay(graph: aclmdlRI, stream: aclrtStream) -> Result<(), Error> {
    // SAFETY: handles only.
    unsafe { acl().aclmdlRIExecuteAsync(graph, stream) }
}
