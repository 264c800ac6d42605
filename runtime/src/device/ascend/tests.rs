//! What a rank does when CANN says no: with a small C library in place of CANN, which writes down what it is asked.

use super::arena::Arena;
use super::cann::Cann;
use super::context::{Context, Place};
use super::graph::Graph;
use super::operators::Prepared;
use crate::comm::{Comm, World};
use ascend_rs_sys::types::aclrtStream;
use ascend_rs_sys::{Acl, Aclnn, Nnopbase, Search};
use std::ffi::CStr;
use std::process::Command;
use std::ptr;
use std::rc::Rc;
use titan_ir::ascend::{Access, Arg, Element, Region, TensorArg};
use titan_ir::plan::{Action, Instr, MemoryReport, Segment};
use titan_ir::{Axis, Diag, Mesh, Phase, Plan};

/// Mm runs again and again, Abs must be planned anew for every run, Exp demands 5 MB, Neg does not run.
const CANN: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
static char text[1 << 14];
static int say(const char* what) { strcat(strcat(text, what), " "); return 0; }
const char* aclGetRecentErrMsg(void) { static char last[1 << 14]; strcpy(last, text); text[0] = 0; return last; }
int aclrtSetDevice(int device) { return say("set"); }
int aclrtResetDevice(int device) { return say("reset"); }
int aclrtSetSysParamOpt(int option, int64_t value) { return option == 0 && value == 1 ? say("deterministic") : 1; }
int aclrtMalloc(void** at, size_t size, int policy) { *at = malloc(size); return say("malloc"); }
int aclrtFree(void* at) { free(at); return say("free"); }
void* aclCreateTensor(void) { return (void*)16; }
int aclDestroyTensor(void* tensor) { return say("tensor-"); }
int aclSetAclOpExecutorRepeatable(void* executor) { return executor == (void*)2 ? 561000 : 0; }
int aclDestroyAclOpExecutor(void* executor) { return say("executor-"); }
#define OPERATOR(NAME, NUMBER, SIZE, STATUS) \
    int aclnn##NAME##GetWorkspaceSize(void* a, void* b, uint64_t* size, void** executor) \
        { *size = SIZE; *executor = (void*)NUMBER; return say("plan"); } \
    int aclnn##NAME(void* w, uint64_t s, void* e, void* t) { say("run"); return STATUS; }
OPERATOR(Sqrt, 1, 64, 0)
OPERATOR(Abs, 2, 64, 0)
OPERATOR(Exp, 1, 5000000, 0)
OPERATOR(Neg, 1, 0, 361001)
int aclmdlRICaptureBegin(void* stream, int mode) { return mode == 1 ? say("begin") : 1; }
int aclmdlRICaptureEnd(void* stream, void** graph) { *graph = (void*)48; say("end"); return stream == (void*)64 ? 0 : 107025; }
int aclmdlRIDestroy(void* graph) { return say("graph-"); }
"#;

fn cann() -> (tempfile::TempDir, &'static Cann) {
    let folder = tempfile::tempdir().unwrap();
    let (file, library) = (folder.path().join("cann.c"), folder.path().join("cann.so"));
    std::fs::write(&file, CANN).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(&file).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let search = Search::at(&library);
    let acl = Acl::load(&search).unwrap();
    let nnopbase = Nnopbase::load(&search, &acl).unwrap();
    let aclnn = Aclnn::load(&search, &acl).unwrap();
    let (soc, num_devices) = (Some("Ascend910B3".to_owned()), Some(1));
    let cann = Cann { acl, nnopbase, aclnn, hccl: None, version: None, driver: None, soc, num_devices };
    (folder, Box::leak(Box::new(cann)))
}

/// What the library was asked since the last call.
fn asked(cann: &Cann) -> String {
    // SAFETY: a text that lives until the next call.
    unsafe { CStr::from_ptr(cann.acl.aclGetRecentErrMsg().unwrap()) }.to_str().unwrap().trim().to_owned()
}

fn plan() -> Plan {
    let action = Action::Guard { scalars: Vec::new() };
    let instr = Instr { action, stream: 0, loc: 0, phase: Phase::Forward, flops: 0, traffic_bytes: 0 };
    let segment = Segment { name: "step".to_owned(), repeat: 1, instrs: vec![instr] };
    Plan { segments: vec![segment], locs: vec!["layers.0.wq".to_owned()], ..Plan::default() }
}

