//! The device compiler's stand-in: takes the same tensor functions as the vendor's `bishengir-compile`, but makes code for the host, which
//! `host-cann` loads and runs.

pub mod container;
mod entry;
mod link;
mod lower;

pub use container::{Arg, Container, Description};

use titan_ir::ascend::Soc;

/// The object for a module with one kernel: a [`Container`] in bytes.
///
/// # Errors
/// What is wrong with the module, one finding a line.
pub fn compile(text: &str, soc: &Soc, num_blocks: u32) -> Result<Vec<u8>, String> {
    let (object, description) = lower::lower(text, num_blocks)?;
    let library = link::shared_library(&object)?;
    Ok(Container { target: soc.name.to_owned(), description, library }.encode())
}
