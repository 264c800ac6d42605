//! Raw access to CANN, the software of Ascend NPUs: the ACL runtime with graph capture, the aclnn operators and HCCL.
//!
//! Nothing is linked. Libraries are opened at run time, from a path or by the names they have had, and every function is
//! looked up when it is first called: one that this version of CANN lacks is an error then, and only then. All declarations
//! come from the table in `table/data`, which `make check-cann-headers` compares with the vendor's headers.
//!
//! ```no_run
//! use ascend_rs_sys::{Acl, Search, types::*};
//! # fn main() -> Result<(), ascend_rs_sys::Error> {
//! let acl = Acl::load(&Search::from_environment())?;
//! // SAFETY: no configuration file; the stream is written before it is read.
//! let stream = unsafe {
//!     acl.aclInit(std::ptr::null())?;
//!     acl.aclrtSetDevice(0)?;
//!     let mut stream = aclrtStream::NULL;
//!     acl.aclrtCreateStream(&mut stream)?;
//!     stream
//! };
//! # Ok(()) }
//! ```
//!
//! Every method has its C function's name, arguments and order. A function that returns a status returns `Ok(())` for
//! success; its [`Error`] carries the status' name and the text of `aclGetRecentErrMsg`, read at once on the same thread.

mod comm_config;
mod error;
#[expect(
    non_camel_case_types,
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "functions have the vendor's names and arguments, and the vendor's documentation says what they require"
)]
mod functions;
mod kinds;
mod library;
mod operator;
mod search;
#[expect(non_camel_case_types, non_snake_case, reason = "types and constants have the vendor's names")]
pub mod types;

pub use error::Error;
pub use functions::acl::{self, Acl};
pub use functions::aclnn::{self, Aclnn};
pub use functions::hccl::{self, Hccl};
pub use functions::nnopbase::{self, Nnopbase};
pub use library::Since;
pub use operator::{Kind, Operator, Value};
pub use search::Search;
