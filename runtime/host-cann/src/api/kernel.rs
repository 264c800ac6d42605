//! Kernels of binaries.

use crate::boundary::{non_null, write};
use crate::fault::Fault;
use crate::kernel::{Arguments, Block, launch};
use crate::span::Span;
use crate::state;
use ascend_rs_sys::types::*;
use std::ffi::{CStr, c_char, c_void};
use std::fs;

/// Alignment of arguments.
const ALIGN: usize = 8;

pub(crate) unsafe fn aclrtBinaryLoadFromData(
    data: *const c_void,
    length: usize,
    _options: *const aclrtBinaryLoadOptions,
    out: *mut aclrtBinHandle,
) -> Result<(), Fault> {
    non_null(data, "data")?;
    non_null(out, "binHandle")?;
    // SAFETY: the caller vouches for the bytes.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
    let handle = state::ready()?.load_binary(data)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, handle, "binHandle") }
}

pub(crate) unsafe fn aclrtBinaryLoadFromFile(
    path: *const c_char,
    _options: *mut aclrtBinaryLoadOptions,
    out: *mut aclrtBinHandle,
) -> Result<(), Fault> {
    non_null(path, "binPath")?;
    non_null(out, "binHandle")?;
    // SAFETY: the caller vouches for a text that ends with zero.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    let data =
        fs::read(&*path).map_err(|error| Fault::new(ACL_ERROR_RT_FILE_OPEN, format!("{path}: {error}")))?;
    let handle = state::ready()?.load_binary(&data)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, handle, "binHandle") }
}

pub(crate) fn aclrtBinaryUnLoad(binary: aclrtBinHandle) -> Result<(), Fault> {
    state::ready()?.unload_binary(binary)
}

pub(crate) unsafe fn aclrtBinaryGetFunction(
    binary: aclrtBinHandle,
    name: *const c_char,
    out: *mut aclrtFuncHandle,
) -> Result<(), Fault> {
    non_null(name, "kernelName")?;
    non_null(out, "funcHandle")?;
    // SAFETY: the caller vouches for a text that ends with zero.
    let name = unsafe { CStr::from_ptr(name) };
    let function = state::ready()?.find_function(binary, name)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, function, "funcHandle") }
}

pub(crate) unsafe fn aclrtLaunchKernelWithHostArgs(
    function: aclrtFuncHandle,
    num_blocks: u32,
    stream: aclrtStream,
    _config: *mut aclrtLaunchKernelCfg,
    args: *mut c_void,
    size: usize,
    _places: *mut aclrtPlaceHolderInfo,
    num_places: usize,
) -> Result<(), Fault> {
    if num_places > 0 {
        let message = "kernels for the host take no place-holders";
        return Err(Fault::new(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, message));
    }
    non_null(args, "hostArgs")?;
    // SAFETY: the caller vouches for the bytes.
    let bytes = unsafe { std::slice::from_raw_parts(args.cast::<u8>(), size) };
    launch(function, num_blocks, Block::Host(bytes), stream)
}

pub(crate) fn aclrtLaunchKernelV2(
    function: aclrtFuncHandle,
    num_blocks: u32,
    args: *const c_void,
    size: usize,
    _config: *mut aclrtLaunchKernelCfg,
    stream: aclrtStream,
) -> Result<(), Fault> {
    non_null(args, "argsData")?;
    launch(function, num_blocks, Block::Device(Span::new(args, size)), stream)
}

pub(crate) fn aclrtLaunchKernel(
    function: aclrtFuncHandle,
    num_blocks: u32,
    args: *const c_void,
    size: usize,
    stream: aclrtStream,
) -> Result<(), Fault> {
    aclrtLaunchKernelV2(function, num_blocks, args, size, std::ptr::null_mut(), stream)
}

pub(crate) unsafe fn aclrtKernelArgsInit(
    function: aclrtFuncHandle,
    out: *mut aclrtArgsHandle,
) -> Result<(), Fault> {
    non_null(out, "argsHandle")?;
    let mut runtime = state::ready()?;
    runtime.functions.get(function.0)?;
    let function = function.0 as usize;
    let list = Arguments { function, bytes: Vec::new(), places: Vec::new(), is_final: false };
    let handle = aclrtArgsHandle(runtime.arguments.insert(list));
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, handle, "argsHandle") }
}

pub(crate) unsafe fn aclrtKernelArgsAppend(
    args: aclrtArgsHandle,
    param: *mut c_void,
    size: usize,
    out: *mut aclrtParamHandle,
) -> Result<(), Fault> {
    non_null(param, "param")?;
    non_null(out, "paramHandle")?;
    let mut runtime = state::ready()?;
    let list = runtime.arguments.get_mut(args.0)?;
    if size == 0 || list.is_final {
        return Err(Fault::parameter("an argument of 0 bytes, or the list is final"));
    }
    let at = list.bytes.len().next_multiple_of(ALIGN);
    list.bytes.resize(at, 0);
    // SAFETY: the caller vouches for the bytes.
    list.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(param.cast::<u8>(), size) });
    list.places.push((at, size));
    // A handle of a parameter is its number, from 1 on.
    let handle = aclrtParamHandle(list.places.len() as *mut c_void);
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(out, handle, "paramHandle") }
}

pub(crate) unsafe fn aclrtKernelArgsParaUpdate(
    args: aclrtArgsHandle,
    handle: aclrtParamHandle,
    param: *mut c_void,
    size: usize,
) -> Result<(), Fault> {
    non_null(param, "param")?;
    let mut runtime = state::ready()?;
    let list = runtime.arguments.get_mut(args.0)?;
    let place = (handle.0 as usize).checked_sub(1).and_then(|index| list.places.get(index));
    let Some(&(at, _)) = place.filter(|(_, old)| *old == size) else {
        return Err(Fault::parameter(format!("the list has no argument {:p} of {size} bytes", handle.0)));
    };
    // SAFETY: the caller vouches for the bytes.
    let new = unsafe { std::slice::from_raw_parts(param.cast::<u8>(), size) };
    list.bytes[at..at + size].copy_from_slice(new);
    Ok(())
}

pub(crate) fn aclrtKernelArgsFinalize(args: aclrtArgsHandle) -> Result<(), Fault> {
    state::ready()?.arguments.get_mut(args.0)?.is_final = true;
    Ok(())
}

pub(crate) fn aclrtLaunchKernelWithConfig(
    function: aclrtFuncHandle,
    num_blocks: u32,
    stream: aclrtStream,
    _config: *mut aclrtLaunchKernelCfg,
    args: aclrtArgsHandle,
    reserve: *mut c_void,
) -> Result<(), Fault> {
    let bytes = {
        let runtime = state::ready()?;
        let list = runtime.arguments.get(args.0)?;
        if !list.is_final || list.function != function.0 as usize || !reserve.is_null() {
            let message = "the list is not final or for another kernel, or reserve is not null";
            return Err(Fault::parameter(message));
        }
        list.bytes.clone()
    };
    launch(function, num_blocks, Block::Host(&bytes), stream)
}
