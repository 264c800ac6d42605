//! Writes the C++ that compares the table with headers: one statement a line, each about one entry. C++ because HCCL's
//! headers do not compile as C, and because its rules for pointers to functions are the strictest.

use crate::c_type::{CType, Variable};
use crate::layout;
use crate::model::{Member, Table, Type, TypeKind, join};
use std::collections::BTreeSet;

/// What an entry is, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A function.
    Function,
    /// An enum.
    Enum,
    /// A struct or union.
    Struct,
    /// An alias, handle, hidden struct or callback.
    Name,
    /// A constant or status.
    Constant,
}

/// One statement that does not compile if the table and the headers differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Which entry it is about.
    pub entry: String,
    /// What that is.
    pub kind: Kind,
    /// A line of C++.
    pub statement: String,
}

/// What the statements need before them.
pub const PRELUDE: &str = "template<class A, class B> struct same_type { static constexpr bool value = false; }; \
    template<class A> struct same_type<A, A> { static constexpr bool value = true; };";

/// The checks of all entries whose names are in `declared`.
pub fn checks(table: &Table, declared: &BTreeSet<String>) -> Vec<Check> {
    let mut checks = Vec::new();
    for ty in table.types.iter().filter(|t| declared.contains(&t.name)) {
        let kind = kind_of(ty);
        let statements = of_type(table, ty, declared);
        checks.extend(statements.into_iter().map(|statement| Check {
            entry: ty.name.clone(),
            kind,
            statement,
        }));
    }
    let constants = table.constants.iter().map(|c| (&c.name, c.value, c.ty.to_string()));
    let statuses = table.statuses.iter().map(|s| (&s.name, i64::from(s.code), "int32_t".to_owned()));
    for (name, value, ty) in constants.chain(statuses).filter(|(name, ..)| declared.contains(*name)) {
        let statement = format!("static_assert(({ty})({name}) == ({ty})({value}LL), \"value\");");
        checks.push(Check { entry: name.clone(), kind: Kind::Constant, statement });
    }
    for (index, function) in table.all_functions().iter().enumerate() {
        if declared.contains(&function.name) {
            let (result, name) = (&function.result, &function.name);
            let statement =
                format!("static {result} (*const check_{index})({}) = {name};", types(&function.parameters));
            checks.push(Check { entry: name.clone(), kind: Kind::Function, statement });
        }
    }
    checks
}

/// What kind of entry `ty` is.
pub fn kind_of(ty: &Type) -> Kind {
    match ty.kind {
        TypeKind::Enum(_) => Kind::Enum,
        TypeKind::Struct(_) | TypeKind::Union(_) => Kind::Struct,
        _ => Kind::Name,
    }
}

fn of_type(table: &Table, ty: &Type, declared: &BTreeSet<String>) -> Vec<String> {
    let name = &ty.name;
    match &ty.kind {
        // Headers are read with every handle made a pointer to a struct of its own: see `headers`.
        TypeKind::Handle => vec![same(name, &format!("struct {name}_handle*"))],
        TypeKind::Opaque => vec![format!("static {name}* check_{name};")],
        TypeKind::Alias(of) => vec![same(name, &of.to_string())],
        TypeKind::Callback(result, parameters) => {
            vec![same(name, &format!("{result} (*)({})", types(parameters)))]
        }
        TypeKind::Enum(values) => {
            let values = values.iter().filter(|(value_name, _)| declared.contains(value_name));
            let values = values.map(|(value_name, value)| {
                format!("static_assert(same_type<decltype({value_name}), {name}>::value && (long long){value_name} == {value}LL, \"value of {value_name}\");")
            });
            std::iter::once(format!("static_assert(sizeof({name}) == 4, \"size\");")).chain(values).collect()
        }
        TypeKind::Struct(members) => {
            let (layout, offsets) = layout::of_members(table, members).expect("members have sizes");
            let mut statements = vec![size(name, layout)];
            for (member, offset) in members.iter().zip(offsets) {
                match member {
                    Member::Variable(variable) => statements.extend(of_member(name, "", variable, offset)),
                    Member::Union(inner, field) => {
                        let path = if field.is_empty() { String::new() } else { format!("{field}.") };
                        statements.extend(inner.iter().flat_map(|v| of_member(name, &path, v, offset)));
                    }
                }
            }
            statements
        }
        TypeKind::Union(members) => {
            let layout = layout::of_kind(table, &ty.kind).expect("members have sizes");
            std::iter::once(size(name, layout))
                .chain(members.iter().flat_map(|v| of_member(name, "", v, 0)))
                .collect()
        }
    }
}

fn of_member(of: &str, path: &str, member: &Variable, offset: usize) -> [String; 2] {
    let place = format!("{path}{}", member.name);
    let array = member.ty.array.map_or(String::new(), |len| format!("[{len}]"));
    [
        format!("static_assert(__builtin_offsetof({of}, {place}) == {offset}, \"offset of {place}\");"),
        format!(
            "static_assert(same_type<decltype((({of}*)0)->{place}), {}{array}>::value, \"type of {place}\");",
            member.ty
        ),
    ]
}

fn size(name: &str, layout: layout::Layout) -> String {
    let layout::Layout { size_bytes, align_bytes } = layout;
    format!("static_assert(sizeof({name}) == {size_bytes} && alignof({name}) == {align_bytes}, \"size\");")
}

fn same(name: &str, text: &str) -> String {
    format!("static_assert(same_type<{name}, {text}>::value, \"type\");")
}

fn types(parameters: &[Variable]) -> String {
    let types: Vec<CType> = parameters.iter().map(|p| p.ty.clone()).collect();
    join(&types, ", ")
}
