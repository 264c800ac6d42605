//! Generated kernels: their code, from the artifact or compiled here, and their functions on a device.

use super::cache::Cache;
use super::context::Context;
use super::owned::Owned;
use crate::metrics::{info, warning};
use ascend_rs_sys::types::*;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use titan_device_compiler::DeviceCompiler;
use titan_ir::ascend::{Call, DeviceKernel, DeviceKernels, Program, Soc};
use titan_ir::{Diag, DiagResult};

/// Code of the kernels a program launches, by number; empty for the others.
#[derive(Debug)]
pub(crate) struct Objects(Vec<Vec<u8>>);

impl Objects {
    /// Takes the code the artifact has, and compiles the rest.
    ///
    /// # Errors
    /// T0757 when there is no compiler for it, T0540 to T0546 as [`DeviceCompiler::compile`].
    pub(crate) fn new(
        program: &Program,
        kernels: &DeviceKernels,
        soc: &Soc,
        cache: Option<&Path>,
    ) -> DiagResult<Self> {
        let used: BTreeSet<usize> = program
            .submissions()
            .filter_map(
                |s| if let Call::Kernel { kernel, .. } = s.call { Some(kernel as usize) } else { None },
            )
            .collect();
        let mut objects = vec![Vec::new(); kernels.kernels.len()];
        let (ready, missing): (Vec<usize>, Vec<usize>) =
            used.into_iter().partition(|&k| !kernels.kernels[k].object.is_empty());
        for k in ready {
            objects[k].clone_from(&kernels.kernels[k].object);
        }
        if !missing.is_empty() {
            let compiler = DeviceCompiler::find().unwrap_or_else(|| Err(no_compiler(missing.len())))?;
            let wanted: Vec<&DeviceKernel> = missing.iter().map(|&k| &kernels.kernels[k]).collect();
            let compiled = compile_all(&compiler, &wanted, soc, &Cache::new(cache))?;
            for (k, object) in missing.into_iter().zip(compiled) {
                objects[k] = object;
            }
        }
        Ok(Self(objects))
    }
}

fn no_compiler(num_kernels: usize) -> Diag {
    Diag::new(
        "T0757",
        format!("the artifact has {num_kernels} kernels as source, and this machine has no device compiler"),
    )
    .help(
        "put `bishengir-compile` of the CANN toolkit into PATH or name it in TITAN_BISHENGIR, here or where the artifact is built; \
         or rebuild with `--ascend-kernels aclnn`",
    )
}

/// The next kernel nobody has taken, and its number.
fn take<'k, T>(next: &AtomicUsize, kernels: &'k [T]) -> Option<(usize, &'k T)> {
    let i = next.fetch_add(1, Ordering::Relaxed);
    kernels.get(i).map(|kernel| (i, kernel))
}

/// Compiles what the cache does not have, on all cores.
fn compile_all(
    compiler: &DeviceCompiler,
    kernels: &[&DeviceKernel],
    soc: &Soc,
    cache: &Cache,
) -> DiagResult<Vec<Vec<u8>>> {
    let start = Instant::now();
    let (next, num_compiled) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<DiagResult<Vec<u8>>>>> = kernels.iter().map(|_| Mutex::default()).collect();
    let unkept = Mutex::new(None);
    let work = || {
        while let Some((i, &kernel)) = take(&next, kernels) {
            let key = compiler.key(kernel, soc);
            let object = cache.get(&key).map_or_else(
                || {
                    num_compiled.fetch_add(1, Ordering::Relaxed);
                    compiler.compile(kernel, soc).inspect(|object| {
                        if let Err(diag) = cache.put(&key, object) {
                            *unkept.lock().unwrap_or_else(PoisonError::into_inner) = Some(diag);
                        }
                    })
                },
                Ok,
            );
            *results[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(object);
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (0..cores.min(kernels.len())).for_each(|_| drop(scope.spawn(work)));
    });
    if let Some(diag) = unkept.into_inner().unwrap_or_else(PoisonError::into_inner) {
        warning(&diag.message);
    }
    info(&format!(
        "{} kernels: {} compiled in {:.1} s, the others kept from before",
        kernels.len(),
        num_compiled.into_inner(),
        start.elapsed().as_secs_f64()
    ));
    let results = results.into_iter().map(|r| r.into_inner().unwrap_or_else(PoisonError::into_inner));
    results.map(|result| result.expect("every kernel was taken by a thread")).collect()
}

/// Kernels on a device.
#[derive(Debug)]
pub(super) struct Functions<'a> {
    functions: Vec<aclrtFuncHandle>,
    _binaries: Vec<Owned<'a, aclrtBinHandle>>,
}

impl<'a> Functions<'a> {
    /// Loads code onto the device.
    ///
    /// # Errors
    /// T0742 when the device refuses it.
    pub(super) fn load(
        context: &Rc<Context<'a>>,
        kernels: &DeviceKernels,
        objects: &Objects,
    ) -> Result<Self, Diag> {
        let acl = context.acl();
        let mut loaded = Self { functions: Vec::new(), _binaries: Vec::new() };
        for (kernel, object) in kernels.kernels.iter().zip(&objects.0) {
            let mut function = aclrtFuncHandle::NULL;
            if !object.is_empty() {
                let at = |diag: Diag| diag.note(format!("kernel {}", kernel.symbol));
                let magic = aclrtBinaryLoadOptionValue { magic: ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE };
                let type_ = aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_MAGIC;
                let mut option = aclrtBinaryLoadOption { type_, value: magic };
                let options = aclrtBinaryLoadOptions { options: &mut option, numOpt: 1 };
                let mut binary = aclrtBinHandle::NULL;
                // SAFETY: the code and the options live through the call; the handle is written.
                let result = unsafe {
                    acl.aclrtBinaryLoadFromData(object.as_ptr().cast(), object.len(), &options, &mut binary)
                };
                context.check(result).map_err(at)?;
                // SAFETY: see `Owned`.
                loaded._binaries.push(Owned::new(context, binary, |cann, binary| unsafe {
                    cann.acl.aclrtBinaryUnLoad(binary)
                }));
                let symbol = CString::new(kernel.symbol.as_str()).expect("a symbol has no zeros");
                // SAFETY: the binary is loaded; the handle is written.
                let result = unsafe { acl.aclrtBinaryGetFunction(binary, symbol.as_ptr(), &mut function) };
                context.check(result).map_err(at)?;
            }
            loaded.functions.push(function);
        }
        Ok(loaded)
    }

    /// The function of a kernel.
    pub(super) fn get(&self, kernel: u32) -> aclrtFuncHandle {
        self.functions[kernel as usize]
    }
}
