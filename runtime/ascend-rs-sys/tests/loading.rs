//! Loading and calling, with small C libraries made here in place of CANN.
#![expect(clippy::unwrap_used, reason = "tests")]

use ascend_rs_sys::types::{self, HcclComm, HcclDataType, HcclReduceOp, HcclResult, aclrtStream};
use ascend_rs_sys::{Acl, Aclnn, Error, Hccl, Nnopbase, Search};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::{fs, ptr};

const ACL: &str = r#"
static const char *message = 0;
int aclInit(const char *path) { return path ? 100003 : 0; }
const char *aclGetRecentErrMsg(void) { const char *text = message; message = 0; return text; }
int aclrtSetDevice(int device) {
    if (device == 0) return 0;
    message = "EE1001: no device of this number\n";
    return 107001;
}
int aclrtResetDevice(int device) { return device == 0 ? 0 : 424242; }
int aclrtGetDeviceCount(unsigned *count) { *count = 8; return 0; }
const char *aclrtGetSocName(void) { return "Ascend910B3"; }
"#;

fn library(folder: &Path, name: &str, source: &str) {
    let file = folder.join(format!("{name}.c"));
    fs::write(&file, source).unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join(name))
        .arg(&file)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

fn acl(folder: &Path) -> Acl {
    library(folder, "libacl_rt.so", ACL);
    Acl::load(&Search::at(folder)).unwrap()
}

#[test]
fn without_cann_one_line_says_what_was_looked_for_and_where() {
    let search =
        Search::from_variables(|name| (name == "ASCEND_HOME_PATH").then(|| OsString::from("/no/such/cann")));
    let error = Acl::load(&search).unwrap_err();
    assert_eq!(error.code(), "T0740");
    assert_eq!(
        error.to_string(),
        "CANN's library is not found: looked for libacl_rt.so, libascendcl.so in /no/such/cann/lib64 \
         (ASCEND_HOME_PATH), the dynamic loader's path (LD_LIBRARY_PATH)"
    );
}

#[test]
fn a_file_that_does_not_load_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("libacl_rt.so"), "no library").unwrap();
    let text = Acl::load(&Search::at(folder.path())).unwrap_err().to_string();
    assert!(text.contains("libacl_rt.so does not load: "), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn functions_are_called_with_their_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let acl = acl(folder.path());
    let mut count = 0;
    // SAFETY: the library is the one above; the count is written.
    unsafe {
        acl.aclInit(ptr::null()).unwrap();
        acl.aclrtSetDevice(0).unwrap();
        acl.aclrtGetDeviceCount(&mut count).unwrap();
        let name = std::ffi::CStr::from_ptr(acl.aclrtGetSocName().unwrap());
        assert_eq!(name.to_str().unwrap(), "Ascend910B3");
    }
    assert_eq!(count, 8);
    assert_eq!(acl.files(), [folder.path().join("libacl_rt.so")]);
}

#[test]
fn a_missing_function_is_an_error_when_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let acl = acl(folder.path());
    // SAFETY: nothing is called.
    let error =
        unsafe { acl.aclrtRecordEventWithFlag(types::aclrtEvent::NULL, aclrtStream::NULL, 0) }.unwrap_err();
    assert_eq!(error.code(), "T0741");
    let file = folder.path().join("libacl_rt.so");
    assert_eq!(
        error.to_string(),
        format!("aclrtRecordEventWithFlag is not in {}: it needs a CANN newer than 9.1", file.display())
    );
    assert!(acl.has("aclInit") && !acl.has("aclrtMalloc"));
    acl.require(&["aclInit", "aclrtSetDevice"]).unwrap();
    let error = acl.require(&["aclInit", "aclrtMalloc"]).unwrap_err();
    assert!(error.to_string().starts_with("aclrtMalloc is not in "), "{error}");
}

#[test]
fn a_failed_call_has_name_and_message_of_the_moment() {
    let folder = tempfile::tempdir().unwrap();
    let acl = acl(folder.path());
    // SAFETY: the library is the one above.
    let errors = unsafe { [acl.aclrtSetDevice(99), acl.aclInit(c"x".as_ptr()), acl.aclrtResetDevice(1)] };
    let texts = errors.map(|error| error.unwrap_err().to_string());
    assert_eq!(
        texts,
        [
            "aclrtSetDevice returned 107001 (ACL_ERROR_RT_INVALID_DEVICEID): EE1001: no device of this number",
            "aclInit returned 100003 (ACL_ERROR_INVALID_FILE)",
            "aclrtResetDevice returned 424242 (a status without a name)",
        ]
    );
}

