//! Rules of the code base that no compiler checks.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use titan_passes::registry;

/// Lines a source file may have.
const MAX_LINES: usize = 600;

/// Files that may be longer, and how long: tables that are clearer in one place.
const LONGER: &[(&str, usize)] = &[("ir/src/codes.rs", 1500)];

/// Which workspace crates each may depend on.
const EDGES: &[(&str, &[&str])] = &[
    ("ascend-rs-sys", &[]),
    ("ascend-rs-table", &[]),
    ("host-cann", &["ascend-rs-sys"]),
    ("host-bishengir", &["titan-ir"]),
    ("titan-device-compiler", &["titan-ir"]),
    ("titan-ir", &[]),
    ("titan-passes", &["titan-ir"]),
    ("titanc", &["titan-device-compiler", "titan-ir", "titan-passes"]),
    ("titan-run", &["ascend-rs-sys", "titan-device-compiler", "titan-ir"]),
];

/// Crates that must not be linked into `titan-run`.
const NOT_IN_RUNTIME: &[&str] =
    &["melior", "mlir-sys", "inkwell", "llvm-sys", "egg", "petgraph", "titan-passes"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Names of the workspace's packages by id.
fn package_names(metadata: &Value) -> BTreeMap<String, String> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    metadata["packages"].as_array().unwrap().iter().map(|p| (text(&p["id"]), text(&p["name"]))).collect()
}

/// Normal dependencies of every package, by id.
fn normal_dependencies(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let is_normal = |dep: &Value| dep["dep_kinds"].as_array().unwrap().iter().any(|k| k["kind"].is_null());
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let of = |node: &Value| {
        let deps = node["deps"].as_array().unwrap().iter().filter(|d| is_normal(d));
        deps.map(|d| d["pkg"].as_str().unwrap().to_owned()).collect()
    };
    nodes.iter().map(|node| (node["id"].as_str().unwrap().to_owned(), of(node))).collect()
}

#[test]
fn knowledge_flows_one_way() {
    let metadata = metadata();
    let (names, dependencies) = (package_names(&metadata), normal_dependencies(&metadata));
    let ours: BTreeSet<&str> = EDGES.iter().map(|(name, _)| *name).collect();
    for (name, allowed) in EDGES {
        let id = names.iter().find(|(_, n)| n == name).unwrap_or_else(|| panic!("no package {name}")).0;
        let used: Vec<&str> =
            dependencies[id].iter().map(|d| names[d].as_str()).filter(|n| ours.contains(n)).collect();
        for dependency in used {
            assert!(allowed.contains(&dependency), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn the_runtime_links_no_compiler() {
    let metadata = metadata();
    let (names, dependencies) = (package_names(&metadata), normal_dependencies(&metadata));
    let start = names.iter().find(|(_, n)| *n == "titan-run").unwrap().0;
    let mut seen = BTreeSet::from([start.clone()]);
    let mut stack = vec![start.clone()];
    while let Some(id) = stack.pop() {
        assert!(!NOT_IN_RUNTIME.contains(&names[&id].as_str()), "titan-run links {}", names[&id]);
        stack.extend(dependencies[&id].iter().filter(|d| seen.insert((*d).clone())).cloned());
    }
    assert!(seen.len() > 5, "the walk found no dependencies");
}

#[test]
fn every_pass_has_filetests() {
    // A plan is no module: `tests/plan.rs` judges what emit-plan makes.
    for pass in registry::pass_names().filter(|&name| name != "emit-plan") {
        let folder = root().join("tests/filetests").join(pass);
        let num_files = fs::read_dir(&folder).map_or(0, |entries| entries.flatten().count());
        assert!(num_files > 0, "{} has no test", folder.display());
    }
    for folder in fs::read_dir(root().join("tests/filetests")).unwrap().flatten() {
        let name = folder.file_name().into_string().unwrap();
        assert!(
            registry::step_names().any(|n| n == name),
            "filetests/{name} is named after no pass or check"
        );
    }
}

/// Rust sources of the workspace, relative to its root, with their text.
fn sources() -> Vec<(String, String)> {
    let mut folders: Vec<PathBuf> = ["ir", "passes", "compiler", "runtime", "tests", "examples", "benches"]
        .iter()
        .map(|f| root().join(f))
        .filter(|f| f.is_dir())
        .collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
            if path.is_dir() && path.file_name().is_none_or(|n| n != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    assert!(files.len() > 50, "the walk found {} files", files.len());
    files
}

#[test]
fn files_are_short() {
    let sources = sources();
    for (name, text) in &sources {
        let max = LONGER.iter().find(|(n, _)| n == name).map_or(MAX_LINES, |(_, max)| *max);
        let num_lines = text.lines().count();
        assert!(num_lines <= max, "{name} has {num_lines} lines, more than {max}: split it by concept");
    }
    for (name, _) in LONGER {
        let found = sources.iter().find(|(n, _)| n == name);
        assert!(found.is_some_and(|(_, t)| t.lines().count() > MAX_LINES), "{name} needs no exception");
    }
}

#[test]
fn nothing_is_left_undone() {
    // Written in two parts, so that this file does not find itself.
    let words = [("TO", "DO"), ("FIX", "ME"), ("XX", "X:"), ("#[ig", "nore"), ("#[al", "low("), ("HA", "CK")];
    let words = words.map(|(a, b)| format!("{a}{b}"));
    for (name, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            let found = words.iter().find(|w| line.contains(w.as_str()));
            assert!(found.is_none(), "{name}:{}: {}", number + 1, found.unwrap());
        }
    }
}

#[test]
fn every_file_says_what_it_is() {
    for (name, text) in sources() {
        assert!(
            text.starts_with("//!") || text.starts_with("#!"),
            "{name} does not begin with module documentation"
        );
    }
}
