//! Kernels of binaries, made by the C compiler here.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use ascend_rs_sys::types::*;
use std::ffi::c_void;
use std::process::Command;
use std::{fs, ptr};
use support::*;

const LEN: usize = 1024;
const SOURCE: &str = "void add_one(void** args) {
    const int* x = args[0];
    int* y = args[1];
    for (int i = 0; i < 256; i++) y[i] = x[i] + ADDED;
}";

/// A binary of the kernel above for `target`.
fn binary(target: &str) -> Vec<u8> {
    binary_adding(target, 1)
}

/// As [`binary`], of a kernel that adds something else.
fn binary_adding(target: &str, added: i32) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("k.c"), folder.path().join("k.so"));
    fs::write(&source, SOURCE).unwrap();
    let built = Command::new("cc")
        .arg(format!("-DADDED={added}"))
        .args(["-shared", "-fPIC", "-o"])
        .args([&object, &source])
        .status()
        .unwrap();
    assert!(built.success());
    let args = r#"[{"size_bytes":1024,"access":"read"},{"size_bytes":1024,"access":"write"}]"#;
    let json = format!(r#"{{"symbol":"add_one","args":{args},"num_blocks":40}}"#);
    let mut data = b"TITANHK1".to_vec();
    for text in [target, &json] {
        data.extend((text.len() as u32).to_le_bytes());
        data.extend(text.as_bytes());
    }
    data.extend(fs::read(object).unwrap());
    data
}

fn load(data: &[u8]) -> Result<aclrtBinHandle, ascend_rs_sys::Error> {
    let mut handle = aclrtBinHandle::NULL;
    // SAFETY: the bytes are the slice's; the handle is written.
    unsafe { acl().aclrtBinaryLoadFromData(data.as_ptr().cast(), data.len(), ptr::null(), &mut handle)? };
    Ok(handle)
}

fn function(binary: aclrtBinHandle) -> aclrtFuncHandle {
    let mut handle = aclrtFuncHandle::NULL;
    // SAFETY: the handle is written.
    unsafe { acl().aclrtBinaryGetFunction(binary, c"add_one".as_ptr(), &mut handle).unwrap() };
    handle
}

fn launch(
    function: aclrtFuncHandle,
    blocks: u32,
    args: &[*mut c_void],
    stream: aclrtStream,
) -> Result<(), ascend_rs_sys::Error> {
    let (mut args, nothing) = (args.to_vec(), ptr::null_mut());
    let size = size_of_val(args.as_slice());
    let places = ptr::null_mut();
    // SAFETY: the arguments are the vector's.
    unsafe {
        acl().aclrtLaunchKernelWithHostArgs(
            function,
            blocks,
            stream,
            nothing,
            args.as_mut_ptr().cast(),
            size,
            places,
            0,
        )
    }
}

/// Two buffers, the first of which is zero.
fn buffers(stream: aclrtStream) -> [*mut c_void; 2] {
    let buffers = [device_memory(LEN), device_memory(LEN)];
    fill(buffers[0], LEN, 0, stream).unwrap();
    buffers
}

