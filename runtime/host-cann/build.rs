//! Writes the exported C functions: one for every function of the table that the sources implement.
//!
//! A function of ACL, nnopbase or HCCL is implemented by a `pub(crate) fn` of its name under `src/api`, `src/nnopbase` or
//! `src/hccl`, an operator by its name in quotes under `src/operators`. What is not implemented is not exported, so that who
//! needs it is told its name.

use ascend_rs_table::c_type::{CType, Variable};
use ascend_rs_table::model::{Function, Library, Operator};
use ascend_rs_table::table;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    let table = table().map_err(io::Error::other)?;
    let functions = sources(&["src/api", "src/nnopbase", "src/hccl"])?;
    let operators = sources(&["src/operators"])?;
    let mut out = String::new();
    for library in [Library::AclRt, Library::Nnopbase, Library::Hccl] {
        for function in table.functions_of(library) {
            if let Some(is_unsafe) = implementation(&functions, &function.name) {
                plain(&mut out, &function, is_unsafe);
            }
        }
    }
    for operator in &table.operators {
        if operators.contains(&format!("\"{}\"", operator.name)) {
            phases(&mut out, operator).map_err(io::Error::other)?;
        }
    }
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&folder).join("exports.rs"), out)
}

/// The text of all files below `folders`.
fn sources(folders: &[&str]) -> io::Result<String> {
    let mut pending: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    let mut text = String::new();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                text.push_str(&fs::read_to_string(&path)?);
            }
        }
    }
    Ok(text)
}

/// Whether `name` is implemented, and if so, whether by an unsafe function.
fn implementation(sources: &str, name: &str) -> Option<bool> {
    if sources.contains(&format!("pub(crate) unsafe fn {name}(")) {
        return Some(true);
    }
    sources.contains(&format!("pub(crate) fn {name}(")).then_some(false)
}

fn declared(parameters: &[Variable]) -> String {
    parameters.iter().map(|p| format!("{}: {}", p.rust_name(), p.ty.rust())).collect::<Vec<_>>().join(", ")
}

/// `pub unsafe extern "C" fn name(parameters) -> result {`.
fn open(out: &mut String, function: &Function) {
    let Function { name, result, parameters, .. } = function;
    let result = if result.is_void() { String::new() } else { format!(" -> {}", result.rust()) };
    let _ = writeln!(
        out,
        "/// `{function}`.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({}){result} {{",
        declared(parameters)
    );
}

/// A function that calls its implementation with the same arguments.
fn plain(out: &mut String, function: &Function, is_unsafe: bool) {
    open(out, function);
    let names: Vec<_> = function.parameters.iter().map(Variable::rust_name).collect();
    let call = format!("crate::api::{}({})", function.name, names.join(", "));
    let call = if is_unsafe {
        format!(
            "// SAFETY: the caller vouches for the arguments, as C's documentation asks.\n        unsafe {{ {call} }}"
        )
    } else {
        call
    };
    let name = &function.name;
    let _ = writeln!(out, "    crate::boundary::call(\"{name}\", || {{\n        {call}\n    }})\n}}\n");
}

/// Both functions of an operator: phase one collects its arguments.
fn phases(out: &mut String, operator: &Operator) -> Result<(), String> {
    let [first, second] = operator.functions();
    let name = &operator.name;
    open(out, &first);
    let mut values = String::new();
    for parameter in &operator.parameters {
        let value = value(parameter).ok_or_else(|| format!("{name}: no value for `{parameter}`"))?;
        let _ = writeln!(values, "            {value},");
    }
    let [.., size, executor] = &first.parameters[..] else { return Err(format!("{name}: no parameters")) };
    let (size, executor) = (size.rust_name(), executor.rust_name());
    let _ = writeln!(
        out,
        "    crate::boundary::call(\"{}\", || {{\n        \
         // SAFETY: the caller vouches for the arguments, as C's documentation asks.\n        \
         unsafe {{\n            let values = vec![\n{values}            ];\n            \
         crate::operators::phase_one(\"{name}\", values, {size}, {executor})\n        }}\n    }})\n}}\n",
        first.name
    );
    open(out, &second);
    let _ = writeln!(
        out,
        "    crate::boundary::call(\"{name}\", || {{\n        \
         // SAFETY: the caller vouches for the arguments, as C's documentation asks.\n        \
         unsafe {{ crate::operators::phase_two(\"{name}\", workspace, workspaceSize, executor, stream) }}\n    }})\n}}\n"
    );
    Ok(())
}

/// The `Value` of a parameter.
fn value(parameter: &Variable) -> Option<String> {
    let name = parameter.rust_name();
    let CType { base, pointers, .. } = &parameter.ty;
    let variant = match (base.as_str(), pointers.len()) {
        ("aclTensor", 1) => "Tensor",
        ("aclTensorList", 1) => "Tensors",
        ("aclScalar", 1) => "Scalar",
        ("aclScalarList", 1) => "Scalars",
        ("aclIntArray", 1) => "Ints",
        ("aclFloatArray", 1) => "Floats",
        ("aclBoolArray", 1) => "Bools",
        ("char", 1) => return Some(format!("crate::value::text({name})?")),
        ("double", 0) => "F64",
        ("float", 0) => "F32",
        ("int64_t", 0) => "I64",
        ("uint64_t", 0) => "U64",
        ("int32_t" | "int", 0) => "I32",
        ("int8_t", 0) => "I8",
        ("bool", 0) => "Bool",
        ("aclDataType", 0) => "Type",
        _ => return None,
    };
    Some(format!("crate::value::Value::{variant}({name})"))
}