#[test]
fn the_old_name_is_used_where_the_new_one_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    library(folder.path(), "libascendcl.so", ACL);
    let acl = Acl::load(&Search::at(folder.path())).unwrap();
    assert_eq!(acl.files(), [folder.path().join("libascendcl.so")]);
}

#[test]
fn one_file_may_be_every_library() {
    let folder = tempfile::tempdir().unwrap();
    library(
        folder.path(),
        "all.so",
        &format!("{ACL}\nint aclDestroyTensor(void *t) {{ return t ? 161002 : 161001; }}"),
    );
    let search = Search::at(&folder.path().join("all.so"));
    let acl = Acl::load(&search).unwrap();
    let nnopbase = Nnopbase::load(&search, &acl).unwrap();
    // SAFETY: the library is the one above, which reads nothing.
    let error = unsafe { nnopbase.aclDestroyTensor(ptr::null()) }.unwrap_err();
    assert_eq!(error.to_string(), "aclDestroyTensor returned 161001 (ACLNN_ERR_PARAM_NULLPTR)");
    assert_eq!(error.code(), "T0742");
}

#[test]
fn collectives_are_found_in_both_files_and_have_their_own_statuses() {
    let folder = tempfile::tempdir().unwrap();
    let acl = acl(folder.path());
    library(folder.path(), "libhccl.so", "int HcclAllReduce(void) { return 9; }");
    library(
        folder.path(),
        "libhcomm.so",
        "int HcclCommDestroy(void *c) { return 0; } int HcclAllReduce(void) { return 0; }",
    );
    let hccl = Hccl::load(&Search::at(folder.path()), &acl).unwrap();
    // SAFETY: the libraries are the ones above, which read nothing.
    let error = unsafe {
        hccl.HcclCommDestroy(HcclComm::NULL).unwrap();
        let (ty, op) = (HcclDataType::HCCL_DATA_TYPE_FP32, HcclReduceOp::HCCL_REDUCE_SUM);
        hccl.HcclAllReduce(ptr::null_mut(), ptr::null_mut(), 1, ty, op, HcclComm::NULL, aclrtStream::NULL)
    };
    assert_eq!(error.unwrap_err().to_string(), "HcclAllReduce returned 9 (HCCL_E_TIMEOUT)");
}

#[test]
fn an_operator_of_the_users_own_comes_before_cann_s() {
    let folder = tempfile::tempdir().unwrap();
    let (home, custom) = (folder.path().join("cann"), folder.path().join("custom"));
    fs::create_dir_all(home.join("lib64")).unwrap();
    fs::create_dir_all(custom.join("op_api/lib")).unwrap();
    let acl = acl(folder.path());
    library(&custom.join("op_api/lib"), "libcust_opapi.so", "int aclnnMm(void) { return 561000; }");
    library(&home.join("lib64"), "libopapi_math.so", "int aclnnAdd(void) { return 0; }");
    library(&home.join("lib64"), "libopapi_nn.so", "int aclnnMm(void) { return 0; }");
    let search = Search::from_variables(|name| match name {
        "ASCEND_HOME_PATH" => Some(home.clone().into()),
        "ASCEND_CUSTOM_OPP_PATH" => Some(custom.clone().into()),
        _ => None,
    });
    let aclnn = Aclnn::load(&search, &acl).unwrap();
    assert_eq!(aclnn.files().len(), 3);
    // SAFETY: the libraries are the ones above, which read nothing.
    unsafe {
        aclnn.aclnnAdd(ptr::null_mut(), 0, ptr::null_mut(), aclrtStream::NULL).unwrap();
        let error = aclnn.aclnnMm(ptr::null_mut(), 0, ptr::null_mut(), aclrtStream::NULL).unwrap_err();
        let Error::Call { status, name, .. } = error else { panic!("{error}") };
        assert_eq!((status, name), (561000, Some("ACLNN_ERR_INNER")));
        let error = aclnn.aclnnCast(ptr::null_mut(), 0, ptr::null_mut(), aclrtStream::NULL).unwrap_err();
        assert!(error.to_string().contains("which version was the first is not known"), "{error}");
    }
}

#[test]
fn statuses_and_enums_have_names() {
    for (code, name) in [
        (0, Some("ACL_ERROR_NONE")),
        (100_002, Some("ACL_ERROR_REPEAT_INITIALIZE")),
        (107_025, Some("ACL_ERROR_RT_STREAM_UNJOINED")),
        (561_112, Some("ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND")),
        (7, None),
    ] {
        assert_eq!(types::status_name(code), name, "{code}");
    }
    assert_eq!(HcclResult(24).name(), Some("HCCL_E_OOM"));
    assert_eq!(HcclResult(1041).name(), None);
}