fn result(buffer: *mut c_void) -> Vec<i32> {
    read(buffer, 8).unwrap().chunks(4).map(|bytes| i32::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn a_kernel_runs_however_its_arguments_are_passed() {
    let _session = session();
    let one = stream();
    let binary = load(&binary("Ascend910B3")).unwrap();
    let function = function(binary);
    let [x, y] = buffers(one);
    launch(function, 40, &[x, y], one).unwrap();
    synchronize(one).unwrap();
    assert_eq!(result(y), [1, 1]);
    // SAFETY: handles, and places that are read and written.
    unsafe {
        let (mut list, mut place) = (aclrtArgsHandle::NULL, aclrtParamHandle::NULL);
        acl().aclrtKernelArgsInit(function, &mut list).unwrap();
        for mut pointer in [y, x] {
            acl().aclrtKernelArgsAppend(list, (&raw mut pointer).cast(), 8, &mut place).unwrap();
        }
        let launch =
            || acl().aclrtLaunchKernelWithConfig(function, 40, one, ptr::null_mut(), list, ptr::null_mut());
        assert_eq!(code(launch()), 107000, "not final");
        acl().aclrtKernelArgsFinalize(list).unwrap();
        launch().unwrap();
        synchronize(one).unwrap();
        assert_eq!(result(x), [2, 2]);
        // Arguments in device memory.
        let block = device_memory(16);
        let kind = aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE;
        acl().aclrtMemcpy(block, 16, [x, y].as_ptr().cast(), 16, kind).unwrap();
        acl().aclrtLaunchKernelV2(function, 40, block, 16, ptr::null_mut(), one).unwrap();
        synchronize(one).unwrap();
        assert_eq!(result(y), [3, 3]);
        let memory = device_memory(LEN - 4);
        acl().aclrtMemcpy(block, 16, [x, memory].as_ptr().cast(), 16, kind).unwrap();
        acl().aclrtLaunchKernelV2(function, 40, block, 16, ptr::null_mut(), one).unwrap();
        assert!(text(synchronize(one)).contains("run 4 past the allocation"));
    }
}

#[test]
fn wrong_binaries_and_launches_are_refused() {
    let _session = session();
    let one = stream();
    let right = binary("Ascend910B3");
    let told = text(load(&binary("Ascend950PR_9599")));
    assert!(told.contains("507008") && told.contains("for Ascend950PR_9599, this is Ascend910B3"), "{told}");
    assert_eq!(code(load(b"\x7fELF")), 107000);
    assert_eq!(code(load(&right[..300])), 107000);
    let binary = load(&right).unwrap();
    let function = function(binary);
    let [x, y] = buffers(one);
    for (blocks, args, why) in
        [(20, vec![x, y], "40 blocks"), (40, vec![x], "2 arguments"), (40, vec![x, y, y], "2 arguments")]
    {
        let told = text(launch(function, blocks, &args, one));
        assert!(told.contains("107000") && told.contains(why), "{told}");
    }
    let mut handle = aclrtFuncHandle::NULL;
    // SAFETY: handles, and places that are written.
    unsafe {
        assert_eq!(code(acl().aclrtBinaryGetFunction(binary, c"other".as_ptr(), &mut handle)), 107042);
        // In place of device memory, host memory.
        let mut host = [0_u8; LEN];
        launch(function, 40, &[x, host.as_mut_ptr().cast()], one).unwrap();
        assert!(text(synchronize(one)).contains("add_one on stream"));
        let off = device_memory(LEN + 8).cast::<u8>().add(8).cast();
        launch(function, 40, &[x, off], one).unwrap();
        assert!(text(synchronize(one)).contains("not aligned to 32 bytes"));
        // A graph outlives its binary.
        let graph = capture(one, || launch(function, 40, &[x, y], one).unwrap()).unwrap();
        replay(graph, one).unwrap();
        synchronize(one).unwrap();
        acl().aclrtBinaryUnLoad(binary).unwrap();
        replay(graph, one).unwrap();
        assert!(text(synchronize(one)).contains("its binary has been unloaded"));
        assert_eq!(code(launch(function, 40, &[x, y], one)), 107017);
    }
}

#[test]
fn binaries_are_told_apart() {
    let _session = session();
    let one = stream();
    let binaries = [3, 5, 7].map(|added| load(&binary_adding("Ascend910B3", added)).unwrap());
    let [x, y] = buffers(one);
    for (binary, sum) in binaries.into_iter().zip([3, 5, 7]) {
        launch(function(binary), 40, &[x, y], one).unwrap();
        synchronize(one).unwrap();
        assert_eq!(result(y), [sum; 2]);
        // SAFETY: nothing of it is queued.
        unsafe { acl().aclrtBinaryUnLoad(binary).unwrap() };
    }
}
