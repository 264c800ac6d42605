//! The artifact of a build: its sections, and how the file gets to its place.

use super::planner::{Kernels, Planned};
use super::resolve::ResolvedModel;
use crate::codegen::cpu;
use crate::config::Config;
use crate::fingerprint::{Fingerprint, TITAN_VERSION};
use crate::target::Target;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use titan_ir::artifact::{
    self, DEVICE_KERNELS, DataInfo, IR_TEXT, KERNEL_IMAGE, KERNEL_TABLE, KernelTable, MANIFEST, Manifest,
    ModelInfo, RunInfo,
};
use titan_ir::{Diag, DiagResult, ice, text};

/// Seed of the initial weights when the configuration names none.
const DEFAULT_SEED: u64 = 42;

/// What an artifact is made from.
#[derive(Debug)]
pub struct Built<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Name of its file.
    pub config_file: Option<String>,
    /// The model.
    pub model: &'a ResolvedModel<'a>,
    /// The device.
    pub target: Target,
    /// Plans by ascending number of ranks, at least one.
    pub plans: &'a [Planned],
    /// Kernels of the plans, and of the device's programs.
    pub kernels: Kernels,
    /// What compiled the device's kernels, if it was at hand.
    pub device_compiler: Option<String>,
    /// Whether the IR text is kept.
    pub keep_ir: bool,
}

/// Compiles the kernels and encodes everything. Equal inputs give equal bytes.
pub fn encode(built: Built<'_>, manifest: &Manifest) -> Vec<u8> {
    let rows = built.kernels.kernels;
    let image = match built.target {
        Target::Cpu(cpu) => cpu::compile(&rows, cpu.level),
        Target::Ascend(_) => cpu::Image { bytes: Vec::new(), entries: Vec::new() },
    };
    let manifest = serde_json::to_vec(manifest).unwrap_or_else(|e| ice!("the manifest is not JSON: {e}"));
    let mut sections = vec![(MANIFEST.to_owned(), manifest)];
    for planned in built.plans {
        let world_size = planned.info.world_size;
        sections.push((artifact::plan_section(world_size), binary(&planned.plan)));
        if let Some(program) = &planned.program {
            sections.push((artifact::program_section(world_size), binary(program)));
        }
    }
    if built.target.soc().is_some() {
        sections.push((DEVICE_KERNELS.to_owned(), binary(&built.kernels.lowered.kernels)));
    }
    let table = KernelTable { kernels: rows, entries: image.entries };
    sections.push((KERNEL_TABLE.to_owned(), binary(&table)));
    sections.push((KERNEL_IMAGE.to_owned(), image.bytes));
    if built.keep_ir {
        sections.push((IR_TEXT.to_owned(), ir_text(built.plans).into_bytes()));
    }
    artifact::encode(&sections)
}

fn binary(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).unwrap_or_else(|e| ice!("a section does not encode: {e}"))
}

/// The first and the last module of every plan.
fn ir_text(plans: &[Planned]) -> String {
    let mut text = String::new();
    for planned in plans {
        let ranks = planned.info.world_size;
        let last = text::print(&planned.module);
        let _ = write!(
            text,
            "// ranks {ranks}: traced\n{}\n// ranks {ranks}: kernels\n{last}\n",
            planned.traced_ir
        );
    }
    text
}

/// What the artifact says of itself.
///
/// # Errors
/// T0440 when the model cannot say what it is.
pub fn manifest(built: &Built<'_>) -> DiagResult<Manifest> {
    let Some(first) = built.plans.first() else { ice!("an artifact without a plan") };
    let config = resolved_config(built.config);
    let mut fingerprint = Fingerprint::new(built.target);
    fingerprint.add_json("config", &config);
    fingerprint.add_json("model_args", &built.model.args);
    fingerprint.add("kernels", &binary(&built.kernels.kernels));
    if let Some(soc) = built.target.soc() {
        let style = built.config.titan.ascend_kernels.word();
        fingerprint.add("ascend", format!("{soc:?} {style} {:?}", built.device_compiler).as_bytes());
        fingerprint.add("ascend.kernels", &binary(&built.kernels.lowered.kernels));
    }
    for planned in built.plans {
        fingerprint.add(format!("ir.{}", planned.info.world_size), planned.traced_ir.as_bytes());
    }
    Ok(Manifest {
        titan_version: TITAN_VERSION.to_owned(),
        target: built.target.info(),
        model: model_info(built, first.num_params)?,
        run: run_info(built),
        data: data_info(built.config),
        plans: built.plans.iter().map(|p| p.info.clone()).collect(),
        config,
        fingerprint: fingerprint.finish(),
    })
}

/// The configuration without the path it came by: the same file builds the same bytes from any folder.
fn resolved_config(config: &Config) -> serde_json::Value {
    let mut json =
        serde_json::to_value(config).unwrap_or_else(|e| ice!("the configuration is not JSON: {e}"));
    if let Some(job) = json.get_mut("job").and_then(serde_json::Value::as_object_mut) {
        job.remove("config_file");
    }
    json
}

fn model_info(built: &Built<'_>, num_params: u64) -> DiagResult<ModelInfo> {
    let ResolvedModel { model, flavor, args } = built.model;
    Ok(ModelInfo {
        name: model.name().to_owned(),
        flavor: flavor.clone(),
        num_params,
        flops_per_token: model.flops_per_token(args, num_params, built.config.training.seq_len)?,
        vocab_size: model.vocab_size(args)?,
        hf_names: model.hf_names(args)?,
    })
}

fn run_info(built: &Built<'_>) -> RunInfo {
    let config = built.config;
    let dtype = config.training.mixed_precision_param.dtype();
    RunInfo {
        description: config.job.description.clone(),
        config_file: built.config_file.clone(),
        dump_folder: config.job.dump_folder.clone(),
        steps: config.training.steps,
        max_steps: config.training.steps,
        log_freq: config.metrics.log_freq,
        color: !config.metrics.disable_color_printing,
        seq_len: config.training.seq_len,
        local_batch_size: config.training.local_batch_size,
        seed: config.debug.seed.unwrap_or(DEFAULT_SEED),
        memory_bytes: config.titan.memory_gib.map(super::fit::gib_to_bytes),
        compute_dtype: dtype.name().to_owned(),
    }
}

fn data_info(config: &Config) -> DataInfo {
    DataInfo {
        dataset: config.training.dataset.clone(),
        dataset_path: config.training.dataset_path.clone(),
        tokenizer_path: config.model.hf_assets_path.clone(),
    }
}

/// Writes a file so that it is either there whole or not at all: first beside its place, then renamed. What is no file, such as
/// `/dev/null`, is not replaced but written to.
///
/// # Errors
/// T0610 with the system's reason.
pub fn write_file(path: &Path, bytes: &[u8]) -> DiagResult<()> {
    let unwritable =
        |error: std::io::Error| Diag::new("T0610", format!("cannot write {}: {error}", path.display()));
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::write(path, bytes).map_err(unwritable);
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or(path.as_os_str()));
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        // Nothing half-written stays behind; that there may be nothing to remove is fine.
        let _ = std::fs::remove_file(&temporary);
        unwritable(error)
    })
}
