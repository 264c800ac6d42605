//! Reading: nothing of a file is believed before its hashes agree.

use super::{
    DEVICE_KERNELS, ENTRY_BYTES, FIXED_BYTES, FORMAT_VERSION, KERNEL_IMAGE, KERNEL_TABLE, KernelTable, MAGIC,
    MANIFEST, Manifest, NAME_BYTES, PAGE_BYTES, header_bytes, plan_section, program_section,
};
use crate::ascend::{DeviceKernels, Program};
use crate::{Diag, DiagResult, Plan};
use serde::de::DeserializeOwned;
use std::ops::Range;

const REBUILD: &str = "build it again with `titanc build`";

/// A verified artifact over the bytes of a file.
#[derive(Debug)]
pub struct Artifact<'a> {
    bytes: &'a [u8],
    sections: Vec<(String, Range<usize>)>,
    /// What the artifact is.
    pub manifest: Manifest,
}

impl<'a> Artifact<'a> {
    /// Verifies the bytes of a file: format, length, the hash of the table, the hash of every section.
    ///
    /// # Errors
    /// T0601 not an artifact, T0602 another format version, T0603 truncated or with bytes added, T0604 damaged (names the section),
    /// T0605 a section that does not decode.
    pub fn parse(bytes: &'a [u8]) -> DiagResult<Self> {
        let sections = read_table(bytes)?;
        let manifest_bytes = find(bytes, &sections, MANIFEST)?;
        let manifest =
            serde_json::from_slice(manifest_bytes).map_err(|e| undecodable(MANIFEST, &e.to_string()))?;
        Ok(Self { bytes, sections, manifest })
    }

    /// Section names and sizes, in file order.
    pub fn sections(&self) -> impl Iterator<Item = (&str, usize)> {
        self.sections.iter().map(|(name, range)| (name.as_str(), range.len()))
    }

    /// The bytes of a section.
    ///
    /// # Errors
    /// T0605 when there is none of that name.
    pub fn section(&self, name: &str) -> DiagResult<&'a [u8]> {
        find(self.bytes, &self.sections, name)
    }

    /// Where the code of the kernels is in the file; starts at a multiple of the page size.
    ///
    /// # Errors
    /// T0605 when there is none.
    pub fn image_range(&self) -> DiagResult<Range<usize>> {
        let found = self.sections.iter().find(|(name, _)| name == KERNEL_IMAGE);
        found
            .map(|(_, range)| range.clone())
            .ok_or_else(|| undecodable(KERNEL_IMAGE, "the section is missing"))
    }

    /// The kernels.
    ///
    /// # Errors
    /// T0605 when the section does not decode.
    pub fn kernel_table(&self) -> DiagResult<KernelTable> {
        let table: KernelTable = self.decode(KERNEL_TABLE)?;
        let image = self.image_range()?;
        if table.entries.iter().any(|&entry| entry >= image.len() as u64) {
            return Err(undecodable(KERNEL_TABLE, "a kernel starts outside the image"));
        }
        Ok(table)
    }

    /// The plan for a number of ranks.
    ///
    /// # Errors
    /// T0606 when the artifact has none for that number, T0605 when it does not decode.
    pub fn plan(&self, world_size: u64) -> DiagResult<Plan> {
        let sizes: Vec<String> = self.manifest.plans.iter().map(|p| p.world_size.to_string()).collect();
        if !self.manifest.plans.iter().any(|p| p.world_size == world_size) {
            let ranks = if world_size == 1 { "rank" } else { "ranks" };
            return Err(Diag::new(
                "T0606",
                format!("this artifact has no plan for {world_size} {ranks}, only for {}", sizes.join(", ")),
            )
            .help(format!(
                "rebuild it: titanc build {}{} --titan.world_size {world_size}",
                self.manifest.run.config_file.as_deref().unwrap_or("CONFIG.toml"),
                self.device_options(),
            )));
        }
        self.decode(&plan_section(world_size))
    }

    /// What a command line needs to build for the same Ascend device again.
    fn device_options(&self) -> String {
        let target = &self.manifest.target.name;
        if !target.starts_with("Ascend") {
            return String::new();
        }
        let kernels = self.manifest.config["titan"]["ascend_kernels"].as_str();
        let kernels = kernels.map(|style| format!(" --ascend-kernels {style}")).unwrap_or_default();
        format!(" --target {target}{kernels}")
    }

    /// The Ascend program for a number of ranks for which [`Artifact::plan`] gives a plan.
    ///
    /// # Errors
    /// T0605 when there is none or it does not decode.
    pub fn program(&self, world_size: u64) -> DiagResult<Program> {
        self.decode(&program_section(world_size))
    }

    /// The generated kernels of an Ascend artifact.
    ///
    /// # Errors
    /// T0605 when the section is missing or does not decode.
    pub fn device_kernels(&self) -> DiagResult<DeviceKernels> {
        self.decode(DEVICE_KERNELS)
    }

    fn decode<T: DeserializeOwned>(&self, name: &str) -> DiagResult<T> {
        postcard::from_bytes(self.section(name)?).map_err(|e| undecodable(name, &e.to_string()))
    }
}

