//! Kernels loaded from binaries: what the device compiler for the host makes.

mod container;
mod launch;

pub(crate) use launch::{Block, device_pointers, launch, resolve};

use crate::fault::Fault;
use crate::soc;
use crate::state::Runtime;
use ascend_rs_sys::types::*;
use container::Container;
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::sync::Arc;

/// What a kernel does with an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) size_bytes: usize,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// How a kernel is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) symbol: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) num_blocks: u32,
}

/// A library in memory with one kernel.
#[derive(Debug)]
pub(crate) struct Code {
    library: *mut c_void,
    entry: unsafe extern "C" fn(*mut *mut c_void),
    signature: Signature,
    /// Kept open: the loader takes two files with one path for the same, and this one's path is its descriptor.
    _file: File,
}

// SAFETY: the handle is only closed, once, by whoever drops it; the entry may be called on any thread.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the library was opened by us, and nobody holds this code any more.
        unsafe { libc::dlclose(self.library) };
    }
}

/// A loaded binary.
#[derive(Debug)]
pub(crate) struct Binary {
    context: usize,
    code: Arc<Code>,
    functions: Vec<usize>,
}

/// A kernel of a binary.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) binary: usize,
    pub(crate) code: Arc<Code>,
}

/// An argument list that is being made.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) function: usize,
    pub(crate) bytes: Vec<u8>,
    /// Offset and size of every argument.
    pub(crate) places: Vec<(usize, usize)>,
    pub(crate) is_final: bool,
}

impl Runtime {
    /// Loads a binary for this thread's context.
    ///
    /// # Errors
    /// 107000: it is no binary of ours. 507008: it is for another device.
    pub(crate) fn load_binary(&mut self, data: &[u8]) -> Result<aclrtBinHandle, Fault> {
        let context = self.context()?.0;
        let container = Container::parse(data).map_err(Fault::parameter)?;
        let name = soc::current().name;
        if container.target != name {
            let message = format!("the kernel binary is for {}, this is {name}", container.target);
            return Err(Fault::new(ACL_ERROR_RT_SOC_VERSION, message));
        }
        let code = Arc::new(open(container)?);
        Ok(aclrtBinHandle(self.binaries.insert(Binary { context, code, functions: Vec::new() })))
    }

    /// Unloads a binary. Launches of it that have not run will fail.
    pub(crate) fn unload_binary(&mut self, handle: aclrtBinHandle) -> Result<(), Fault> {
        let context = self.context()?.0;
        if self.binaries.get(handle.0)?.context != context {
            let message = "the kernel binary was loaded in another context";
            return Err(Fault::new(ACL_ERROR_RT_STREAM_CONTEXT, message));
        }
        for function in self.binaries.remove(handle.0)?.functions {
            let _ = self.functions.remove(function as *const c_void);
        }
        Ok(())
    }

    /// The kernel called `name`.
    ///
    /// # Errors
    /// 107042: the binary has another.
    pub(crate) fn find_function(
        &mut self,
        binary: aclrtBinHandle,
        name: &CStr,
    ) -> Result<aclrtFuncHandle, Fault> {
        let found = self.binaries.get(binary.0)?;
        let symbol = &found.code.signature.symbol;
        if symbol.as_bytes() != name.to_bytes() {
            let message = format!("the binary has the kernel `{symbol}`, not `{}`", name.to_string_lossy());
            return Err(Fault::new(ACL_ERROR_RT_SYMBOL_NOT_FOUND, message));
        }
        let code = Arc::clone(&found.code);
        let handle = self.functions.insert(Function { binary: binary.0 as usize, code });
        self.binaries.get_mut(binary.0)?.functions.push(handle as usize);
        Ok(aclrtFuncHandle(handle))
    }
}

/// Makes a library of the code of a container.
fn open(container: Container<'_>) -> Result<Code, Fault> {
    let fail = |what: &str| Fault::parameter(format!("the kernel binary does not load: {what}"));
    // SAFETY: the name is a text that ends with zero.
    let fd = unsafe { libc::memfd_create(c"kernel".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(fail(&io::Error::last_os_error().to_string()));
    }
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(container.elf).map_err(|error| fail(&error.to_string()))?;
    let path = CString::new(format!("/proc/self/fd/{fd}")).map_err(|_| fail("its path"))?;
    // SAFETY: loading a binary runs what is in it, which is what the caller asked for.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        // SAFETY: a call has just failed on this thread; its text ends with zero and lives until the next.
        return Err(fail(&unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy()));
    }
    let signature = container.signature;
    let symbol = CString::new(signature.symbol.as_str()).map_err(|_| fail("its symbol"))?;
    // SAFETY: the library is open.
    let entry = unsafe { libc::dlsym(library, symbol.as_ptr()) };
    if entry.is_null() {
        // SAFETY: it was just opened.
        unsafe { libc::dlclose(library) };
        return Err(fail(&format!("it has no symbol `{}`", signature.symbol)));
    }
    // SAFETY: the container's format says that its symbol has this type.
    let entry = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut *mut c_void)>(entry) };
    Ok(Code { library, entry, signature, _file: file })
}
