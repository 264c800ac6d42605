//! Executors and descriptors that are used up, strange, gone or moved.

use crate::call::{plan, run};
use crate::support::*;
use crate::tensors::{Tensor, describe, nnopbase};
use ascend_rs_sys::Value;
use ascend_rs_sys::types::*;
use std::ptr;

/// Phase one of `out = -x`.
fn negate() -> (Tensor, Tensor, u64, *mut aclOpExecutor) {
    let (x, out) = (Tensor::full("f32", &[8], 2.0), Tensor::new("f32", &[8], &[1]));
    let (size, executor) = plan("aclnnNeg", &[Value::Tensor(x.handle), Value::Tensor(out.handle)]).unwrap();
    (x, out, size, executor)
}

#[test]
fn an_executor_runs_once() {
    let _session = session();
    let (stream, (_, out, size, executor)) = (stream(), negate());
    run("aclnnNeg", size, executor, stream).unwrap();
    synchronize(stream).unwrap();
    assert_eq!(out.values(), [-2.0; 8]);
    let again = run("aclnnNeg", size, executor, stream);
    assert!(text(again).contains("runs once unless"));
}

#[test]
fn a_repeatable_executor_runs_until_it_is_destroyed_and_can_be_moved() {
    let _session = session();
    let (stream, (x, out, size, executor)) = (stream(), negate());
    let other = Tensor::full("f32", &[8], 5.0);
    // SAFETY: all handles are alive.
    unsafe {
        let moved = nnopbase().aclSetInputTensorAddr(executor, 0, x.handle, other.memory);
        assert!(text(moved).contains("not repeatable"));
        nnopbase().aclSetRawTensorAddr(x.handle, x.memory).unwrap();
        nnopbase().aclSetAclOpExecutorRepeatable(executor).unwrap();
    }
    for want in [-2.0, -2.0, -5.0] {
        if want == -5.0 {
            // SAFETY: as above.
            unsafe { nnopbase().aclSetInputTensorAddr(executor, 0, x.handle, other.memory).unwrap() };
        }
        run("aclnnNeg", size, executor, stream).unwrap();
        synchronize(stream).unwrap();
        assert_eq!(out.values(), [want; 8]);
    }
    // SAFETY: as above.
    unsafe {
        let none = nnopbase().aclSetOutputTensorAddr(executor, 1, x.handle, other.memory);
        assert!(text(none).contains("has no tensor at Output(1, 0)"));
        nnopbase().aclDestroyAclOpExecutor(executor).unwrap();
        assert_eq!(code(nnopbase().aclDestroyAclOpExecutor(executor)), ACLNN_ERR_PARAM_INVALID);
    }
    assert!(text(run("aclnnNeg", size, executor, stream)).contains("has been destroyed"));
}

#[test]
fn an_executor_is_of_its_operator() {
    let _session = session();
    let (stream, (_, _, size, executor)) = (stream(), negate());
    let wrong = run("aclnnAbs", size, executor, stream);
    assert!(text(wrong).contains("is of aclnnNeg, not of aclnnAbs"));
    run("aclnnNeg", size, executor, stream).unwrap();
    synchronize(stream).unwrap();
}

#[test]
fn descriptors_must_live_until_phase_two() {
    let _session = session();
    let (stream, (x, out, size, executor)) = (stream(), negate());
    // SAFETY: the handle is alive.
    unsafe { nnopbase().aclDestroyTensor(x.handle).unwrap() };
    let late = run("aclnnNeg", size, executor, stream);
    assert!(text(late).contains("the descriptor of self was destroyed"));
    let early = plan("aclnnNeg", &[Value::Tensor(x.handle), Value::Tensor(out.handle)]);
    assert_eq!(code(early), ACLNN_ERR_PARAM_INVALID);
    // SAFETY: the library looks at the handle only.
    assert_eq!(code(unsafe { nnopbase().aclDestroyTensor(x.handle) }), ACLNN_ERR_PARAM_INVALID);
    let null = plan("aclnnNeg", &[Value::Null, Value::Tensor(out.handle)]);
    assert_eq!(code(null), ACLNN_ERR_PARAM_NULLPTR);
}

#[test]
fn a_list_takes_its_tensors_along() {
    let _session = session();
    let tensor = Tensor::full("f32", &[2], 1.0);
    // SAFETY: the array has one handle.
    unsafe {
        let list = nnopbase().aclCreateTensorList(&tensor.handle.cast_const(), 1).unwrap();
        let mut size = 0;
        nnopbase().aclGetTensorListSize(list, &mut size).unwrap();
        assert_eq!(size, 1);
        nnopbase().aclDestroyTensorList(list).unwrap();
        assert_eq!(code(nnopbase().aclDestroyTensor(tensor.handle)), ACLNN_ERR_PARAM_INVALID);
    }
}