fn undecodable(section: &str, why: &str) -> Diag {
    Diag::new("T0605", format!("section `{section}` cannot be read: {why}")).at(section).help(REBUILD)
}

fn find<'a>(bytes: &'a [u8], sections: &[(String, Range<usize>)], name: &str) -> DiagResult<&'a [u8]> {
    let found = sections.iter().find(|(n, _)| n == name);
    found.map(|(_, range)| &bytes[range.clone()]).ok_or_else(|| undecodable(name, "the section is missing"))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}

fn read_table(bytes: &[u8]) -> DiagResult<Vec<(String, Range<usize>)>> {
    if bytes.len() < FIXED_BYTES || &bytes[..8] != MAGIC {
        return Err(Diag::new("T0601", "this is not a Titan artifact: it does not start with `TITANAOT`")
            .help("give the file that `titanc build` wrote"));
    }
    let version = number(&bytes[8..12]);
    if version != u64::from(FORMAT_VERSION) {
        return Err(Diag::new(
            "T0602",
            format!("artifact format version is {version}, this program reads version {FORMAT_VERSION}"),
        )
        .help(REBUILD));
    }
    let num_sections = number(&bytes[12..16]) as usize;
    let length = number(&bytes[16..24]);
    if length != bytes.len() as u64 {
        return Err(Diag::new(
            "T0603",
            format!("the file has {} bytes, its header says {length}", bytes.len()),
        )
        .help(format!("copy it again, or {REBUILD}")));
    }
    let header = header_bytes(num_sections.min(bytes.len() / ENTRY_BYTES));
    if header > bytes.len() {
        return Err(Diag::new("T0603", "the section table is cut short").help(REBUILD));
    }
    let (signed, hash) = bytes[..header].split_at(header - 32);
    if blake3::hash(signed).as_bytes() != hash {
        return Err(damaged("header"));
    }
    let entries = signed[FIXED_BYTES..].chunks_exact(ENTRY_BYTES);
    let sections = entries.map(|entry| read_entry(bytes, entry)).collect::<DiagResult<Vec<_>>>()?;
    check_padding(bytes, header, &sections)?;
    Ok(sections)
}

/// No hash covers the bytes between sections, so they must be what the writer put there: zeros.
fn check_padding(bytes: &[u8], header: usize, sections: &[(String, Range<usize>)]) -> DiagResult<()> {
    let starts = sections.iter().map(|(_, range)| range.start).chain([bytes.len()]);
    let ends = [header].into_iter().chain(sections.iter().map(|(_, range)| range.end));
    for (end, start) in ends.zip(starts) {
        if start < end || bytes[end..start].iter().any(|&b| b != 0) {
            return Err(damaged("padding"));
        }
    }
    Ok(())
}

fn read_entry(bytes: &[u8], entry: &[u8]) -> DiagResult<(String, Range<usize>)> {
    let (name, rest) = entry.split_at(NAME_BYTES);
    let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
    let (offset, len) = (number(&rest[..8]), number(&rest[8..16]));
    let end = offset.checked_add(len).filter(|&end| end <= bytes.len() as u64);
    let Some(end) = end.filter(|_| offset.is_multiple_of(PAGE_BYTES as u64)) else {
        return Err(damaged(&name));
    };
    let range = offset as usize..end as usize;
    if blake3::hash(&bytes[range.clone()]).as_bytes() != &rest[16..] {
        return Err(damaged(&name));
    }
    Ok((name, range))
}

fn damaged(section: &str) -> Diag {
    Diag::new("T0604", format!("the artifact is damaged: the hash of section `{section}` does not agree"))
        .at(section)
        .help(format!("copy it again, or {REBUILD}"))
}
