//! Writes the Rust declarations.

use crate::c_type::{CType, Variable};
use crate::layout::{self, Layout};
use crate::model::{Function, Library, Member, Since, Table, Type, TypeKind};
use std::fmt::Write;

/// Types, constants and names of statuses.
pub fn types(table: &Table) -> String {
    let mut out = String::new();
    for declared in &table.types {
        emit_type(&mut out, table, declared);
    }
    for constant in &table.constants {
        let (name, ty) = (&constant.name, constant.ty.rust());
        // C initialises a signed constant with the bits of an unsigned one.
        let value = if ty == "i32" { i64::from(constant.value as i32) } else { constant.value };
        let _ = writeln!(out, "/// `{name}`.\npub const {name}: {ty} = {value};");
    }
    for (i, status) in table.statuses.iter().enumerate() {
        if table.statuses[..i].iter().all(|s| s.name != status.name) {
            let _ = writeln!(out, "/// Status {}.\npub const {}: i32 = {0};", status.code, status.name);
        }
    }
    let _ = writeln!(out, "pub(crate) static STATUSES: &[(i32, &str)] = &[");
    let mut statuses: Vec<_> = table.statuses.iter().map(|s| (s.code, &s.name)).collect();
    statuses.sort_by_key(|(code, _)| *code);
    statuses.dedup_by_key(|(code, _)| *code);
    for (code, name) in statuses {
        let _ = writeln!(out, "    ({code}, \"{name}\"),");
    }
    out.push_str("];\n");
    out
}

fn emit_type(out: &mut String, table: &Table, declared: &Type) {
    let name = &declared.name;
    let layout = layout::of_kind(table, &declared.kind);
    let _ = match &declared.kind {
        TypeKind::Handle => writeln!(out, "crate::kinds::handle! {{ {name} }}"),
        TypeKind::Opaque => writeln!(out, "crate::kinds::opaque! {{ {name} }}"),
        TypeKind::Alias(ty) => writeln!(out, "/// C's `{name}`.\npub type {name} = {};", ty.rust()),
        TypeKind::Callback(result, parameters) => {
            let signature = signature(result, parameters);
            writeln!(
                out,
                "/// Function the library calls.\npub type {name} = Option<unsafe extern \"C\" fn{signature}>;"
            )
        }
        TypeKind::Enum(values) => {
            let _ = writeln!(out, "crate::kinds::enumeration! {{ {name}");
            for (value_name, value) in values {
                let _ = writeln!(out, "    {value_name} = {value},");
            }
            writeln!(out, "}}")
        }
        TypeKind::Struct(members) => emit_struct(out, table, name, members),
        TypeKind::Union(members) => {
            emit_union(out, name, members, layout);
            Ok(())
        }
    };
}

fn emit_union(out: &mut String, name: &str, members: &[Variable], layout: Option<Layout>) {
    let _ = writeln!(out, "/// C's `{name}`.\n#[repr(C)]\n#[derive(Clone, Copy)]\npub union {name} {{");
    for member in members {
        let _ = writeln!(out, "    /// `{member}`.\n    pub {}: {},", member.rust_name(), member.ty.rust());
    }
    out.push_str("}\n");
    pin_layout(out, name, layout);
}

fn emit_struct(out: &mut String, table: &Table, name: &str, members: &[Member]) -> std::fmt::Result {
    let mut fields = String::new();
    let mut names = Vec::new();
    for member in members {
        let (declaration, field, ty) = match member {
            Member::Variable(v) => (v.to_string(), v.rust_name(), v.ty.rust()),
            Member::Union(inner, field) => {
                let field = if field.is_empty() { "detail" } else { field };
                let ty = format!("{name}_{field}");
                emit_union(out, &ty, inner, None);
                (format!("union {field}"), field.to_owned(), ty)
            }
        };
        writeln!(fields, "    /// `{declaration}`.\n    pub {field}: {ty},")?;
        names.push(field);
    }
    writeln!(out, "/// C's `{name}`.\n#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {name} {{\n{fields}}}")?;
    let (layout, offsets) = layout::of_members(table, members).expect("members have sizes");
    pin_layout(out, name, Some(layout));
    for (field, offset) in names.iter().zip(offsets) {
        writeln!(out, "const _: () = assert!(std::mem::offset_of!({name}, {field}) == {offset});")?;
    }
    Ok(())
}

