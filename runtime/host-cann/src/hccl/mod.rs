//! Collectives among threads and among processes of one machine.
//!
//! The process that makes the root information serves a *hub*, a socket every rank connects to. A rank tells the hub what it
//! does and what it gives; once all ranks have told the same, the hub answers with what each gets. Because everything meets in
//! one place, ranks that disagree learn what the others do, instead of waiting for each other for half an hour.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `HCCL_CONNECT_TIMEOUT` | seconds to wait for all ranks at the start | 120 |
//! | `HCCL_EXEC_TIMEOUT` | seconds to wait for all ranks in an operation, 0 for ever | 1836 |
//! | `HCCL_BUFFSIZE` | MiB of each of a communicator's two buffers | 200 |
//! | `HCCL_DETERMINISTIC` | `true` or `strict`: reduce in the order of ranks | false |

mod all_to_all;
mod arithmetic;
mod channel;
mod collectives;
mod communicators;
mod config;
mod connection;
mod exchange;
pub(crate) mod exports;
mod hub;
mod initialization;
mod point_to_point;
mod queries;
mod rank_table;
mod types;
mod wire;

use crate::fault::Fault;
use ascend_rs_sys::types::HcclResult;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A fault with a status of HCCL.
fn fault(code: HcclResult, message: impl Into<String>) -> Fault {
    Fault::new(code.0, message)
}

/// A time-out in seconds from the environment.
fn seconds(variable: &str, default: u64) -> Duration {
    let text = std::env::var(variable).ok();
    Duration::from_secs(text.and_then(|text| text.parse().ok()).unwrap_or(default))
}
