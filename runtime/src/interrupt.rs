//! Ctrl-C: before the first step it ends the process. Later the step under way is finished, then the run ends as usual; a second one ends
//! the process.

use std::sync::atomic::{AtomicBool, Ordering};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Whether there are steps that a run can stop between.
static BEGUN: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(signal: libc::c_int) {
    let has_begun = BEGUN.load(Ordering::SeqCst);
    let is_repeated = REQUESTED.swap(true, Ordering::SeqCst);
    let notice = match (has_begun, is_repeated) {
        (false, _) => "\ninterrupted before the first step: nothing is trained or saved\n",
        (true, false) => "\nstopping after this step; once more ends the process at once\n",
        (true, true) => "\ninterrupted again: the process ends at once\n",
    };
    // SAFETY: write is allowed in a handler; that it fails harms nothing.
    unsafe { libc::write(libc::STDERR_FILENO, notice.as_ptr().cast(), notice.len()) };
    if !has_begun || is_repeated {
        // SAFETY: restoring the default action and raising are allowed in a handler.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// Starts listening to SIGINT and SIGTERM.
pub fn listen() {
    let handler = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only touches an atomic.
        unsafe { libc::signal(signal, handler) };
    }
}

/// From now on the run can stop between two steps. Until then nothing is worth waiting for.
pub fn steps_begin() {
    BEGUN.store(true, Ordering::SeqCst);
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
