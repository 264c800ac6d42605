//! The table against the notes it was made from, read by code of its own. Where the notes are not at hand the tests say so.
#![expect(clippy::unwrap_used, reason = "tests")]

use ascend_rs_table::model::{Function, Library, Table};
use ascend_rs_table::table;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Functions of the runtime that the table leaves out, by how they begin.
const LEFT_OUT: [&str; 7] = [
    "aclAppLog",
    "aclrtLaunchSIMT",
    "acldump",
    "aclop",
    "aclmdlInitDump",
    "aclmdlSetDump",
    "aclmdlFinalizeDump",
];

/// An operator whose parameters nobody has read: the notes only guess them.
const UNREAD: &str = "aclnnMoeDistributeCombineV4";

/// Reads a file of notes, or says that it is absent.
fn notes(name: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let text = fs::read_to_string(root.join("../shared/facts/cann").join(name)).ok();
    if text.is_none() {
        println!("skipped: no ../shared");
    }
    text
}

/// Spaces only where C needs them.
fn squeeze(text: &str) -> String {
    let mut out = String::new();
    for word in text
        .replace('*', " * ")
        .replace(',', " , ")
        .replace('(', " ( ")
        .replace(')', " ) ")
        .split_whitespace()
    {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if out.ends_with(is_name) && word.starts_with(is_name) {
            out.push(' ');
        }
        out.push_str(word);
    }
    out.replace("(void)", "()")
}

fn by_name(table: &Table, library: Library) -> BTreeMap<String, Function> {
    table.functions_of(library).into_iter().map(|f| (f.name.clone(), f)).collect()
}

/// Compares prototypes, one a line, with `ours`; the number compared.
fn compare(ours: &BTreeMap<String, Function>, lines: impl Iterator<Item = String>) -> usize {
    let mut seen = BTreeSet::new();
    for line in lines {
        let name = line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap().to_owned();
        let Some(function) = ours.get(&name) else { panic!("the table lacks {line}") };
        assert_eq!(squeeze(&function.to_string()), squeeze(line.trim_end().trim_end_matches(';')));
        seen.insert(name);
    }
    for name in ours.keys() {
        assert!(seen.contains(name), "{name} is in no notes");
    }
    seen.len()
}

#[test]
fn every_operator_has_the_parameters_of_the_notes() {
    let Some(text) = notes("aclnn_signatures.tsv") else { return };
    let ours = by_name(&table().unwrap(), Library::Aclnn);
    let mut num_compared = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        // One header begins a parameter with a misspelt word.
        let parameters = fields[2].replace("onst aclTensor", "const aclTensor").replace("cconst", "const");
        let function = &ours[&format!("{}GetWorkspaceSize", fields[0])];
        let theirs = format!("aclnnStatus {}({parameters})", function.name);
        let plain = |text: &str| squeeze(text).replace("opExecutor)", "executor)");
        assert_eq!(plain(&function.to_string()), plain(&theirs));
        num_compared += 1;
    }
    assert_eq!(num_compared, 1029);
}

/// The supplement writes a type once for several names, before them or in parentheses behind them, or not at all.
#[test]
fn newer_operators_have_the_parameters_of_the_supplement() {
    let Some(text) = notes("aclnn_signatures_supplement.tsv") else { return };
    let ours = by_name(&table().unwrap(), Library::Aclnn);
    let types = ["const", "aclTensor", "aclIntArray", "double", "int64_t", "int64", "char", "bool"];
    let mut num_compared = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let Some(function) = ours.get(&format!("{}GetWorkspaceSize", fields[0])) else {
            assert_eq!(fields[0], UNREAD);
            continue;
        };
        let names = fields[2].split(" [").next().unwrap().split("   (").next().unwrap();
        let words = names.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        // What headers call `maskOptional` the supplement may call `mask`.
        let short = |name: &'_ str| name.trim_end_matches("Optional").to_owned();
        let theirs: Vec<String> = words.filter(|w| !w.is_empty() && !types.contains(w)).map(short).collect();
        let mut parameters: Vec<String> = function.parameters.iter().map(|p| short(&p.name)).collect();
        parameters.truncate(parameters.len() - 2);
        assert_eq!(parameters, theirs, "{}", fields[0]);
        for parameter in &function.parameters {
            // A type written just before its name.
            for ty in ["double", "int64_t", "bool", "char*", "aclTensor*", "const aclTensor*"] {
                let written = format!("{ty} {}", parameter.name);
                if fields[2].split([';', ',', '(']).any(|part| part.trim() == written) {
                    let ours = parameter.ty.to_string();
                    assert!(ours == ty || ours == format!("const {ty}"), "{}: {parameter}", fields[0]);
                }
            }
        }
        num_compared += 1;
    }
    assert_eq!(num_compared, 11);
}

#[test]
fn the_runtime_has_the_prototypes_of_the_notes() {
    let Some(text) = notes("acl_rt_prototypes.txt") else { return };
    let functions =
        text.split("## functions").nth(1).unwrap().lines().skip(1).filter(|line| !line.is_empty());
    let prototypes = functions.map(|line| line[4..].to_owned()).filter(|line| {
        let name = line.split('(').next().unwrap().rsplit([' ', '*']).next().unwrap();
        !LEFT_OUT.iter().chain(&["aclplatform"]).any(|start| name.starts_with(start))
    });
    assert_eq!(compare(&by_name(&table().unwrap(), Library::AclRt), prototypes), 398);
}

#[test]
fn descriptors_and_collectives_have_the_prototypes_of_the_notes() {
    for (file, library, expected) in
        [("aclnn_meta_prototypes.txt", Library::Nnopbase, 43), ("hccl_prototypes.txt", Library::Hccl, 47)]
    {
        let Some(text) = notes(file) else { return };
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
        assert_eq!(compare(&by_name(&table().unwrap(), library), lines), expected);
    }
}

#[test]
fn statuses_have_the_names_of_the_notes() {
    let Some(text) = notes("acl_error_codes.tsv") else { return };
    let table = table().unwrap();
    let mut moved = Vec::new();
    for line in text.lines() {
        let (code, name) = line.split_once('\t').unwrap();
        let code: i32 = code.parse().unwrap();
        if !table.statuses.iter().any(|s| s.code == code && s.name == name) {
            moved.push(name);
        }
    }
    // The headers of 9.1 give it another number than the development tree.
    assert_eq!(moved, ["ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING"]);
}
