//! A host implementation of CANN's C interface: the ACL runtime with graph capture, the aclnn operators and HCCL.
//!
//! It is a shared library that is reached as CANN is, by opening it at run time, and in no other way. Its functions have the
//! prototypes of the table that the bindings are made from; a function it does not implement it does not export.
//!
//! It is *honest*: what CANN leaves undefined is an error here. Tasks run late and in an order drawn from a seed; device memory
//! starts as NaN and is taken away when it is freed; every range of every task must be inside one allocation; two accesses that
//! no event or synchronisation orders are a fault that names both; a handle is not mistaken for another that had its place.
//!
//! It cannot see what the host does to pinned memory, nor how the host's threads wait for each other: they count as one. It knows nothing
//! of time: delays are random, and so are the times of events.
//!
//! `scripts/host_cann.sh` makes a folder in which it has the names of CANN's libraries.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `HOST_CANN_SOC` | the device | `Ascend910B3` |
//! | `HOST_CANN_DEVICES` | number of devices | 8 |
//! | `HOST_CANN_SEED` | seed of the order of tasks | 0 |
//! | `HOST_CANN_STRICT` | `1`: an error inside a capture ruins it, a leak aborts | 0 |
//! | `HOST_CANN_STATS` | file that gets one line of counts at `aclFinalize` | none |

#[expect(
    non_snake_case,
    clippy::too_many_arguments,
    reason = "functions have the vendor's names and arguments"
)]
mod api;
mod boundary;
mod capture;
mod clock;
mod context;
mod device;
mod event;
#[expect(
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "functions have the vendor's names and arguments, and the vendor's documentation says what they require"
)]
pub mod exports;
mod fault;
mod handles;
#[expect(
    non_snake_case,
    clippy::too_many_arguments,
    reason = "functions have the vendor's names and arguments"
)]
mod hccl;
mod kernel;
mod lifecycle;
mod memory;
#[expect(
    non_snake_case,
    clippy::too_many_arguments,
    reason = "functions have the vendor's names and arguments"
)]
mod nnopbase;
mod operators;
mod query;
mod random;
mod schedule;
mod shadow;
mod soc;
mod span;
mod state;
mod stats;
mod stream;
mod task;
mod value;
