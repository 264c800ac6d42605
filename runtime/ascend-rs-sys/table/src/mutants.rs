//! Faults put into the table on purpose: a check that misses one is no check.

use crate::c_type::Variable;
use crate::model::{Member, Table, TypeKind};
use std::collections::BTreeSet;

/// A kind of fault: what it does, and the entries it changed.
type Mutate = fn(&mut Table) -> BTreeSet<String>;

/// All kinds of fault.
pub const ALL: [(&str, Mutate); 8] = [
    ("last parameter dropped", drop_last),
    ("width of a parameter changed", change_width),
    ("two parameters of different types swapped", |table| swap(table, |a, b| a.ty != b.ty)),
    ("two parameters of one type swapped", |table| swap(table, |a, b| a.ty == b.ty)),
    ("result type changed", change_result),
    ("value of an enum raised", raise_values),
    ("width of a struct member changed", change_members),
    ("constant or status raised", raise_constants),
];

fn drop_last(table: &mut Table) -> BTreeSet<String> {
    each_function(table, |parameters| parameters.pop().is_some())
}

fn change_width(table: &mut Table) -> BTreeSet<String> {
    each_function(table, |parameters| {
        let integer = parameters.iter_mut().find_map(|p| other_width(&p.ty.base).map(|other| (p, other)));
        integer.is_some_and(|(parameter, other)| {
            parameter.ty.base = other.to_owned();
            true
        })
    })
}

fn swap(table: &mut Table, fits: fn(&Variable, &Variable) -> bool) -> BTreeSet<String> {
    each_function(table, |parameters| {
        let pair = (1..parameters.len()).find(|&i| fits(&parameters[i - 1], &parameters[i]));
        pair.is_some_and(|i| {
            parameters.swap(i - 1, i);
            true
        })
    })
}

fn change_result(table: &mut Table) -> BTreeSet<String> {
    let functions = table.functions.iter_mut().filter(|f| f.result.pointers.is_empty());
    functions
        .map(|function| {
            function.result.base = "double".to_owned();
            function.name.clone()
        })
        .collect()
}

fn raise_values(table: &mut Table) -> BTreeSet<String> {
    let mut changed = BTreeSet::new();
    for ty in &mut table.types {
        if let TypeKind::Enum(values) = &mut ty.kind {
            values.iter_mut().for_each(|(_, value)| *value += 1);
            changed.insert(ty.name.clone());
        }
    }
    changed
}

fn change_members(table: &mut Table) -> BTreeSet<String> {
    let mut changed = BTreeSet::new();
    for ty in &mut table.types {
        let members: Vec<&mut Variable> = match &mut ty.kind {
            TypeKind::Struct(members) => members
                .iter_mut()
                .flat_map(|member| match member {
                    Member::Variable(variable) => vec![variable],
                    Member::Union(inner, _) => inner.iter_mut().collect(),
                })
                .collect(),
            TypeKind::Union(members) => members.iter_mut().collect(),
            _ => continue,
        };
        for member in members {
            if let Some(other) = other_width(&member.ty.base) {
                member.ty.base = other.to_owned();
                changed.insert(ty.name.clone());
            }
        }
    }
    changed
}

fn raise_constants(table: &mut Table) -> BTreeSet<String> {
    table.constants.iter_mut().for_each(|c| c.value += 1);
    table.statuses.iter_mut().for_each(|s| s.code += 1);
    let constants = table.constants.iter().map(|c| &c.name);
    constants.chain(table.statuses.iter().map(|s| &s.name)).cloned().collect()
}

/// Changes the parameters of every function and operator; the names of what was changed.
fn each_function(table: &mut Table, change: impl Fn(&mut Vec<Variable>) -> bool) -> BTreeSet<String> {
    let mut changed = BTreeSet::new();
    for function in &mut table.functions {
        if change(&mut function.parameters) {
            changed.insert(function.name.clone());
        }
    }
    for operator in &mut table.operators {
        if change(&mut operator.parameters) {
            changed.insert(format!("{}GetWorkspaceSize", operator.name));
        }
    }
    changed
}

/// An integer or floating type of another width.
fn other_width(base: &str) -> Option<&'static str> {
    Some(match base {
        "int" | "int32_t" => "int64_t",
        "int64_t" => "int32_t",
        "int8_t" => "int32_t",
        "uint8_t" => "uint16_t",
        "uint16_t" => "uint32_t",
        "uint32_t" => "uint64_t",
        "uint64_t" | "size_t" => "uint32_t",
        "char" => "int16_t",
        "float" => "double",
        "double" => "float",
        _ => return None,
    })
}
