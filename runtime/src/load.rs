//! Loading: the file is mapped and verified, the machine checked against it.

use crate::cli::DeviceKind;
use crate::image::Image;
use memmap2::Mmap;
use std::fs::File;
use std::path::Path;
use titan_ir::artifact::{Artifact, KernelTable, Manifest};
use titan_ir::ascend::{DeviceKernels, Program, Soc};
use titan_ir::{Diag, DiagResult, Plan};

/// What a run takes from an artifact.
#[derive(Debug)]
pub struct Loaded {
    /// What it says of itself.
    pub manifest: Manifest,
    /// The plan for this run's ranks.
    pub plan: Plan,
    /// What executes it.
    pub code: Code,
}

/// What executes a plan on a device.
#[derive(Debug)]
pub enum Code {
    /// On the CPU.
    Cpu(CpuCode),
    /// On Ascend devices.
    Ascend(Box<AscendCode>),
}

/// The program of an Ascend artifact.
#[derive(Debug)]
pub struct AscendCode {
    /// What a rank runs.
    pub program: Program,
    /// Its generated kernels.
    pub kernels: DeviceKernels,
    /// The device it is for.
    pub soc: &'static Soc,
}

/// The generated kernels of a CPU artifact.
#[derive(Debug)]
pub struct CpuCode {
    /// What each computes.
    pub kernels: KernelTable,
    /// Their code.
    pub image: Image,
}

/// Maps and verifies an artifact and takes the plan for `world_size` ranks.
///
/// # Errors
/// T0600 when the file cannot be read, T0601 to T0606 as [`Artifact::parse`], T0602 also for another release, T0607 when the machine lacks a feature the code uses.
pub fn load(path: &Path, world_size: u64, device: DeviceKind) -> DiagResult<Loaded> {
    let at = |diag: Diag| {
        let section = diag.path.clone().map(|section| format!(", section {section}")).unwrap_or_default();
        diag.at(format!("{}{section}", path.display()))
    };
    let unreadable = |e: std::io::Error| at(Diag::new("T0600", format!("the artifact cannot be read: {e}")));
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(unreadable(std::io::ErrorKind::IsADirectory.into()));
    }
    if metadata.len() == 0 {
        return Err(at(Diag::new("T0601", "this is not a Titan artifact: the file is empty")));
    }
    // SAFETY: the file is only read; that nobody rewrites it meanwhile is asked of the user, as of every program that maps files.
    let bytes = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
    let artifact = Artifact::parse(&bytes).map_err(at)?;
    let plan = artifact.plan(world_size).map_err(at)?;
    check_version(&artifact.manifest).map_err(at)?;
    let code = match device {
        DeviceKind::Ascend => Code::Ascend(Box::new(load_ascend(&artifact, world_size).map_err(at)?)),
        DeviceKind::Cpu => {
            check_machine(&artifact.manifest).map_err(at)?;
            let kernels = artifact.kernel_table().map_err(at)?;
            let code = &bytes[artifact.image_range().map_err(at)?];
            // SAFETY: all hashes agree and the machine has the features.
            let image = unsafe { Image::map(code, kernels.entries.clone()) }.map_err(unreadable)?;
            Code::Cpu(CpuCode { kernels, image })
        }
    };
    Ok(Loaded { manifest: artifact.manifest.clone(), plan, code })
}

fn load_ascend(artifact: &Artifact<'_>, world_size: u64) -> DiagResult<AscendCode> {
    let name = &artifact.manifest.target.name;
    let Some(soc) = Soc::of_name(name) else {
        let of = if name.starts_with("cpu") { "the CPU" } else { name };
        return Err(Diag::new("T0608", format!("the artifact was built for {of}")).help(
            "run it without `--device ascend`, or rebuild it with `--target Ascend910B3` or what your devices are",
        ));
    };
    Ok(AscendCode { program: artifact.program(world_size)?, kernels: artifact.device_kernels()?, soc })
}

/// Plans and kernels have no promise of their own across releases: both programs are of one.
fn check_version(manifest: &Manifest) -> DiagResult<()> {
    let ours = env!("CARGO_PKG_VERSION");
    if manifest.titan_version == ours {
        return Ok(());
    }
    Err(Diag::new(
        "T0602",
        format!("the artifact was written by titanc {}, this is titan-run {ours}", manifest.titan_version),
    )
    .help("build it again with the titanc of this release"))
}

fn check_machine(manifest: &Manifest) -> DiagResult<()> {
    let target = &manifest.target;
    if !target.name.starts_with("cpu") {
        return Err(Diag::new(
            "T0608",
            format!("the artifact was built for {}, this program runs CPU plans", target.name),
        )
        .help(if Soc::of_name(&target.name).is_some() {
            "run it with `--device ascend`, or rebuild it with `--titan.target cpu`"
        } else {
            "rebuild it with `--titan.target cpu`"
        }));
    }
    let has = cpu_features();
    let missing: Vec<&str> =
        target.features.iter().map(String::as_str).filter(|&f| !has.iter().any(|h| h == f)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Diag::new(
        "T0607",
        format!("the artifact was built for {}, this machine lacks {}", target.name, missing.join(", ")),
    )
    .help("rebuild it for this machine, e.g. with `--titan.target cpu-portable`"))
}

/// The features of this machine's processor, in the names of `/proc/cpuinfo`, which are those of the manifest.
fn cpu_features() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    flags.map(|(_, flags)| flags.split_whitespace().map(str::to_owned).collect()).unwrap_or_default()
}