fn context<'a>(cann: &'static Cann, plan: &'a Plan) -> Rc<Context<'a>> {
    let world = World::new(&Mesh { axes: vec![Axis { name: "ranks".to_owned(), size: 1 }] });
    Context::new(cann, plan, 3, 1, Comm::new(&world, 0)).unwrap()
}

fn prepare<'a>(context: &Rc<Context<'a>>, arena: &Arena<'a>, name: &str) -> Result<Prepared<'a>, Diag> {
    let tensor = |access| Arg::Tensor(TensorArg::contiguous(Element::F32, &[4], 0, access));
    let args = [tensor(Access::Read), tensor(Access::Write)];
    context.at(Some(Place { segment: 0, part: 0, call: Some((7, 1, 0)), captured: false }));
    Prepared::new(context, name, &args, arena, Region { at: 64, size_bytes: 1024 })
}

const STREAM: aclrtStream = aclrtStream(ptr::without_provenance_mut(64));

#[test]
fn executors_are_used_again_where_that_is_possible() {
    let (_folder, cann) = cann();
    let plan = plan();
    let context = context(cann, &plan);
    let arena = Arena::new(&context, 4096, &MemoryReport::default(), false).unwrap();
    assert_eq!(asked(cann), "set deterministic malloc");
    let again = prepare(&context, &arena, "aclnnSqrt").unwrap();
    let anew = prepare(&context, &arena, "aclnnAbs").unwrap();
    assert_eq!((again.is_one_shot(), anew.is_one_shot()), (false, true));
    // The refusal to run again took with it, as its message, what was asked before.
    assert_eq!(asked(cann), "executor-");
    for operator in [&again, &again, &anew, &anew] {
        operator.run(&context, STREAM).unwrap();
    }
    assert_eq!(asked(cann), "run run plan run plan run");
    drop((again, anew));
    assert_eq!(asked(cann), "executor- tensor- tensor- tensor- tensor-");
    drop((arena, context));
    assert_eq!(asked(cann), "free reset");
}

#[test]
fn refusals_name_the_instruction() {
    let (_folder, cann) = cann();
    let plan = plan();
    let context = context(cann, &plan);
    let arena = Arena::new(&context, 4096, &MemoryReport::default(), false).unwrap();
    let large = prepare(&context, &arena, "aclnnExp").unwrap();
    let diag = large.shortage(&context).unwrap();
    assert_eq!(
        diag.to_string(),
        "error[T0756]: aclnnExp demands 5000000 bytes of workspace, the artifact plans 1024\n  \
         at: layers.0.wq (guard), rank 3, device 1\n  \
         note: part 0 of segment `step`, call 7, stream 1, instruction 0\n  \
         help: rebuild it with `--titan.ascend_workspace_mib 5`"
    );
    assert_eq!(large.run(&context, STREAM).unwrap_err(), diag);
    drop(large);
    assert!(asked(cann).ends_with("plan executor- tensor- tensor-"), "it is not run, and nothing is left");
    let diag = prepare(&context, &arena, "aclnnNeg").unwrap().run(&context, STREAM).unwrap_err();
    assert!(
        diag.to_string().starts_with("error[T0742]: aclnnNeg returned 361001 (ACLNN_ERR_RUNTIME_ERROR): "),
        "{diag}"
    );
    assert!(diag.to_string().contains("at: layers.0.wq (guard), rank 3, device 1"), "{diag}");
}

#[test]
fn a_capture_that_breaks_is_ended_and_its_graph_given_back() {
    let (_folder, cann) = cann();
    let plan = plan();
    let context = context(cann, &plan);
    asked(cann);
    let graph = Graph::capture(&context, STREAM, || Ok(())).unwrap();
    assert_eq!(asked(cann), "begin end");
    drop(graph);
    assert_eq!(asked(cann), "graph-");
    let broken = Graph::capture(&context, STREAM, || Err(Diag::new("T0742", "the cause"))).unwrap_err();
    assert_eq!((broken.message.as_str(), asked(cann).as_str()), ("the cause", "begin end graph-"));
    let other = aclrtStream(ptr::without_provenance_mut(65));
    let diag = Graph::capture(&context, other, || Ok(())).unwrap_err();
    assert_eq!(diag.code, "T0759");
    assert!(
        diag.message.contains("aclmdlRICaptureEnd returned 107025 (ACL_ERROR_RT_STREAM_UNJOINED)"),
        "{diag}"
    );
    assert!(asked(cann).ends_with("graph-"), "nothing is left");
}
