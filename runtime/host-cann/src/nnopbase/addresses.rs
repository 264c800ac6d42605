//! New addresses for the tensors of a repeatable executor, without another phase one.

use super::executors::EXECUTORS;
use super::tensors::set_address;
use super::{elements, lock};
use crate::fault::Fault;
use crate::operators::Place;
use ascend_rs_sys::types::*;
use std::ffi::c_void;

/// Moves the operand at `place` of a repeatable executor to `address`.
fn move_operand(executor: *mut aclOpExecutor, place: Place, address: *mut c_void) -> Result<(), Fault> {
    let mut executors = lock(&EXECUTORS);
    let found = executors.get_mut(executor.cast())?;
    let invalid = |text| Fault::new(ACLNN_ERR_PARAM_INVALID, text);
    if !found.repeatable {
        return Err(invalid(format!("the executor of {} is not repeatable", found.operator)));
    }
    if !found.plan.move_operand(place, address as usize) {
        return Err(invalid(format!("{} has no tensor at {place:?}", found.operator)));
    }
    Ok(())
}

/// As [`move_operand`], for the descriptor too.
fn move_tensor(
    executor: *mut aclOpExecutor,
    place: Place,
    tensor: *const aclTensor,
    address: *mut c_void,
) -> Result<(), Fault> {
    set_address(tensor, address as usize)?;
    move_operand(executor, place, address)
}

fn move_element(
    executor: *mut aclOpExecutor,
    place: Place,
    list: *const aclTensorList,
    address: *mut c_void,
) -> Result<(), Fault> {
    let tensors = elements(list)?;
    let tensor = tensors.get(place.element()).ok_or_else(|| {
        let text = format!("the list has {} tensors, none at {}", tensors.len(), place.element());
        Fault::new(ACLNN_ERR_PARAM_INVALID, text)
    })?;
    move_tensor(executor, place, *tensor, address)
}

pub(crate) fn aclSetInputTensorAddr(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_tensor(executor, Place::Input(index, 0), tensor, addr)
}

pub(crate) fn aclSetDynamicInputTensorAddr(
    executor: *mut aclOpExecutor,
    irIndex: usize,
    relativeIndex: usize,
    tensors: *mut aclTensorList,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_element(executor, Place::Input(irIndex, relativeIndex), tensors, addr)
}

pub(crate) fn aclSetOutputTensorAddr(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_tensor(executor, Place::Output(index, 0), tensor, addr)
}

pub(crate) fn aclSetDynamicOutputTensorAddr(
    executor: *mut aclOpExecutor,
    irIndex: usize,
    relativeIndex: usize,
    tensors: *mut aclTensorList,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_element(executor, Place::Output(irIndex, relativeIndex), tensors, addr)
}

pub(crate) fn aclSetTensorAddr(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_tensor(executor, Place::Any(index, 0), tensor, addr)
}

pub(crate) fn aclSetDynamicTensorAddr(
    executor: *mut aclOpExecutor,
    irIndex: usize,
    relativeIndex: usize,
    tensors: *mut aclTensorList,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_element(executor, Place::Any(irIndex, relativeIndex), tensors, addr)
}

pub(crate) fn AclSetInputTensorAddr(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_tensor(executor, Place::Input(index, 0), tensor, addr)
}

pub(crate) fn AclSetDynamicInputTensorAddr(
    executor: *mut aclOpExecutor,
    irIndex: usize,
    relativeIndex: usize,
    tensors: *mut aclTensorList,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_element(executor, Place::Input(irIndex, relativeIndex), tensors, addr)
}

pub(crate) fn AclSetOutputTensorAddr(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_tensor(executor, Place::Output(index, 0), tensor, addr)
}

pub(crate) fn AclSetDynamicOutputTensorAddr(
    executor: *mut aclOpExecutor,
    irIndex: usize,
    relativeIndex: usize,
    tensors: *mut aclTensorList,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_element(executor, Place::Output(irIndex, relativeIndex), tensors, addr)
}

pub(crate) fn AclSetTensorAddr(
    executor: *mut aclOpExecutor,
    index: usize,
    tensor: *mut aclTensor,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_tensor(executor, Place::Any(index, 0), tensor, addr)
}

pub(crate) fn AclSetDynamicTensorAddr(
    executor: *mut aclOpExecutor,
    irIndex: usize,
    relativeIndex: usize,
    tensors: *mut aclTensorList,
    addr: *mut c_void,
) -> Result<(), Fault> {
    move_element(executor, Place::Any(irIndex, relativeIndex), tensors, addr)
}
