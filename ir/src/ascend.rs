//! An Ascend program: a [`Plan`](crate::Plan) in the terms of CANN. The compiler makes it; a runtime replays it and decides nothing.
//!
//! All memory of a rank is one arena, and every address is a number of bytes from its start. A program serves every rank:
//! what differs among ranks is a function of the rank's coordinates (communicators, [`Call::RankSlice`]).
//!
//! A [`Part`] is what is captured as one graph. Parts end where the host must look: at a guard. Within a part, streams fork
//! from stream 0 by an event recorded there, and join it again before the part ends.

mod kernel;
mod soc;

pub use kernel::{DeviceKernel, DeviceKernels, KernelArg};
pub use soc::{Family, SOCS, Soc};

use crate::kernel::CollectiveKind;
use crate::plan::MemoryReport;
use crate::{AxisId, DType};
use serde::{Deserialize, Serialize};

/// Element types of operators' tensors and scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Element {
    /// IEEE 754 binary32.
    F32,
    /// bfloat16.
    Bf16,
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// Byte.
    U8,
    /// One byte, 0 or 1.
    Bool,
}

impl Element {
    /// The value of `aclDataType`.
    pub fn acl_code(self) -> i32 {
        match self {
            Self::F32 => 0,
            Self::I32 => 3,
            Self::U8 => 4,
            Self::I64 => 9,
            Self::Bool => 12,
            Self::Bf16 => 27,
        }
    }

    /// The value of `HcclDataType`, for the types that are reduced or moved between ranks.
    pub fn hccl_code(self) -> i32 {
        match self {
            Self::I32 => 2,
            Self::F32 => 4,
            Self::I64 => 5,
            Self::U8 | Self::Bool => 7,
            Self::Bf16 => 11,
        }
    }

    /// Bytes of one element.
    pub fn size_bytes(self) -> u64 {
        match self {
            Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::Bf16 => 2,
            Self::U8 | Self::Bool => 1,
        }
    }

    /// The name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }
}

impl From<DType> for Element {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self::F32,
            DType::Bf16 => Self::Bf16,
            DType::I32 => Self::I32,
        }
    }
}

/// What a call does with an operand's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes all of it.
    Write,
    /// Reads and writes it.
    Update,
}

impl Access {
    /// Whether it reads.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// A strided view of the arena.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorArg {
    /// Element type.
    pub element: Element,
    /// Dimensions; none for a scalar.
    pub dims: Vec<u64>,
    /// Elements between neighbours of each dimension; 0 repeats.
    pub strides: Vec<u64>,
    /// The first element, in bytes from the start of the arena.
    pub at: u64,
    /// What the call does with it.
    pub access: Access,
}

impl TensorArg {
    /// A row-major tensor.
    pub fn contiguous(element: Element, dims: &[u64], at: u64, access: Access) -> Self {
        Self { element, dims: dims.to_vec(), strides: contiguous_strides(dims), at, access }
    }

    /// Number of elements.
    pub fn num_elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Bytes from the first element to the end of the last.
    pub fn extent_bytes(&self) -> u64 {
        if self.num_elements() == 0 {
            return 0;
        }
        let last: u64 = self.dims.iter().zip(&self.strides).map(|(d, s)| (d - 1) * s).sum();
        (last + 1) * self.element.size_bytes()
    }
}

/// Strides of a row-major tensor, in elements.
pub fn contiguous_strides(dims: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    strides
}

/// An argument of phase one of an operator, in the type its C prototype has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Arg {
    /// `aclTensor*`.
    Tensor(TensorArg),
    /// `aclTensorList*`.
    Tensors(Vec<TensorArg>),
    /// A null pointer for an optional tensor, list or array.
    Null,
    /// `aclScalar*` of that type.
    Scalar(Element, f64),
    /// `aclIntArray*`.
    Ints(Vec<i64>),
    /// `char*`.
    Text(String),
    /// `double`.
    F64(f64),
    /// `float`.
    F32(f32),
    /// `int64_t`.
    I64(i64),
    /// `uint64_t`.
    U64(u64),
    /// `int8_t`.
    I8(i8),
    /// `bool`.
    Bool(bool),
    /// `aclDataType`.
    Type(Element),
}

