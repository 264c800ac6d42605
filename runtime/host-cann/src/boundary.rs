//! Between C and Rust: statuses, texts of errors, panics.

use crate::capture;
use crate::fault::Fault;
use crate::state;
use ascend_rs_sys::types::*;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a C function returns.
pub(crate) trait Returned: Sized {
    /// What Rust returns for it.
    type Value;
    /// For success.
    fn success(value: Self::Value) -> Self;
    /// For an error.
    fn failure(code: i32) -> Self;
}

impl Returned for i32 {
    type Value = ();

    fn success((): ()) -> Self {
        0
    }

    fn failure(code: i32) -> Self {
        code
    }
}

impl Returned for HcclResult {
    type Value = ();

    fn success((): ()) -> Self {
        Self(0)
    }

    fn failure(code: i32) -> Self {
        Self(code)
    }
}

/// Results that are no status: an error is zero or null.
macro_rules! returned {
    ($($ty:ty = $failure:expr),* $(,)?) => { $(
        impl Returned for $ty {
            type Value = Self;

            fn success(value: Self) -> Self {
                value
            }

            fn failure(_: i32) -> Self {
                $failure
            }
        }
    )* };
}

returned! { u32 = 0, usize = 0 }

impl<T> Returned for *mut T {
    type Value = Self;

    fn success(value: Self) -> Self {
        value
    }

    fn failure(_: i32) -> Self {
        std::ptr::null_mut()
    }
}

impl<T> Returned for *const T {
    type Value = Self;

    fn success(value: Self) -> Self {
        value
    }

    fn failure(_: i32) -> Self {
        std::ptr::null()
    }
}

/// The last error of a thread.
#[derive(Default)]
struct Last {
    code: i32,
    text: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Runs the implementation of `function`. An error becomes its status and this thread's text; a panic becomes an error.
pub(crate) fn call<R: Returned>(function: &str, run: impl FnOnce() -> Result<R::Value, Fault>) -> R {
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(own_fault(&*panic)));
    match result {
        Ok(value) => R::success(value),
        Err(fault) => {
            remember(function, &fault);
            punish(function, &fault);
            R::failure(fault.code)
        }
    }
}

/// The error for a panic.
pub(crate) fn own_fault(panic: &(dyn Any + Send)) -> Fault {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    Fault::new(ACL_ERROR_INTERNAL_ERROR, format!("fault of host-cann itself: {text}"))
}

/// Ruins the running captures, if `HOST_CANN_STRICT` asks for it.
fn punish(function: &str, fault: &Fault) {
    let runtime = state::lock();
    if runtime.options.is_strict {
        capture::punish(runtime, &format!("{function} has failed: {}", fault.message));
    }
}

/// Makes `fault` this thread's last error.
fn remember(function: &str, fault: &Fault) {
    let text = format!("{function}: {}", fault.message).replace('\0', "?");
    let text = CString::new(text).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = Last { code: fault.code, text });
}

/// Makes `text` what `aclGetRecentErrMsg` says, without an error.
pub(crate) fn note(text: Option<String>) {
    let Some(text) = text else { return };
    let text = CString::new(text).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = Last { code: 0, text });
}

/// The text of this thread's last error, which lives until its next.
pub(crate) fn last_text() -> *const c_char {
    LAST.with_borrow(|last| if last.text.is_empty() { std::ptr::null() } else { last.text.as_ptr() })
}

/// The status of this thread's last error, and whether it is forgotten.
pub(crate) fn last_code(forget: bool) -> i32 {
    LAST.with_borrow_mut(|last| if forget { std::mem::take(&mut last.code) } else { last.code })
}

/// Stores a result where the caller wants it.
///
/// # Errors
/// `out` is null.
///
/// # Safety
/// `out` is null or may be written.
pub(crate) unsafe fn write<T>(out: *mut T, value: T, name: &str) -> Result<(), Fault> {
    if out.is_null() {
        return Err(Fault::null(name));
    }
    // SAFETY: the caller vouches for it.
    unsafe { out.write(value) };
    Ok(())
}

/// Fails for a null pointer.
pub(crate) fn non_null<T>(pointer: *const T, name: &str) -> Result<(), Fault> {
    if pointer.is_null() { Err(Fault::null(name)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::{CStr, c_void};

    #[test]
    fn a_panic_is_an_error_with_a_text() {
        let status: i32 = call("aclrtFree", || panic!("oh {}", 7));
        assert_eq!(status, ACL_ERROR_INTERNAL_ERROR);
        // SAFETY: the text of this thread, read before its next error.
        let text = unsafe { CStr::from_ptr(last_text()) };
        assert_eq!(text.to_str().unwrap(), "aclrtFree: fault of host-cann itself: oh 7");
        assert_eq!((last_code(true), last_code(true)), (ACL_ERROR_INTERNAL_ERROR, 0));
        let pointer: *mut c_void = call("aclCreateScalar", || Err(Fault::null("value")));
        assert!(pointer.is_null());
    }
}
