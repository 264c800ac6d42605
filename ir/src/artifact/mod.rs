//! The artifact: one file that holds everything a run needs, verified before anything in it is used.
//!
//! ```text
//! magic "TITANAOT" | format version u32 | number of sections u32 | file length u64
//! per section: name, 24 bytes, zero padded | offset u64 | length u64 | BLAKE3 of the bytes, 32 bytes
//! BLAKE3 of everything above, 32 bytes
//! sections, each at a multiple of 4096 bytes, zero padded between
//! ```
//! All numbers are little-endian. Equal sections give equal files: there is no time, host or path in the format.

mod manifest;
mod read;
mod write;

pub use manifest::{DataInfo, HfName, KernelTable, Manifest, ModelInfo, PlanInfo, RunInfo, TargetInfo};
pub use read::Artifact;
pub use write::encode;

/// First bytes of every artifact.
pub const MAGIC: &[u8; 8] = b"TITANAOT";

/// Version of the format; a reader accepts its own only.
pub const FORMAT_VERSION: u32 = 1;

/// Alignment of every section: a runtime may map a section by itself.
pub const PAGE_BYTES: usize = 4096;

/// Section of the [`Manifest`], JSON.
pub const MANIFEST: &str = "manifest";

/// Section of the [`KernelTable`], postcard.
pub const KERNEL_TABLE: &str = "kernels.table";

/// Section of the kernels' code: one position-independent image.
pub const KERNEL_IMAGE: &str = "kernels.image";

/// Section of the [`DeviceKernels`](crate::ascend::DeviceKernels) of an Ascend artifact, postcard.
pub const DEVICE_KERNELS: &str = "ascend.kernels";

/// Section of the program's text after each stage; optional.
pub const IR_TEXT: &str = "ir.text";

/// Section of the plan for a number of ranks, postcard.
pub fn plan_section(world_size: u64) -> String {
    format!("plan.{world_size}")
}

/// Section of the Ascend program for a number of ranks, postcard.
pub fn program_section(world_size: u64) -> String {
    format!("ascend.{world_size}")
}

const NAME_BYTES: usize = 24;
const ENTRY_BYTES: usize = NAME_BYTES + 8 + 8 + 32;
const FIXED_BYTES: usize = 8 + 4 + 4 + 8;

/// Bytes before the first section.
fn header_bytes(num_sections: usize) -> usize {
    FIXED_BYTES + num_sections * ENTRY_BYTES + 32
}
