//! The operators. `build.rs` exports both phases of every operator whose name stands in quotes below this folder.
//!
//! An operator is a function from [`Args`] to a [`Plan`]: it takes its parameters one by one, in the order and with the names of
//! its prototype, checks what its documentation demands, and ends with what to compute. Sizes of workspaces are those of its
//! documentation's order of magnitude, not the vendor's exact ones.

mod args;
mod attention;
mod check;
pub(crate) mod compute;
mod cross_entropy;
mod elementwise;
mod indexing;
mod launch;
mod matmul;
mod norms;
mod optimizer;
mod plan;
mod random;
mod reductions;
mod rotary;
mod shapes;
mod softmax;
mod swiglu;

pub(crate) use plan::{Place, Plan};

use crate::boundary::{non_null, write};
use crate::fault::Fault;
use crate::nnopbase::{insert_executor, take_for_run};
use crate::value::Value;
use args::Args;
use ascend_rs_sys::types::*;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::LazyLock;

/// Phase one of an operator.
type Operator = fn(&mut Args) -> Result<Plan, Fault>;

/// Names and operators of one file.
type Table = &'static [(&'static str, Operator)];

static OPERATORS: LazyLock<BTreeMap<&'static str, Operator>> = LazyLock::new(|| {
    let tables: [Table; 13] = [
        attention::OPERATORS,
        cross_entropy::OPERATORS,
        elementwise::OPERATORS,
        indexing::OPERATORS,
        matmul::OPERATORS,
        norms::OPERATORS,
        optimizer::OPERATORS,
        random::OPERATORS,
        reductions::OPERATORS,
        rotary::OPERATORS,
        shapes::OPERATORS,
        softmax::OPERATORS,
        swiglu::OPERATORS,
    ];
    tables.into_iter().flatten().copied().collect()
});

/// Phase one of `name`: checks `values` and plans.
///
/// # Safety
/// The pointers are what the operator's documentation asks for.
pub(crate) unsafe fn phase_one(
    name: &str,
    values: Vec<Value>,
    workspace_size: *mut u64,
    executor: *mut *mut aclOpExecutor,
) -> Result<(), Fault> {
    let (name, operator) = OPERATORS.get_key_value(name).ok_or_else(|| {
        Fault::new(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, format!("{name} has no kernel on this host"))
    })?;
    let null = |what| Fault::new(ACLNN_ERR_PARAM_NULLPTR, format!("{what} is null"));
    non_null(workspace_size, "workspaceSize").map_err(|_| null("workspaceSize"))?;
    non_null(executor, "executor").map_err(|_| null("executor"))?;
    let plan = operator(&mut Args::new(name, values)?)?;
    // SAFETY: the caller vouches for both pointers.
    unsafe {
        write(workspace_size, plan.workspace_bytes as u64, "workspaceSize")?;
        write(executor, insert_executor(name, plan), "executor")
    }
}

/// Phase two of `name`: submits what phase one has planned.
///
/// # Safety
/// As for phase one.
pub(crate) unsafe fn phase_two(
    name: &str,
    workspace: *mut c_void,
    workspace_size: u64,
    executor: *mut aclOpExecutor,
    stream: aclrtStream,
) -> Result<(), Fault> {
    let executor = take_for_run(executor, name)?;
    executor.plan.submit(name, workspace, workspace_size, stream)
}
