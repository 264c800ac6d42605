//! Compares the table with the vendor's headers, wherever they are given. Nothing of a header is kept.

use crate::conformance::{self, Check, Kind, PRELUDE};
use crate::model::{Function, Table, TypeKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io};

/// Headers that declare the ACL runtime, descriptors and collectives, relative to an include folder.
const HEADERS: [&str; 11] = [
    "acl/acl.h",
    "acl/acl_rt.h",
    "acl/acl_rt_allocator.h",
    "acl/acl_rt_memory_soma.h",
    "acl/acl_platform.h",
    "acl/error_codes/rt_error_codes.h",
    "aclnn/acl_meta.h",
    "aclnn/aclnn_base.h",
    "hccl/hccl_types.h",
    "hccl/hccl.h",
    "hccl/hccl_comm.h",
];

/// Headers that could be read, as one text.
#[derive(Debug)]
pub struct Headers {
    /// How many files were included.
    pub num_files: usize,
    /// Files that do not compile by themselves.
    pub unreadable: Vec<PathBuf>,
    /// What they say, preprocessed, each handle a type of its own.
    text: String,
    /// All words of that text.
    words: BTreeSet<String>,
    /// Handles that are `void*`.
    handles: BTreeSet<String>,
    /// Parameter names of the functions declared.
    parameters: BTreeMap<String, Vec<String>>,
}

/// How table and headers compare.
#[derive(Debug, Default)]
pub struct Report {
    /// Entries compared, by kind.
    pub checked: BTreeMap<Kind, BTreeSet<String>>,
    /// Enum values and struct members compared, and so on: statements that compiled or did not.
    pub num_statements: usize,
    /// Entries no header declares.
    pub missing: Vec<String>,
    /// Entries that differ, and how.
    pub differences: BTreeMap<String, String>,
}

impl Headers {
    /// Reads the headers of `folders` with the compiler `cxx`, using `scratch` for files of its own.
    ///
    /// # Errors
    /// If the compiler cannot be run, or no header is found.
    pub fn read(table: &Table, folders: &[PathBuf], cxx: &str, scratch: &Path) -> io::Result<Self> {
        let (mut sources, mut unreadable) = (String::new(), Vec::new());
        let mut num_files = 0;
        for path in header_files(folders)? {
            let include = format!("#include \"{}\"\n", path.display());
            if compile(cxx, folders, scratch, &["-fsyntax-only"], &include)?.status.success() {
                sources.push_str(&include);
                num_files += 1;
            } else {
                unreadable.push(path);
            }
        }
        if num_files == 0 {
            return Err(io::Error::other(format!("no readable header of CANN below {folders:?}")));
        }
        let output = compile(cxx, folders, scratch, &["-E", "-P", "-dD"], &sources)?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("headers do not compile together: {message}")));
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        let handles = distinguish_handles(table, &mut text);
        let words = words(&text).map(str::to_owned).collect();
        let names = table.all_functions().into_iter().map(|f| f.name).collect();
        let parameters = parameter_names(&text, &names);
        Ok(Self { num_files, unreadable, text, words, handles, parameters })
    }

    /// Compares `table` with them.
    ///
    /// # Errors
    /// If the compiler cannot be run, or finds fault with something that is not an entry.
    pub fn compare(&self, table: &Table, cxx: &str, scratch: &Path) -> io::Result<Report> {
        let mut report = Report::default();
        let functions = table.all_functions();
        let declared = self.declared(table, &functions, &mut report);
        let checks = conformance::checks(table, &declared);
        report.num_statements = checks.len();
        for Check { entry, kind, .. } in &checks {
            report.checked.entry(*kind).or_default().insert(entry.clone());
        }
        let statements: Vec<&str> = checks.iter().map(|check| check.statement.as_str()).collect();
        fs::write(scratch.join("headers.hpp"), &self.text)?;
        let source = format!("#include \"headers.hpp\"\n{PRELUDE}\n{}\n", statements.join("\n"));
        let output = compile(cxx, &[scratch.to_owned()], scratch, &["-fsyntax-only"], &source)?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        for (line, message) in errors(&stderr) {
            // Two lines come before the statements.
            let check = line.checked_sub(3).and_then(|index| checks.get(index));
            let check = check.ok_or_else(|| io::Error::other(format!("line {line}: {message}")))?;
            report.differences.entry(check.entry.clone()).or_insert(message);
        }
        if !output.status.success() && report.differences.is_empty() {
            return Err(io::Error::other(stderr));
        }
        for function in functions.iter().filter(|f| declared.contains(&f.name)) {
            if let Some(message) = self.order_difference(function) {
                report.differences.entry(function.name.clone()).or_insert(message);
            }
        }
        Ok(report)
    }

    /// Names of entries that the headers have; the others are noted as missing.
    fn declared(&self, table: &Table, functions: &[Function], report: &mut Report) -> BTreeSet<String> {
        let mut declared = BTreeSet::new();
        let mut note = |name: &str, is_declared: bool| {
            if is_declared {
                declared.insert(name.to_owned());
            } else {
                report.missing.push(name.to_owned());
            }
        };
        for ty in &table.types {
            note(&ty.name, self.words.contains(&ty.name));
            if let TypeKind::Enum(values) = &ty.kind {
                values.iter().for_each(|(name, _)| note(name, self.words.contains(name)));
            }
        }
        let constants = table.constants.iter().map(|c| &c.name);
        for name in constants.chain(table.statuses.iter().map(|s| &s.name)) {
            note(name, self.words.contains(name));
        }
        for function in functions {
            note(&function.name, self.parameters.contains_key(&function.name));
        }
        for ty in table.types.iter().filter(|t| matches!(t.kind, TypeKind::Handle)) {
            if self.words.contains(&ty.name) && !self.handles.contains(&ty.name) {
                report.differences.insert(ty.name.clone(), "is not void*".to_owned());
            }
        }
        declared
    }

    /// Names tell the order of parameters of one type, which the compiler cannot.
    fn order_difference(&self, function: &Function) -> Option<String> {
        let theirs = self.parameters.get(&function.name)?;
        let ours: Vec<&str> = function.parameters.iter().map(|p| p.name.as_str()).collect();
        let agree = theirs.len() == ours.len()
            && theirs.iter().zip(&ours).all(|(theirs, ours)| theirs.is_empty() || theirs == ours);
        (!agree)
            .then(|| format!("parameters are ({}), the table has ({})", theirs.join(", "), ours.join(", ")))
    }
}

