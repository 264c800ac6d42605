//! Where ranks wait for each other.

use super::local::Stopped;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// A barrier that gives up when the world stops.
#[derive(Debug)]
pub(super) struct Meeting {
    size: usize,
    state: Mutex<(usize, u64)>,
    changed: Condvar,
}

impl Meeting {
    /// For this many ranks.
    pub(super) fn new(size: usize) -> Self {
        Self { size, state: Mutex::new((0, 0)), changed: Condvar::new() }
    }

    /// Waits for all.
    ///
    /// # Errors
    /// When the run is stopped before they have come.
    pub(super) fn wait(&self, stopped: &AtomicBool) -> Result<(), Stopped> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Those who gave up are still counted: nobody may meet them any more.
        if stopped.load(Ordering::SeqCst) {
            return Err(Stopped);
        }
        state.0 += 1;
        if state.0 == self.size {
            *state = (0, state.1 + 1);
            self.changed.notify_all();
            return Ok(());
        }
        let round = state.1;
        while state.1 == round {
            if stopped.load(Ordering::SeqCst) {
                return Err(Stopped);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Makes those who wait look whether the run is stopped.
    pub(super) fn wake(&self) {
        let _guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }
}
