//! Executors: what phase one of an operator leaves for phase two.

use super::{CODES, lock};
use crate::fault::Fault;
use crate::handles::Handles;
use crate::operators::Plan;
use ascend_rs_sys::types::*;
use std::sync::Mutex;

/// A planned operator.
#[derive(Debug, Clone)]
pub(crate) struct Executor {
    /// The operator whose phase two may run it.
    pub(crate) operator: String,
    pub(crate) plan: Plan,
    /// Whether it survives phase two.
    pub(crate) repeatable: bool,
}

pub(super) static EXECUTORS: Mutex<Handles<Executor>> = Mutex::new(Handles::new("executor", 0x28, CODES));

/// Keeps what phase one has planned.
pub(crate) fn insert_executor(operator: &str, plan: Plan) -> *mut aclOpExecutor {
    let executor = Executor { operator: operator.to_owned(), plan, repeatable: false };
    lock(&EXECUTORS).insert(executor).cast()
}

/// The executor for phase two of `operator`, which consumes it unless it is repeatable.
///
/// # Errors
/// 161001: null. 161002: it has run before, was destroyed, or belongs to another operator.
pub(crate) fn take_for_run(executor: *mut aclOpExecutor, operator: &str) -> Result<Executor, Fault> {
    let mut executors = lock(&EXECUTORS);
    let found = executors.get(executor.cast()).map_err(|fault| Fault {
        message: format!("{}; an executor runs once unless it was made repeatable", fault.message),
        ..fault
    })?;
    if found.operator != operator {
        let other = &found.operator;
        return Err(Fault::new(
            ACLNN_ERR_PARAM_INVALID,
            format!("the executor is of {other}, not of {operator}"),
        ));
    }
    if found.repeatable { Ok(found.clone()) } else { executors.remove(executor.cast()) }
}

/// One-shot executors that never ran.
pub(super) fn leaks() -> Vec<String> {
    let executors = lock(&EXECUTORS);
    let text = |executor: &Executor| match executor.repeatable {
        true => format!("a repeatable executor of {} was never destroyed", executor.operator),
        false => format!("an executor of {} never ran: phase one without phase two", executor.operator),
    };
    executors.iter().map(|(_, executor)| text(executor)).collect()
}

pub(crate) fn aclSetAclOpExecutorRepeatable(executor: *mut aclOpExecutor) -> Result<(), Fault> {
    lock(&EXECUTORS).get_mut(executor.cast())?.repeatable = true;
    Ok(())
}

pub(crate) fn aclDestroyAclOpExecutor(executor: *mut aclOpExecutor) -> Result<(), Fault> {
    lock(&EXECUTORS).remove(executor.cast()).map(drop)
}
