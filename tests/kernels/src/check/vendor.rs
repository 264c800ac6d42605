//! Kernels through the vendor's compiler, up to what its closed back end would get.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use titan_device_compiler::DeviceCompiler;
use titan_ir::ascend::{DeviceKernel, Family, Soc};
use titan_ir::kernel::{KernelSpec, text};

/// Symbols of the device library.
pub(super) struct Library {
    symbols: BTreeSet<String>,
    /// Text of bitcode of a form that LLVM 22 does not read: its names lie in it one after another.
    names: Vec<String>,
}

/// What a function's symbol starts with.
const PREFIX: &str = "_mlir_ciface_";

impl Library {
    /// The library of a device, in the package's `lib`: bitcode, one file per kind of core.
    pub(super) fn of(package: &Path, soc: &Soc) -> Result<Self, String> {
        let suffix = if soc.family == Family::A5 { ".c310.bc" } else { ".bc" };
        let mut library = Self { symbols: BTreeSet::new(), names: Vec::new() };
        for core in ["aiv", "aic", "mix.aiv", "mix.aic"] {
            let path = package.join("lib").join(format!("meta_op.{core}{suffix}"));
            let nm = Command::new("llvm-nm-22").arg("--defined-only").arg(&path).output();
            let nm = nm.map_err(|e| format!("cannot run llvm-nm-22: {e}"))?;
            if !nm.status.success() {
                let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                library.names.push(String::from_utf8_lossy(&bytes).into_owned());
            }
            let text = String::from_utf8_lossy(&nm.stdout).into_owned();
            let names = text.lines().filter_map(|line| line.split(PREFIX).nth(1));
            library.symbols.extend(names.map(|name| name.split('.').next().unwrap_or(name).to_owned()));
        }
        Ok(library)
    }

    fn holds(&self, name: &str) -> bool {
        let symbol = format!("{PREFIX}{name}");
        self.symbols.contains(name) || self.names.iter().any(|names| names.contains(&symbol))
    }
}

/// The compiler for one device.
pub(super) struct Vendor<'a> {
    pub(super) compiler: &'a DeviceCompiler,
    pub(super) library: Library,
    pub(super) soc: &'static Soc,
}

/// Kernels and what the compiler made of each.
pub(super) struct Compiled<'a> {
    pub(super) made: Vec<(&'a DeviceKernel, String)>,
    num_bad: usize,
}

impl Compiled<'_> {
    pub(super) fn is_good(&self) -> bool {
        self.num_bad == 0
    }
}

impl Vendor<'_> {
    /// Compiles kernels, on all processors, and reports.
    pub(super) fn check<'k>(&self, what: &str, kernels: &'k [DeviceKernel]) -> Compiled<'k> {
        let results = self.compile_all(kernels);
        let mut compiled = Compiled { made: Vec::new(), num_bad: 0 };
        let (mut num_missing, mut num_strange) = (0, 0);
        for (kernel, result) in kernels.iter().zip(results) {
            let text = match result {
                Ok(text) => text,
                Err(reason) => {
                    report(kernel, &reason);
                    compiled.num_bad += 1;
                    continue;
                }
            };
            let missing = self.missing(&text);
            let strange = strange_arguments(kernel, &text);
            let problems = missing.iter().map(|s| format!("the device library has no {s}"));
            let problems: Vec<String> = problems.chain(strange.clone()).collect();
            problems.iter().for_each(|problem| report(kernel, problem));
            num_missing += usize::from(!missing.is_empty());
            num_strange += usize::from(strange.is_some());
            compiled.num_bad += usize::from(!problems.is_empty());
            compiled.made.push((kernel, text));
        }
        println!(
            "{what}: {}/{} kernels accepted, {num_missing} with unknown library functions, {num_strange} with other arguments",
            compiled.made.len(),
            kernels.len()
        );
        compiled
    }

    fn compile_all(&self, kernels: &[DeviceKernel]) -> Vec<Result<String, String>> {
        let next = AtomicUsize::new(0);
        let worker = || {
            let mut done = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(kernel) = kernels.get(i) else { return done };
                let text = self.compiler.compile(kernel, self.soc);
                let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                done.push((i, text.map_err(|e| format!("{}: {}", e.message, e.notes.join("; ")))));
            }
        };
        let num = std::thread::available_parallelism().map_or(1, usize::from);
        let mut results: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..num).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().flat_map(|w| w.join().expect("a worker does not panic")).collect()
        });
        results.sort_by_key(|(i, _)| *i);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Functions that the text calls and the library lacks.
    fn missing(&self, text: &str) -> Vec<String> {
        let calls = text.split("func.func private @").skip(1);
        let names = calls.filter_map(|rest| rest.split('(').next());
        names.filter(|name| !self.library.holds(name)).map(str::to_owned).collect()
    }
}

fn report(kernel: &DeviceKernel, problem: &str) {
    let text = text::print(&KernelSpec::Row(kernel.kernel.clone()));
    println!("  {}: {problem}\n    {} rows of {text}", kernel.symbol, kernel.rows);
}

/// How the arguments of the final function differ from those a launch gives.
fn strange_arguments(kernel: &DeviceKernel, text: &str) -> Option<String> {
    let start = format!("func.func @{}(", kernel.symbol);
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&start))?;
    let parameters = line.split(") attributes").next().unwrap_or(line);
    let actual: Vec<&str> =
        parameters.split("memref<").skip(1).filter_map(|rest| rest.split([',', '>']).next()).collect();
    let wanted: Vec<String> = kernel
        .args
        .iter()
        .map(|arg| {
            let dims: String = arg.dims.iter().map(|d| format!("{d}x")).collect();
            dims + arg.element.name()
        })
        .collect();
    (actual != wanted).then(|| format!("takes {actual:?}, not {wanted:?}"))
}
