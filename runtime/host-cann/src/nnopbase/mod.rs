//! Descriptors and executors of operators.
//!
//! A descriptor says where a tensor is and how it is laid out; it owns no memory. An executor is what phase one of an operator
//! leaves for phase two. Both are handles, so that one which is gone is recognised.

mod addresses;
mod arrays;
mod executors;
pub(crate) mod exports;
mod scalars;
mod tensor_lists;
mod tensors;

pub(crate) use arrays::ints;
pub(crate) use executors::{insert_executor, take_for_run};
pub(crate) use scalars::{Scalar, scalar};
pub(crate) use tensor_lists::elements;
pub(crate) use tensors::{Descriptor, descriptor, is_alive};

use crate::handles::Codes;
use crate::lifecycle;
use ascend_rs_sys::types::*;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Statuses of the operators' library.
const CODES: Codes = Codes { null: ACLNN_ERR_PARAM_NULLPTR, stale: ACLNN_ERR_PARAM_INVALID };

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Descriptors and executors that nobody has destroyed or run, one text each.
fn leaks() -> Vec<String> {
    let mut texts = executors::leaks();
    let kinds = [
        ("tensor descriptors", tensors::num_alive()),
        ("lists of tensors", tensor_lists::num_alive()),
        ("scalars", scalars::num_alive()),
        ("arrays", arrays::num_alive()),
    ];
    let alive = kinds.iter().filter(|(_, count)| *count > 0);
    texts.extend(alive.map(|(kind, count)| format!("{count} {kind} were never destroyed")));
    texts
}

/// Has the end of the runtime tell what was left.
fn watch_leaks() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| lifecycle::add_leak_source(leaks));
}