fn header_files(folders: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in folders {
        files.extend(HEADERS.iter().map(|name| folder.join(name)).filter(|path| path.is_file()));
    }
    let mut operators = Vec::new();
    let mut stack = folders.to_vec();
    while let Some(folder) = stack.pop() {
        for path in fs::read_dir(&folder)?.map(|entry| entry.map(|e| e.path())) {
            let path = path?;
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                stack.push(path);
            } else if name.starts_with("aclnn_") && name.ends_with(".h") && name != "aclnn_base.h" {
                operators.push(path);
            }
        }
    }
    operators.sort();
    operators.dedup();
    files.extend(operators);
    files.iter().map(|path| path.canonicalize()).collect()
}

fn compile(
    cxx: &str,
    folders: &[PathBuf],
    scratch: &Path,
    flags: &[&str],
    source: &str,
) -> io::Result<Output> {
    let file = scratch.join("check.cpp");
    fs::write(&file, source)?;
    let mut command = Command::new(cxx);
    command.args(["-x", "c++", "-std=c++17", "-w", "-fmax-errors=0", "-fno-diagnostics-show-caret"]);
    for folder in folders {
        command.arg("-I").arg(folder);
    }
    command.args(flags).arg(&file).env("LC_ALL", "C").output()
}

/// `check.cpp:LINE:COLUMN: error: MESSAGE`, each line's first.
fn errors(stderr: &str) -> Vec<(usize, String)> {
    let mut errors = Vec::new();
    for line in stderr.lines() {
        let Some((place, message)) = line.split_once(": error: ") else { continue };
        let mut parts = place.rsplit(':');
        let number = parts.nth(1).and_then(|text| text.parse().ok());
        let is_ours = parts.next().is_some_and(|file| file.ends_with("check.cpp"));
        errors.push((number.filter(|_| is_ours).unwrap_or(0), message.to_owned()));
    }
    errors
}

/// Makes every handle that is `void*` a pointer to a struct of its own, so that one passed for another is an error.
fn distinguish_handles(table: &Table, text: &mut String) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for ty in table.types.iter().filter(|t| matches!(t.kind, TypeKind::Handle)) {
        for written in [format!("typedef void *{};", ty.name), format!("typedef void* {};", ty.name)] {
            if text.contains(&written) {
                *text = text.replace(&written, &format!("typedef struct {0}_handle *{0};", ty.name));
                found.insert(ty.name.clone());
            }
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// Names of the parameters of every one of `functions` that `text` declares; empty where it gives none.
fn parameter_names(text: &str, functions: &BTreeSet<String>) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        let before = rest[..open].trim_end();
        let name = words(before).last().unwrap_or_default();
        rest = &rest[open + 1..];
        if before.ends_with(name) && functions.contains(name) && !found.contains_key(name) {
            let inside = &rest[..closing(rest)];
            let parameters = inside.split(',').map(str::trim).filter(|p| !p.is_empty() && *p != "void");
            found.insert(name.to_owned(), parameters.map(parameter_name).collect());
        }
    }
    found
}

/// Where the parenthesis opened just before `text` closes.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    for (index, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    text.len()
}

fn parameter_name(declaration: &str) -> String {
    let declaration = declaration.split('=').next().unwrap_or_default().trim();
    let declaration = declaration.split('[').next().unwrap_or_default().trim_end();
    let num_words = words(declaration).filter(|w| *w != "const" && *w != "struct" && *w != "union").count();
    let last = words(declaration).last().unwrap_or_default();
    if num_words >= 2 && declaration.ends_with(last) { last.to_owned() } else { String::new() }
}
