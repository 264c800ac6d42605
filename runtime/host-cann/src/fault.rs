//! What went wrong, as a status and a text.

use ascend_rs_sys::types::*;

/// An error of any of CANN's libraries: the status is what the function returns, the text is what `aclGetRecentErrMsg` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The status; one of the library whose function fails.
    pub(crate) code: i32,
    /// One line that names the objects concerned.
    pub(crate) message: String,
}

impl Fault {
    /// A fault with this status and text.
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// 100000: a null pointer or handle where none may be.
    pub(crate) fn null(what: &str) -> Self {
        Self::new(ACL_ERROR_INVALID_PARAM, format!("{what} is null"))
    }

    /// 107000: a value the runtime cannot accept.
    pub(crate) fn parameter(message: impl Into<String>) -> Self {
        Self::new(ACL_ERROR_RT_PARAM_INVALID, message)
    }

    /// The fault without its status: this with the text of `task` before it.
    pub(crate) fn of(self, task: &str) -> Self {
        Self { code: self.code, message: format!("{task}: {}", self.message) }
    }
}
