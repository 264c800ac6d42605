//! Where the libraries of CANN are looked for.

use crate::library::Kind;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Where to look for libraries, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Folders, each with the reason it is looked into.
    folders: Vec<(PathBuf, String)>,
    /// Folders of user operators, looked into before all others.
    custom: Vec<PathBuf>,
    /// One file that is every library.
    file: Option<PathBuf>,
    /// Whether bare names are given to the dynamic loader at last.
    asks_loader: bool,
}

impl Search {
    /// Only `path`: a folder of libraries, or one file that is all of them.
    pub fn at(path: &Path) -> Self {
        // The dynamic loader would look for a bare name elsewhere.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if path.is_file() {
            Self { file: Some(path), ..Self::default() }
        } else {
            Self { folders: vec![(path, String::new())], ..Self::default() }
        }
    }

    /// Where CANN's `set_env.sh` says: `lib64` of `ASCEND_HOME_PATH` and of `ASCEND_TOOLKIT_HOME`, then where the dynamic
    /// loader looks. Operators of the user's own are in the folders of `ASCEND_CUSTOM_OPP_PATH`.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| env::var_os(name))
    }

    /// As [`Search::from_environment`], with the environment given.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut folders: Vec<(PathBuf, String)> = Vec::new();
        for name in ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"] {
            if let Some(value) = set(name) {
                let folder = Path::new(&value).join("lib64");
                if folders.iter().all(|(known, _)| *known != folder) {
                    folders.push((folder, format!(" ({name})")));
                }
            }
        }
        let custom = set("ASCEND_CUSTOM_OPP_PATH").map_or(Vec::new(), |paths| {
            env::split_paths(&paths).map(|path| path.join("op_api/lib")).collect()
        });
        Self { folders, custom, file: None, asks_loader: true }
    }

    /// Files to try for `kind`, in order. One without a folder is for the dynamic loader to find.
    pub(crate) fn candidates(&self, kind: Kind) -> Vec<PathBuf> {
        if let Some(file) = &self.file {
            return vec![file.clone()];
        }
        let mut files = Vec::new();
        if kind == Kind::Aclnn {
            files.extend(self.custom.iter().map(|folder| folder.join("libcust_opapi.so")));
        }
        for (folder, _) in &self.folders {
            for pattern in kind.names() {
                match pattern.split_once('*') {
                    Some((start, end)) => files.extend(matching(folder, start, end)),
                    None => files.push(folder.join(pattern)),
                }
            }
        }
        if self.asks_loader {
            files.extend(kind.loader_names().iter().map(PathBuf::from));
        }
        files
    }

    /// The places in words, for an error.
    pub(crate) fn describe(&self) -> String {
        let file = self.file.iter().map(|file| file.display().to_string());
        let folders = self.folders.iter().map(|(folder, why)| format!("{}{why}", folder.display()));
        let loader = self.asks_loader.then(|| "the dynamic loader's path (LD_LIBRARY_PATH)".to_owned());
        file.chain(folders).chain(loader).collect::<Vec<_>>().join(", ")
    }
}

/// Files of `folder` whose names begin and end so, in the order of their names.
fn matching(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let fits = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(start) && name.ends_with(end))
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(fits).collect();
    files.sort();
    files
}
