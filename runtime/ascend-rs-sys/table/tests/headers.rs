//! The comparison with headers, on headers written here in the vendor's manner.
#![expect(clippy::unwrap_used, reason = "tests")]

use ascend_rs_table::headers::{Headers, Report};
use ascend_rs_table::model::Table;
use ascend_rs_table::{mutants, parse};
use std::fs;
use std::path::Path;

const ACL: &str = r#"
#pragma once
#include <stdint.h>
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
#define ACL_EVENT_SYNC 0x00000001U
static const int ACL_ERROR_REPEAT_INITIALIZE = 100002;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef int aclError;
typedef enum aclDataType { ACL_DT_UNDEFINED = -1, ACL_FLOAT = 0, ACL_BF16 = 27 } aclDataType;
typedef struct aclrtPlaceHolderInfo { uint32_t addrOffset; uint32_t dataOffset; } aclrtPlaceHolderInfo;
typedef void (*aclrtHostFunc)(void *args);
/* comment (with parentheses) */
__attribute__((visibility("default"))) aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtPeer(int32_t deviceId, int32_t peerDeviceId);
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);
#ifdef __cplusplus
}
#endif
"#;

const OPERATOR: &str = r#"
#pragma once
#include "acl/acl.h"
typedef int32_t aclnnStatus;
typedef struct aclTensor aclTensor;
typedef struct aclOpExecutor aclOpExecutor;
extern "C" {
__attribute__((visibility("default"))) aclnnStatus aclnnScaleGetWorkspaceSize(
    const aclTensor *self, float scale, int64_t first, int64_t second, aclTensor *out,
    uint64_t *workspaceSize, aclOpExecutor **executor);
aclnnStatus aclnnScale(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);
}
"#;

const TABLE: &str = "library acl_rt
handle aclrtStream;
handle aclrtEvent;
alias aclError = int;
alias aclnnStatus = int32_t;
opaque aclTensor;
opaque aclOpExecutor;
enum aclDataType { ACL_DT_UNDEFINED = -1, ACL_FLOAT = 0, ACL_BF16 = 27 };
struct aclrtPlaceHolderInfo { uint32_t addrOffset; uint32_t dataOffset; };
callback void aclrtHostFunc(void* args);
const uint32_t ACL_EVENT_SYNC = 0x1;
code 100002 ACL_ERROR_REPEAT_INITIALIZE;
fn [8.5] aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
fn [8.5] aclError aclrtPeer(int32_t deviceId, int32_t peerDeviceId);
fn [8.5] aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args);
fn [next] aclError aclrtNew(aclrtStream stream);
library aclnn
op [ops-math H] aclnnScale(const aclTensor* self, float scale, int64_t first, int64_t second, aclTensor* out);
";

fn parsed(text: &str) -> Table {
    let mut table = Table::default();
    parse::read(&mut table, "test", text).unwrap();
    table
}

fn read(folder: &Path) -> Headers {
    let include = folder.join("include");
    fs::create_dir_all(include.join("acl")).unwrap();
    fs::create_dir_all(include.join("aclnnop")).unwrap();
    fs::write(include.join("acl/acl.h"), ACL).unwrap();
    fs::write(include.join("aclnnop/aclnn_scale.h"), OPERATOR).unwrap();
    fs::write(include.join("aclnnop/aclnn_broken.h"), "#include <absent.h>").unwrap();
    let headers = Headers::read(&parsed(TABLE), &[include], "c++", folder).unwrap();
    assert_eq!(headers.num_files, 2);
    assert_eq!(headers.unreadable.len(), 1);
    headers
}

fn compare(headers: &Headers, folder: &Path, table: &Table) -> Report {
    headers.compare(table, "c++", folder).unwrap()
}

#[test]
fn equal_headers_have_no_difference_and_absent_functions_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let headers = read(folder.path());
    let report = compare(&headers, folder.path(), &parsed(TABLE));
    assert!(report.differences.is_empty(), "{:?}", report.differences);
    assert_eq!(report.missing, ["aclrtNew"]);
    assert_eq!(report.num_statements, 23);
}

#[test]
fn each_fault_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let headers = read(folder.path());
    for (from, to, entry) in [
        ("aclrtEvent event, aclrtStream stream", "aclrtStream stream, aclrtEvent event", "aclrtRecordEvent"),
        ("int32_t deviceId, int32_t peerDeviceId", "int32_t peerDeviceId, int32_t deviceId", "aclrtPeer"),
        ("int32_t peerDeviceId", "int64_t peerDeviceId", "aclrtPeer"),
        (", aclrtHostFunc fn, void* args", ", aclrtHostFunc fn", "aclrtLaunchHostFunc"),
        ("aclrtHostFunc(void* args)", "aclrtHostFunc(const void* args)", "aclrtHostFunc"),
        ("aclError aclrtPeer", "float aclrtPeer", "aclrtPeer"),
        ("float scale", "double scale", "aclnnScaleGetWorkspaceSize"),
        ("int64_t first, int64_t second", "int64_t second, int64_t first", "aclnnScaleGetWorkspaceSize"),
        ("ACL_BF16 = 27", "ACL_BF16 = 26", "aclDataType"),
        ("uint32_t dataOffset", "int32_t dataOffset", "aclrtPlaceHolderInfo"),
        ("uint32_t dataOffset", "uint64_t dataOffset", "aclrtPlaceHolderInfo"),
        ("ACL_EVENT_SYNC = 0x1", "ACL_EVENT_SYNC = 0x2", "ACL_EVENT_SYNC"),
        ("code 100002", "code 100003", "ACL_ERROR_REPEAT_INITIALIZE"),
        ("alias aclError = int", "alias aclError = uint32_t", "aclError"),
    ] {
        let report = compare(&headers, folder.path(), &parsed(&TABLE.replacen(from, to, 1)));
        assert!(report.differences.contains_key(entry), "{to}: {:?}", report.differences);
    }
}

#[test]
fn every_kind_of_mutant_changes_something_that_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let headers = read(folder.path());
    for (what, mutate) in mutants::ALL {
        let mut table = parsed(TABLE);
        let mut changed = mutate(&mut table);
        changed.remove("aclrtNew");
        let report = compare(&headers, folder.path(), &table);
        assert!(!changed.is_empty(), "{what} changes nothing");
        for entry in changed {
            assert!(report.differences.contains_key(&entry), "{what}: {entry}");
        }
    }
}