/// One thing to submit to a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// An operator of two phases, with scratch for the kernels of its stream ([`Program::workspaces`]).
    Operator {
        /// Phase two's name, `aclnnMm`.
        name: String,
        /// Phase one's arguments, without the last two.
        args: Vec<Arg>,
    },
    /// A generated kernel: one address per argument.
    Kernel {
        /// Index in [`DeviceKernels`].
        kernel: u32,
        /// Operands.
        args: Vec<u64>,
    },
    /// A collective over the ranks along an axis.
    Collective {
        /// Which.
        kind: CollectiveKind,
        /// Axis; its communicator.
        axis: AxisId,
        /// Element type.
        element: Element,
        /// Elements a rank gives.
        src_len: u64,
        /// What a rank gives.
        src: u64,
        /// What a rank gets: `src_len` times the ranks for a gather, divided by them for a reduce-scatter, else `src_len`.
        dst: u64,
    },
    /// Copy bytes.
    Copy {
        /// From.
        src: u64,
        /// To.
        dst: u64,
        /// How many.
        size_bytes: u64,
    },
    /// Copy `size_bytes` from offset `coordinate along axis * size_bytes` of `src`; what lies past `src_bytes` is zero.
    RankSlice {
        /// Axis of the coordinate.
        axis: AxisId,
        /// From.
        src: u64,
        /// Bytes of the source.
        src_bytes: u64,
        /// To.
        dst: u64,
        /// How many.
        size_bytes: u64,
    },
    /// Zero bytes.
    Zero {
        /// Where.
        dst: u64,
        /// How many.
        size_bytes: u64,
    },
    /// Mark this point of the stream.
    Record {
        /// Event number.
        event: u32,
    },
    /// Wait in this stream for a marked point.
    Wait {
        /// Event number.
        event: u32,
    },
}

/// A call, where it goes, and which instruction of the plan it is part of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// What.
    pub call: Call,
    /// Stream: 0 computes, 1 communicates.
    pub stream: u8,
    /// Index of the instruction in the segment of the plan: its module path, flops and traffic.
    pub source: u32,
}

/// What is captured as one graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// In issue order.
    pub submissions: Vec<Submission>,
    /// f32 scalars the host reads when the part is done: the step stops on every rank unless all are finite.
    pub guard: Vec<(String, u64)>,
}

/// Parts that run `repeat` times in a step, as the plan's segment of the same number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// `step`, `micro` or `update`.
    pub name: String,
    /// Microbatches.
    pub repeat: u64,
    /// In the order they run.
    pub parts: Vec<Part>,
}

/// A range of the arena.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First byte.
    pub at: u64,
    /// Number of bytes.
    pub size_bytes: u64,
}

impl Region {
    /// The first byte after it.
    pub fn end(self) -> u64 {
        self.at + self.size_bytes
    }
}

/// What a constant table holds; the runtime writes it once, at load.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TableFill {
    /// `rows x cols` bytes, 1 above the diagonal, else 0: the mask of causal attention.
    UpperTriangle {
        /// Rows.
        rows: u64,
        /// Columns.
        cols: u64,
    },
    /// f32 `0, 1, 2, ...`.
    Iota {
        /// How many.
        len: u64,
    },
    /// The same f32, as bits, over and over.
    Constant {
        /// Bits of the value.
        bits: u32,
        /// How many.
        len: u64,
    },
}

impl TableFill {
    /// Bytes of the table.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::UpperTriangle { rows, cols } => rows * cols,
            Self::Iota { len } | Self::Constant { len, .. } => len * 4,
        }
    }
}

/// A constant table in the arena.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// First byte.
    pub at: u64,
    /// What it holds.
    pub fill: TableFill,
}

/// A whole training step of one rank, for CANN.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// The plan's [`Arena::State`](crate::plan::Arena).
    pub state: Region,
    /// The plan's [`Arena::Step`](crate::plan::Arena).
    pub step: Region,
    /// Constant tables.
    pub tables: Vec<Table>,
    /// Values several instructions of a part share, made by the first that needs them.
    pub slots: Region,
    /// Values between the calls of one instruction.
    pub scratch: Region,
    /// Per stream what operators may ask for in phase one. It is a bound made at build: the runtime compares it with what they do ask for.
    pub workspaces: Vec<Region>,
    /// In the order a step runs them, one per segment of the plan.
    pub segments: Vec<Segment>,
    /// Number of streams.
    pub num_streams: u8,
    /// Number of events.
    pub num_events: u32,
    /// Axes that need a communicator.
    pub comm_axes: Vec<AxisId>,
    /// Where the bytes go, those of HCCL's own buffers included.
    pub memory: MemoryReport,
}

impl Program {
    /// The address of a plan's address.
    pub fn address(&self, address: crate::plan::Address) -> u64 {
        let region = match address.arena {
            crate::plan::Arena::State => self.state,
            crate::plan::Arena::Step => self.step,
        };
        region.at + address.offset_bytes
    }

    /// All submissions in the order a step first issues them.
    pub fn submissions(&self) -> impl Iterator<Item = &Submission> {
        self.segments.iter().flat_map(|s| &s.parts).flat_map(|p| &p.submissions)
    }
}
