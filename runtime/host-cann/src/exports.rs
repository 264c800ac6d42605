//! The C functions this library has.

use ascend_rs_sys::types::*;
use std::ffi::{c_char, c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/exports.rs"));
