//! An opened library: its files and the functions found in them.

use crate::error::Error;
use crate::search::Search;
use crate::types::{HcclResult, status_name};
use libloading::os::unix::{Library as File, RTLD_LAZY, RTLD_LOCAL};
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The type of `aclGetRecentErrMsg`.
pub(crate) type Messages = unsafe extern "C" fn() -> *const c_char;

/// Which versions of CANN have a function, as far as headers were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Since {
    /// 8.5.
    V8_5,
    /// 9.1, and perhaps older ones.
    V9_1,
    /// Newer than 9.1.
    Next,
    /// Not known.
    Unknown,
}

/// A function of the table.
#[derive(Debug)]
pub(crate) struct Symbol {
    pub(crate) name: &'static str,
    pub(crate) since: Since,
}

/// Which library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The ACL runtime.
    Acl,
    /// Descriptors and executors.
    Nnopbase,
    /// Operators.
    Aclnn,
    /// Collectives.
    Hccl,
}

impl Kind {
    /// File names in a folder, newest first; `*` stands for anything.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Acl => &["libacl_rt.so", "libascendcl.so"],
            Self::Nnopbase => &["libnnopbase.so"],
            Self::Aclnn => &["libopapi_*.so", "libopapi.so", "libaclnn_*.so"],
            Self::Hccl => &["libhccl.so", "libhcomm.so"],
        }
    }

    /// File names to ask the dynamic loader for.
    pub(crate) fn loader_names(self) -> &'static [&'static str] {
        match self {
            Self::Aclnn => &[
                "libopapi_math.so",
                "libopapi_nn.so",
                "libopapi_transformer.so",
                "libopapi_cv.so",
                "libopapi.so",
                "libaclnn_ops_train.so",
                "libaclnn_ops_infer.so",
                "libaclnn_math.so",
            ],
            _ => self.names(),
        }
    }

    /// Whether functions are spread over several files. Otherwise the names are of one library.
    fn is_spread(self) -> bool {
        matches!(self, Self::Aclnn | Self::Hccl)
    }
}

/// An opened library.
#[derive(Debug)]
pub(crate) struct Library {
    kind: Kind,
    paths: Vec<PathBuf>,
    // Never closed: CANN's threads outlive whoever opened it.
    files: Vec<ManuallyDrop<File>>,
    symbols: &'static [Symbol],
    /// Addresses already found, null before.
    addresses: Box<[AtomicPtr<c_void>]>,
    messages: Option<Messages>,
}

impl Library {
    /// Opens what `search` finds. Without `messages` the library is asked for its own.
    pub(crate) fn open(
        kind: Kind,
        search: &Search,
        symbols: &'static [Symbol],
        messages: Option<Messages>,
    ) -> Result<Self, Error> {
        let (mut paths, mut files, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for path in search.candidates(kind) {
            if paths.contains(&path) {
                continue;
            }
            // SAFETY: opening a library of CANN runs its initialisers, which is what loading CANN means.
            match unsafe { File::open(Some(&path), RTLD_LAZY | RTLD_LOCAL) } {
                Ok(file) => {
                    files.push(ManuallyDrop::new(file));
                    paths.push(path);
                    if !kind.is_spread() {
                        break;
                    }
                }
                Err(fault) if path.is_file() => {
                    faults.push(format!("{} does not load: {fault}", path.display()))
                }
                Err(_) => {}
            }
        }
        if files.is_empty() {
            return Err(Error::LibraryNotFound {
                names: kind.names().join(", "),
                places: search.describe(),
                faults,
            });
        }
        let addresses = symbols.iter().map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        let mut library = Self { kind, paths, files, symbols, addresses, messages };
        if library.messages.is_none() {
            library.messages = library.find("aclGetRecentErrMsg").map(|address| {
                // SAFETY: a symbol of this name has this type, by the table.
                unsafe { std::mem::transmute::<*mut c_void, Messages>(address) }
            });
        }
        Ok(library)
    }

    /// The text of the last error, if the library has a function for it.
    pub(crate) fn messages(&self) -> Option<Messages> {
        self.messages
    }

    /// The opened files.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Whether `name` is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Fails for the first of `names` that is missing.
    pub(crate) fn require(&self, names: &[&'static str]) -> Result<(), Error> {
        names.iter().filter(|name| !self.has(name)).try_for_each(|name| {
            let since = self.symbols.iter().find(|s| s.name == *name).map_or(Since::Unknown, |s| s.since);
            Err(self.missing(name, since))
        })
    }

    /// The function at `index` of the table.
    ///
    /// # Safety
    /// `F` is the type of that function.
    pub(crate) unsafe fn function<F: Copy>(&self, index: usize) -> Result<F, Error> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a pointer to a function") };
        let address = self.address(index)?;
        // SAFETY: the sizes are equal, and the caller vouches for the type.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    /// Where the function at `index` of the table is.
    pub(crate) fn address(&self, index: usize) -> Result<*mut c_void, Error> {
        let mut address = self.addresses[index].load(Ordering::Relaxed);
        if address.is_null() {
            let symbol = &self.symbols[index];
            address = self.find(symbol.name).ok_or_else(|| self.missing(symbol.name, symbol.since))?;
            self.addresses[index].store(address, Ordering::Relaxed);
        }
        Ok(address)
    }

    /// Makes an error of a status that is not 0. The message is this thread's last, so it is read here and now.
    pub(crate) fn check(&self, index: usize, status: i32) -> Result<(), Error> {
        if status == 0 {
            return Ok(());
        }
        let name = if self.kind == Kind::Hccl { HcclResult(status).name() } else { status_name(status) };
        let message = self.messages.and_then(|messages| {
            // SAFETY: the function takes nothing and returns null or a text that lives until this thread's next call.
            unsafe {
                let text = messages();
                (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().trim().to_owned())
            }
        });
        let message = message.filter(|text| !text.is_empty());
        Err(Error::Call { function: self.symbols[index].name, status, name, message })
    }

    fn missing(&self, symbol: &'static str, since: Since) -> Error {
        let files = self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        Error::SymbolMissing { symbol, files, since }
    }

    fn find(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).ok()?;
        self.files.iter().find_map(|file| {
            // SAFETY: only the address is taken; it is given a type where it is called.
            unsafe { file.get::<*mut c_void>(name.as_bytes_with_nul()) }.ok().map(|symbol| *symbol)
        })
    }
}
