//! An Ascend program: a [`Plan`](crate::Plan) in the terms of CANN. The compiler makes it; a runtime replays it and decides nothing.
//!
//! All memory of a rank is one arena, and every address is a number of bytes from its start. A program serves every rank:
//! what differs among ranks is a function of the rank's coordinates (communicators, [`Call::RankSlice`]).
//!
//! A [`Part`] is what is captured as one graph. Parts end where the host must look: at a guard. Within a part, streams fork
//! from stream 0 by an event recorded there, and join it again before the part ends.

mod kernel;
mod operand;
mod soc;
mod table;

pub use kernel::{DeviceKernel, DeviceKernels, KernelArg};
pub use operand::{Access, Arg, Element, TensorArg, contiguous_strides};
pub use soc::{Family, SOCS, Soc};
pub use table::{Table, TableFill};

use crate::AxisId;
use crate::kernel::CollectiveKind;
use crate::plan::MemoryReport;
use serde::{Deserialize, Serialize};

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