/// A compile-time proof that rustc lays `name` out as the table's checker believes.
fn pin_layout(out: &mut String, name: &str, layout: Option<Layout>) {
    if let Some(Layout { size_bytes, align_bytes }) = layout {
        let _ = writeln!(
            out,
            "const _: () = assert!(size_of::<{name}>() == {size_bytes} && align_of::<{name}>() == {align_bytes});"
        );
    }
}

/// `(a: A, b: B) -> R`.
fn signature(result: &CType, parameters: &[Variable]) -> String {
    let parameters: Vec<_> =
        parameters.iter().map(|p| format!("{}: {}", p.rust_name(), p.ty.rust())).collect();
    let result = if result.is_void() { String::new() } else { format!(" -> {}", result.rust()) };
    format!("({}){result}", parameters.join(", "))
}

/// Types of the functions of `library`, the list of their symbols, and a method for each.
pub fn functions(table: &Table, library: Library) -> String {
    let functions = table.functions_of(library);
    let (mut prototypes, mut symbols, mut methods) = (String::new(), String::new(), String::new());
    for (index, function) in functions.iter().enumerate() {
        let Function { name, result, parameters, since, .. } = function;
        let _ = writeln!(
            prototypes,
            "    /// `{function}`.\n    pub type {name} = unsafe extern \"C\" fn{};",
            signature(result, parameters)
        );
        let _ = writeln!(symbols, "    Symbol {{ name: \"{name}\", since: Since::{} }},", variant(*since));
        emit_method(&mut methods, index, function);
    }
    format!(
        "/// Types of the functions, by name.\npub mod prototypes {{\n    use super::types::*;\n    \
         use std::ffi::*;\n\n{prototypes}}}\n\npub(super) static SYMBOLS: &[Symbol] = &[\n{symbols}];\n\n\
         impl {} {{\n{methods}}}\n",
        owner(library)
    )
}

fn emit_method(out: &mut String, index: usize, function: &Function) {
    let Function { name, result, parameters, .. } = function;
    let arguments: Vec<_> = parameters.iter().map(Variable::rust_name).collect();
    let declared: Vec<_> =
        parameters.iter().map(|p| format!(", {}: {}", p.rust_name(), p.ty.rust())).collect();
    let status = result.pointers.is_empty().then_some(result.base.as_str());
    let call = format!("unsafe {{ function({}) }}", arguments.join(", "));
    let (output, call) = match status {
        Some("aclError" | "aclnnStatus") => ("()".to_owned(), format!("self.0.check({index}, {call})")),
        Some("HcclResult") => ("()".to_owned(), format!("self.0.check({index}, {call}.0)")),
        _ if result.is_void() => ("()".to_owned(), format!("{call};\n        Ok(())")),
        _ => (result.rust(), format!("Ok({call})")),
    };
    let _ = write!(
        out,
        "    /// `{function}`.\n    pub unsafe fn {name}(&self{}) -> Result<{output}, Error> {{\n        \
         // SAFETY: the symbol has this type; the caller vouches for the arguments.\n        \
         let function = unsafe {{ self.0.function::<prototypes::{name}>({index})? }};\n        \
         // SAFETY: as above.\n        {call}\n    }}\n\n",
        declared.concat()
    );
}

fn variant(since: Since) -> String {
    format!("{since:?}")
}

/// The Rust type that owns the methods of `library`.
fn owner(library: Library) -> &'static str {
    match library {
        Library::AclRt => "Acl",
        Library::Nnopbase => "Nnopbase",
        Library::Hccl => "Hccl",
        Library::Aclnn => "Aclnn",
    }
}