#[test]
fn a_workspace_is_as_large_as_demanded() {
    let _session = session();
    let stream = stream();
    let (a, out) = (Tensor::full("f32", &[4, 4], 1.0), Tensor::new("f32", &[4, 4], &[4, 1]));
    let t = |tensor: &Tensor| Value::Tensor(tensor.handle);
    let values = [t(&a), t(&a), t(&out), Value::I8(0)];
    let (size, executor) = plan("aclnnMm", &values).unwrap();
    assert!(size >= 16 << 20, "a product needs room of the system");
    let small = run("aclnnMm", size - 1, executor, stream);
    assert!(text(small).contains("phase one demanded"));
    let (size, executor) = plan("aclnnMm", &values).unwrap();
    let operator = crate::call::aclnn().operator("aclnnMm").unwrap();
    // SAFETY: the library refuses null.
    let null = unsafe { operator.run(ptr::null_mut(), size, executor, stream) };
    assert_eq!(code(null), ACLNN_ERR_PARAM_NULLPTR);
    // The executor is gone all the same.
    assert_eq!(code(run("aclnnMm", size, executor, stream)), ACLNN_ERR_PARAM_INVALID);
    // Nor is an operand a workspace.
    let (size, executor) = plan("aclnnMm", &values).unwrap();
    // SAFETY: the library looks at addresses only.
    let inside = unsafe { operator.run(out.memory, size, executor, stream) };
    let inside = text(inside);
    assert!(inside.contains("the workspace") && inside.contains("overlaps"), "{inside}");
    // Memory of the host is none either.
    let (size, executor) = plan("aclnnMm", &values).unwrap();
    let mut host = vec![0u8; size as usize];
    // SAFETY: as above.
    let submitted = unsafe { operator.run(host.as_mut_ptr().cast(), size, executor, stream) };
    assert_ne!(code(submitted.and_then(|()| synchronize(stream))), 0);
}

#[test]
fn views_stay_inside_their_storage_and_outputs_off_other_operands() {
    let _session = session();
    let x = Tensor::full("f32", &[16], 1.0);
    let view = |offset, storage| describe("f32", &[8], &[1], offset, storage, x.memory);
    let outside = plan("aclnnNeg", &[Value::Tensor(view(9, 16)), Value::Tensor(view(0, 16))]);
    assert!(text(outside).contains("self reaches element 17 of a storage of 16"));
    let stream = stream();
    for (offset, works) in [(0, true), (4, false), (8, true)] {
        let values = [Value::Tensor(view(0, 16)), Value::Tensor(view(offset, 16))];
        let (size, executor) = plan("aclnnNeg", &values).unwrap();
        let ran = run("aclnnNeg", size, executor, stream);
        assert_eq!(ran.is_ok(), works, "offset {offset}: {}", text(ran));
    }
    synchronize(stream).unwrap();
    let columns = |offset| describe("f32", &[4, 2], &[4, 1], offset, 16, x.memory);
    let (size, executor) = plan("aclnnNeg", &[Value::Tensor(columns(0)), Value::Tensor(columns(2))]).unwrap();
    run("aclnnNeg", size, executor, stream).unwrap();
    synchronize(stream).unwrap();
}

#[test]
fn a_captured_operator_reads_its_memory_anew() {
    let _session = session();
    let (x, out) = (Tensor::full("f32", &[8], 2.0), Tensor::new("f32", &[8], &[1]));
    let (size, executor) = plan("aclnnNeg", &[Value::Tensor(x.handle), Value::Tensor(out.handle)]).unwrap();
    let (stream, mut graph) = (stream(), aclmdlRI::NULL);
    // SAFETY: handles are alive, the graph is written.
    unsafe {
        acl().aclmdlRICaptureBegin(stream, aclmdlRICaptureMode::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL).unwrap();
        run("aclnnNeg", size, executor, stream).unwrap();
        acl().aclmdlRICaptureEnd(stream, &mut graph).unwrap();
    }
    for value in [3.0, 4.0] {
        x.write(&[value; 8]);
        // SAFETY: as above.
        unsafe { acl().aclmdlRIExecuteAsync(graph, stream).unwrap() };
        synchronize(stream).unwrap();
        assert_eq!(out.values(), [-value; 8]);
    }
    // SAFETY: as above.
    unsafe { acl().aclmdlRIDestroy(graph).unwrap() };
}

/// Tells a child of this program to forget things.
const FORGETS: &str = "HOST_CANN_TEST_FORGETS";

#[test]
fn child_that_forgets() {
    if std::env::var(FORGETS).is_ok() {
        let _session = session();
        negate();
    }
}

#[test]
fn what_was_forgotten_is_told_at_the_end() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "executors::child_that_forgets", "--nocapture"]).env(FORGETS, "1");
    let output = child.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let expected = ["an executor of aclnnNeg never ran", "2 tensor descriptors were never destroyed"];
    assert!(expected.iter().all(|text| told.contains(text)), "{told}");
}
