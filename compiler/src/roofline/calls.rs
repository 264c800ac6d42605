//! What a call takes on the cores and the memory of a device.

use super::Assumption;
use titan_ir::ascend::{Access, Arg, Call, DeviceKernels, Element, Family, Soc, TensorArg};

/// bf16 operations of a cube core in a cycle: products of 16 x 16 x 16, a multiplication and an addition each.
const CUBE_FLOPS_PER_CYCLE: f64 = 8192.0;

/// f32 products run at this share of the bf16 rate.
const F32_SHARE: f64 = 0.25;

/// Peaks of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    pub(super) cube_flops_per_s: f64,
    hbm_bytes_per_s: f64,
}

/// Time of a call by what bounds it. **Units**: seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Duration {
    Cube(f64),
    Memory(f64),
    Collective(f64),
}

impl Duration {
    pub(super) fn seconds(self) -> f64 {
        match self {
            Self::Cube(seconds) | Self::Memory(seconds) | Self::Collective(seconds) => seconds,
        }
    }
}

impl Machine {
    pub(super) fn of(soc: &Soc) -> Self {
        let cycles_per_s = f64::from(soc.mhz) * 1e6;
        Self {
            cube_flops_per_s: f64::from(soc.cube_cores) * CUBE_FLOPS_PER_CYCLE * cycles_per_s,
            hbm_bytes_per_s: f64::from(soc.hbm_gb_per_s) * 1e9,
        }
    }

    pub(super) fn assumptions(&self, soc: &Soc) -> Vec<Assumption> {
        let cube_source = match soc.family {
            Family::A5 => {
                "the formula of older generations: this one's cube is another, its peak is not derived"
            }
            Family::A2 | Family::A3 => "cores and clock of the vendor's platform file; reached in full",
        };
        vec![
            Assumption {
                name: "cube peak, bf16",
                value: format!(
                    "{:.1} TFLOP/s: {} cores x {CUBE_FLOPS_PER_CYCLE} x {} MHz",
                    self.cube_flops_per_s / 1e12,
                    soc.cube_cores,
                    soc.mhz
                ),
                source: cube_source,
            },
            Assumption {
                name: "cube peak, f32",
                value: format!("{F32_SHARE} of bf16"),
                source: "press figures, not verified",
            },
            Assumption {
                name: "memory bandwidth",
                value: format!("{} GB/s", soc.hbm_gb_per_s),
                source: "press figure, not verified; every operand comes from memory once, none from the L2 cache",
            },
            Assumption {
                name: "vector cores",
                value: "never the bound".to_owned(),
                source: "elementwise calls take the time of their traffic",
            },
            Assumption {
                name: "launch of a task",
                value: "0".to_owned(),
                source: "not known: to be measured on a device",
            },
            Assumption {
                name: "streams",
                value: "share cores, memory and links without loss".to_owned(),
                source: "a simplification",
            },
            Assumption {
                name: "host",
                value: "0".to_owned(),
                source: "guards, inputs and replays are not counted",
            },
        ]
    }

    /// The time of a call that is no collective; `attention_flops` are its operations if it is attention.
    pub(super) fn duration(&self, call: &Call, kernels: &DeviceKernels, attention_flops: u64) -> Duration {
        let memory = traffic_bytes(call, kernels) as f64 / self.hbm_bytes_per_s;
        let cube = match call {
            Call::Operator { name, args } => {
                let flops = if is_attention(call) { attention_flops } else { product_flops(name, args) };
                flops as f64 / (self.cube_flops_per_s * rate(args))
            }
            _ => 0.0,
        };
        if cube > memory { Duration::Cube(cube) } else { Duration::Memory(memory) }
    }
}

pub(super) fn is_attention(call: &Call) -> bool {
    matches!(call, Call::Operator { name, .. } if name.starts_with("aclnnFlashAttention"))
}

fn tensors(args: &[Arg]) -> impl Iterator<Item = &TensorArg> {
    args.iter().flat_map(|arg| match arg {
        Arg::Tensor(tensor) => std::slice::from_ref(tensor),
        Arg::Tensors(list) => list.as_slice(),
        _ => &[],
    })
}

/// The share of the peak that the type of the first operand allows.
fn rate(args: &[Arg]) -> f64 {
    let is_f32 = tensors(args).next().is_some_and(|tensor| tensor.element == Element::F32);
    if is_f32 { F32_SHARE } else { 1.0 }
}

/// Operations of a matrix product: twice the elements of the left operand times the columns of the right.
fn product_flops(name: &str, args: &[Arg]) -> u64 {
    let mut operands = tensors(args);
    match (name, operands.next(), operands.next()) {
        ("aclnnMm" | "aclnnMatmul" | "aclnnBatchMatMul", Some(left), Some(right)) => {
            2 * left.num_elements() * right.dims.last().copied().unwrap_or(1)
        }
        _ => 0,
    }
}

/// Bytes between a call and memory.
fn traffic_bytes(call: &Call, kernels: &DeviceKernels) -> u64 {
    let times = |access: Access| if access == Access::Update { 2 } else { 1 };
    match call {
        // What a stride of 0 repeats is read once.
        Call::Operator { args, .. } => tensors(args)
            .map(|t| times(t.access) * t.extent_bytes().min(t.num_elements() * t.element.size_bytes()))
            .sum(),
        Call::Kernel { kernel, .. } => {
            let kernel = kernels.kernels.get(*kernel as usize);
            kernel.map_or(0, |k| k.args.iter().map(|arg| times(arg.access) * arg.size_bytes()).sum())
        }
        Call::Copy { size_bytes, .. } | Call::RankSlice { size_bytes, .. } => 2 * size_bytes,
        Call::Zero { size_bytes, .. } => *size_bytes,
        Call::Collective { .. } | Call::Record { .. } | Call::Wait { .. } => 0,
    }
}
