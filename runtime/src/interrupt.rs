//! Ctrl-C: the step under way is finished, then the run ends as usual. A second one ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(signal: libc::c_int) {
    if REQUESTED.swap(true, Ordering::SeqCst) {
        // SAFETY: restoring the default action and raising are allowed in a handler.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    // SAFETY: write is allowed in a handler; that it fails harms nothing.
    unsafe { libc::write(libc::STDERR_FILENO, NOTICE.as_ptr().cast(), NOTICE.len()) };
}

const NOTICE: &str = "\nstopping after this step; once more ends the process at once\n";

/// Starts listening to SIGINT and SIGTERM.
pub fn listen() {
    let handler = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
