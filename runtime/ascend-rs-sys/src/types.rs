//! Types, constants and statuses of CANN's C interface.

use std::ffi::{c_char, c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/types.rs"));

/// The name of a status of the ACL runtime or of an operator.
pub fn status_name(code: i32) -> Option<&'static str> {
    STATUSES.binary_search_by_key(&code, |(code, _)| *code).ok().map(|i| STATUSES[i].1)
}
