//! Loading: the file is mapped and verified, the machine checked against it.

use crate::image::Image;
use memmap2::Mmap;
use std::fs::File;
use std::path::Path;
use titan_ir::artifact::{Artifact, KernelTable, Manifest};
use titan_ir::{Diag, DiagResult, Plan};

/// What a run takes from an artifact.
#[derive(Debug)]
pub struct Loaded {
    /// What it says of itself.
    pub manifest: Manifest,
    /// The plan for this run's ranks.
    pub plan: Plan,
    /// What each generated kernel computes.
    pub kernels: KernelTable,
    /// Their code.
    pub image: Image,
}

/// Maps and verifies an artifact and takes the plan for `world_size` ranks.
///
/// # Errors
/// T0600 when the file cannot be read, T0601 to T0606 as [`Artifact::parse`], T0607 when the machine lacks a feature the code uses.
pub fn load(path: &Path, world_size: u64) -> DiagResult<Loaded> {
    let at = |diag: Diag| {
        let section = diag.path.clone().map(|section| format!(", section {section}")).unwrap_or_default();
        diag.at(format!("{}{section}", path.display()))
    };
    let unreadable = |e: std::io::Error| at(Diag::new("T0600", format!("the artifact cannot be read: {e}")));
    let file = File::open(path).map_err(unreadable)?;
    if file.metadata().map_err(unreadable)?.len() == 0 {
        return Err(at(Diag::new("T0601", "this is not a Titan artifact: the file is empty")));
    }
    // SAFETY: the file is only read; that nobody rewrites it meanwhile is asked of the user, as of every program that maps files.
    let bytes = unsafe { Mmap::map(&file) }.map_err(unreadable)?;
    let artifact = Artifact::parse(&bytes).map_err(at)?;
    let plan = artifact.plan(world_size).map_err(at)?;
    let kernels = artifact.kernel_table().map_err(at)?;
    check_machine(&artifact.manifest).map_err(at)?;
    // SAFETY: all hashes agree and the machine has the features.
    let image = unsafe { Image::map(&file, artifact.image_range().map_err(at)?, kernels.entries.clone()) }
        .map_err(unreadable)?;
    Ok(Loaded { manifest: artifact.manifest.clone(), plan, kernels, image })
}

fn check_machine(manifest: &Manifest) -> DiagResult<()> {
    let target = &manifest.target;
    if !target.name.starts_with("cpu") {
        return Err(Diag::new(
            "T0608",
            format!("the artifact was built for {}, this program runs CPU plans", target.name),
        )
        .help("rebuild it with `--titan.target cpu`"));
    }
    let missing: Vec<&str> = target.features.iter().map(String::as_str).filter(|f| !has_feature(f)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Diag::new(
        "T0607",
        format!("the artifact was built for {}, this machine lacks {}", target.name, missing.join(", ")),
    )
    .help("rebuild it for this machine, e.g. with `--titan.target cpu-portable`"))
}

#[cfg(target_arch = "x86_64")]
fn has_feature(name: &str) -> bool {
    match name {
        "sse4_2" => is_x86_feature_detected!("sse4.2"),
        "avx" => is_x86_feature_detected!("avx"),
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        "bmi1" => is_x86_feature_detected!("bmi1"),
        "bmi2" => is_x86_feature_detected!("bmi2"),
        "f16c" => is_x86_feature_detected!("f16c"),
        "avx512f" => is_x86_feature_detected!("avx512f"),
        "avx512bw" => is_x86_feature_detected!("avx512bw"),
        "avx512cd" => is_x86_feature_detected!("avx512cd"),
        "avx512dq" => is_x86_feature_detected!("avx512dq"),
        "avx512vl" => is_x86_feature_detected!("avx512vl"),
        "avx512_bf16" => is_x86_feature_detected!("avx512bf16"),
        _ => false,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn has_feature(_: &str) -> bool {
    false
}
