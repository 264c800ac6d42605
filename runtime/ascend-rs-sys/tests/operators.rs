//! Operators called by name: every value must arrive in its place and with its type, for every signature of the table.
//!
//! The callee is C that a compiler made from the table's own declarations, so the passing of arguments is the compiler's word.
#![expect(clippy::unwrap_used, reason = "tests")]

use ascend_rs_sys::types::{aclDataType, aclrtStream};
use ascend_rs_sys::{Acl, Aclnn, Error, Kind, Search, Value};
use ascend_rs_table::model::{Operator, join};
use std::fmt::Write;
use std::process::Command;
use std::{fs, ptr};

/// What is passed as parameter `i` of an operator: a value no other parameter has, with high bits set where the type has them.
fn value(kind: Kind, i: usize) -> Value {
    let address = 0x7fff_0000_1000_usize + 16 * i;
    let n = i as i64 + 1;
    match kind {
        Kind::Tensor => Value::Tensor(ptr::without_provenance(address)),
        Kind::Tensors => Value::Tensors(ptr::without_provenance(address)),
        Kind::Scalar => Value::Scalar(ptr::without_provenance(address)),
        Kind::Scalars => Value::Scalars(ptr::without_provenance(address)),
        Kind::Ints => Value::Ints(ptr::without_provenance(address)),
        Kind::Floats => Value::Floats(ptr::without_provenance(address)),
        Kind::Bools => Value::Bools(ptr::without_provenance(address)),
        Kind::Text => Value::Text(ptr::without_provenance(address)),
        Kind::F64 => Value::F64(1.0 / n as f64),
        Kind::F32 => Value::F32(1.0 / n as f32),
        Kind::I8 => Value::I8(-(n as i8)),
        Kind::I32 => Value::I32(-70_000 - n as i32),
        Kind::I64 => Value::I64(-(1 << 40) - n),
        Kind::U64 => Value::U64(u64::MAX - n as u64),
        Kind::Bool => Value::Bool(i.is_multiple_of(2)),
        Kind::Type => Value::Type(aclDataType(-(n as i32))),
    }
}

/// C that returns 0 if every parameter has the value of [`value`], else its number.
fn callee(operator: &Operator) -> String {
    let mut body = String::new();
    for (i, p) in operator.parameters.iter().enumerate() {
        let n = i + 1;
        let expected = match p.ty.base.as_str() {
            _ if !p.ty.pointers.is_empty() => format!("(const void*)0x{:x}", 0x7fff_0000_1000_usize + 16 * i),
            "double" => format!("1.0 / {n}"),
            "float" => format!("1.0f / {n}"),
            "int8_t" => format!("-{n}"),
            "int32_t" | "int" => format!("-70000 - {n}"),
            "int64_t" => format!("-(1ll << 40) - {n}"),
            "uint64_t" => format!("~0ull - {n}"),
            "bool" => format!("{}", (i + 1) % 2),
            "aclDataType" => format!("-{n}"),
            other => panic!("{other}"),
        };
        let ty = if p.ty.pointers.is_empty() { "" } else { "(const void*)" };
        let _ = write!(body, " if ({ty}{} != {expected}) return {n};", p.name);
    }
    let (name, parameters) = (&operator.name, join(&operator.parameters, ", "));
    format!(
        "int {name}GetWorkspaceSize({parameters}, uint64_t* workspaceSize, aclOpExecutor** executor) {{{body} \
         *workspaceSize = 4242; *executor = (aclOpExecutor*)0x1230; return 0; }}\n\
         int {name}(void* w, uint64_t s, aclOpExecutor* e, void* t) {{ \
         return w == (void*)0x10 && s == 20 && e == (void*)0x30 && t == (void*)0x40 ? 0 : 561000; }}\n"
    )
}

fn opened(source: &str) -> (tempfile::TempDir, Aclnn) {
    let folder = tempfile::tempdir().unwrap();
    let (file, library) = (folder.path().join("all.c"), folder.path().join("all.so"));
    fs::write(&file, source).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&file).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let search = Search::at(&library);
    let aclnn = Aclnn::load(&search, &Acl::load(&search).unwrap()).unwrap();
    (folder, aclnn)
}

#[test]
fn every_operator_of_the_table_gets_every_value_in_its_place() {
    let table = ascend_rs_table::table().unwrap();
    let opaque = ["Tensor", "TensorList", "Scalar", "ScalarList", "IntArray", "FloatArray", "BoolArray"];
    let mut source = String::from("#include <stdint.h>\n#include <stdbool.h>\ntypedef int aclDataType;\n");
    for name in opaque.iter().chain(&["OpExecutor"]) {
        let _ = writeln!(source, "typedef struct acl{name} acl{name};");
    }
    source.extend(table.operators.iter().map(callee));
    let (_folder, aclnn) = opened(&source);
    assert!(table.operators.len() > 1000);
    for Operator { name, parameters, .. } in &table.operators {
        let operator = aclnn.operator(name).unwrap();
        assert_eq!((operator.name(), operator.parameters().len()), (name.as_str(), parameters.len()));
        let values: Vec<Value> =
            operator.parameters().iter().enumerate().map(|(i, &k)| value(k, i)).collect();
        // SAFETY: the callee above compares its arguments and follows none.
        unsafe {
            let (size, executor) = operator.workspace_size(&values).unwrap();
            assert_eq!((size, executor.addr()), (4242, 0x1230), "{name}");
            let stream = aclrtStream(ptr::without_provenance_mut(0x40));
            let run = |size| {
                let (workspace, executor) =
                    (ptr::without_provenance_mut(0x10), ptr::without_provenance_mut(0x30));
                operator.run(workspace, size, executor, stream)
            };
            run(20).unwrap();
            assert!(matches!(run(21), Err(Error::Call { status: 561_000, .. })), "{name}");
        }
    }
}

#[test]
fn arguments_of_other_kinds_are_refused_before_the_call() {
    let (_folder, aclnn) = opened(
        "int aclnnMmGetWorkspaceSize(void) { return 1; } int aclnnMm(void) { return 1; } \
         int aclnnAddGetWorkspaceSize(void) { return 161002; }",
    );
    let mm = aclnn.operator("aclnnMm").unwrap();
    assert_eq!(mm.parameters(), [Kind::Tensor, Kind::Tensor, Kind::Tensor, Kind::I8]);
    let refuse = |values: &[Value]| {
        // SAFETY: nothing is called.
        let error = unsafe { mm.workspace_size(values) }.unwrap_err();
        assert_eq!(error.code(), "T0750");
        error.to_string()
    };
    assert_eq!(refuse(&[Value::Null; 3]), "aclnnMm takes 4 arguments, not 3");
    assert_eq!(
        refuse(&[Value::Null, Value::Null, Value::Null, Value::I64(0)]),
        "aclnnMm takes I8 as argument 4, not I64(0)"
    );
    assert_eq!(refuse(&[Value::Null; 4]), "aclnnMm takes I8 as argument 4, not Null");
    let unknown = aclnn.operator("aclnnMatMulByMagic").unwrap_err();
    assert_eq!(
        (unknown.code(), unknown.to_string().as_str()),
        ("T0751", "no operator is called aclnnMatMulByMagic")
    );
    let half = aclnn.operator("aclnnAdd").unwrap_err();
    assert!(half.to_string().starts_with("aclnnAdd is not in "), "{half}");
}
