//! Generated kernels as they travel to a device.

use super::{Access, Element, TableFill};
use crate::kernel::RowKernel;
use serde::{Deserialize, Serialize};

/// An argument of a generated kernel: a pointer to a row-major tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KernelArg {
    /// Element type.
    pub element: Element,
    /// Dimensions.
    pub dims: Vec<u64>,
    /// What the kernel does with it.
    pub access: Access,
}

impl KernelArg {
    /// Bytes behind the pointer.
    pub fn size_bytes(&self) -> u64 {
        self.dims.iter().product::<u64>() * self.element.size_bytes()
    }
}

/// A kernel for one shape of domain: device kernels are static.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceKernel {
    /// Name of the function; at most 49 characters.
    pub symbol: String,
    /// What it computes.
    pub kernel: RowKernel,
    /// Rows of the domain, or elements of a flat one.
    pub rows: u64,
    /// Its source, for the device compiler.
    pub mlir: String,
    /// Pointers of a launch: one per input of `kernel`, one per table, one per output.
    pub args: Vec<KernelArg>,
    /// Constants it reads beside the inputs: who launches it gives it addresses of such tables.
    pub tables: Vec<TableFill>,
    /// Blocks of a launch.
    pub num_blocks: u32,
    /// Code the device compiler made at build; empty if the source is compiled on the device machine.
    pub object: Vec<u8>,
}

/// Kernels of all programs of an artifact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceKernels {
    /// By index.
    pub kernels: Vec<DeviceKernel>,
}
