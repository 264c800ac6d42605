//! `check-ascend-kernels PACKAGE [--simulator FOLDER]`: gives every generated kernel of the examples to the vendor's compiler, of which PACKAGE is
//! the installed Python package, and looks at what comes out: that nothing is refused, that launches pass the arguments it takes, that the
//! device library has what it calls, and, by simulation, that it computes what it should.

mod simulate;
mod vendor;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use titan_device_compiler::DeviceCompiler;
use titan_ir::ascend::{DeviceKernel, Family, Soc};
use titan_kernel_tests::{plans, random};
use titanc::codegen::ascend::kernel::{emit, split};
use vendor::{Library, Vendor};

/// Configurations and the numbers of ranks they are planned for.
const EXAMPLES: &[(&str, &[u64])] =
    &[("examples/llama3_debug.toml", &[1, 2, 4, 8]), ("examples/llama3_8b.toml", &[8, 64])];

/// A device of each generation.
const DEVICES: &[&str] = &["Ascend910B3", "Ascend910_9391", "Ascend950PR_9599"];

/// Random kernels that go the whole way.
const NUM_RANDOM: u64 = 40;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool, String> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: check-ascend-kernels PACKAGE [--simulator FOLDER]";
    let package = PathBuf::from(args.next().ok_or(usage)?);
    let simulator = match args.next().as_deref() {
        None => None,
        Some("--simulator") => Some(PathBuf::from(args.next().ok_or(usage)?)),
        Some(_) => return Err(usage.to_owned()),
    };
    let compiler = DeviceCompiler::at(&package.join("bin")).map_err(|e| e.message)?;
    println!("{}", compiler.version());
    let work = tempfile::tempdir().map_err(|e| e.to_string())?;
    let mut is_good = true;
    for name in DEVICES {
        let soc = Soc::of_name(name).ok_or("a device that is not known")?;
        let vendor = Vendor { compiler: &compiler, library: Library::of(&package, soc)?, soc };
        let kernels = generated(soc)?;
        is_good &= vendor.check(name, &kernels).is_good();
        is_good &= check_small(&vendor, &kernels, simulator.as_deref(), work.path())?;
    }
    Ok(is_good)
}

/// The kernels of all examples, each once.
fn generated(soc: &'static Soc) -> Result<Vec<DeviceKernel>, String> {
    let mut kernels: Vec<DeviceKernel> = Vec::new();
    for (toml, ranks) in EXAMPLES {
        let lowered = plans::kernels(Path::new(toml), soc, ranks)?;
        println!(
            "{}: {toml}: {} kernels generated, {} left to operators",
            soc.name,
            lowered.kernels.kernels.len(),
            lowered.unfit.len()
        );
        for unfit in &lowered.unfit {
            println!("  {} rows: {}", unfit.rows, unfit.reason);
        }
        for kernel in lowered.kernels.kernels {
            if !kernels.iter().any(|k| k.symbol == kernel.symbol) {
                kernels.push(kernel);
            }
        }
    }
    Ok(kernels)
}

/// The same kernels on small domains and random ones, simulated where there is a simulator for the device.
fn check_small(
    vendor: &Vendor<'_>,
    kernels: &[DeviceKernel],
    simulator: Option<&Path>,
    work: &Path,
) -> Result<bool, String> {
    let random = (0..NUM_RANDOM).flat_map(|seed| {
        let (kernel, rows) = random::generate(seed);
        split(&kernel).into_iter().map(move |piece| (piece.kernel, rows))
    });
    let domains = plans::small(kernels).into_iter().chain(random);
    let small: Vec<DeviceKernel> =
        domains.filter_map(|(kernel, rows)| emit(&kernel, rows, vendor.soc).ok()).collect();
    let compiled = vendor.check(&format!("{} small and random", vendor.soc.name), &small);
    let is_good = compiled.is_good();
    match (vendor.soc.family, simulator) {
        (Family::A2, Some(folder)) => Ok(simulate::check(folder, work, vendor.soc, &compiled)? && is_good),
        (Family::A2, None) => {
            println!("{}: simulation skipped", vendor.soc.name);
            Ok(is_good)
        }
        // What differs from A2 is the number of blocks; of the registers of A5 there is no simulator.
        (Family::A3 | Family::A5, _) => Ok(is_good),
    }
}
