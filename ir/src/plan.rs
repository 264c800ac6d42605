//! The plan: what a device executes, byte for byte. A runtime replays it and decides nothing.
//!
//! One plan serves every rank of a pipeline stage: offsets and sizes are equal on all ranks, and what differs is a function of
//! the rank's coordinates on the mesh (collective groups, [`Action::RankSlice`]).

use crate::kernel::{Attention, CollectiveKind, Contract, ScatterAdd, Workspace};
use crate::{AxisId, DType, Dims, Init, Layout, Mesh, Phase, Role};
use serde::{Deserialize, Serialize};

/// Which memory an address is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Arena {
    /// Weights, optimizer state, tables, gradient accumulators: kept between steps.
    State,
    /// Inputs, activations, gradients, collective buffers: reused within a step.
    Step,
}

/// An address known at build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    /// Memory.
    pub arena: Arena,
    /// Bytes from its start; a multiple of [`ALIGN_BYTES`].
    pub offset_bytes: u64,
}

/// Alignment of every buffer.
pub const ALIGN_BYTES: u64 = 64;

/// A tensor the host knows by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanTensor {
    /// The weight's FQN, `<fqn>.exp_avg`, `tokens`, `labels`, `step`, `loss`, `grad_norm`, `lr`, ...
    pub name: String,
    /// What it is; `None` for an output.
    pub role: Option<Role>,
    /// Element type.
    pub dtype: DType,
    /// Global dimensions.
    pub global_dims: Dims,
    /// Dimensions of a rank's buffer.
    pub local_dims: Dims,
    /// Placement on the mesh.
    pub layout: Layout,
    /// First value.
    pub init: Init,
    /// Where it is.
    pub address: Address,
    /// Bytes of a rank's buffer.
    pub size_bytes: u64,
}

/// What a launch runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Domain {
    /// Rows of a static width.
    Rows {
        /// Number of rows.
        rows: u64,
        /// Columns of a row: the `j1` of every call.
        cols: u64,
        /// Rows of one call; with column sums, of one block.
        grain: u64,
    },
    /// One vector.
    Flat {
        /// Elements.
        len: u64,
        /// Elements of one call.
        chunk: u64,
    },
}

/// One tensor of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectivePart {
    /// Elements a rank gives.
    pub src_len: u64,
    /// What a rank gives.
    pub src: Address,
    /// What a rank gets: `src_len` times the ranks for a gather, divided by them for a reduce-scatter, else `src_len`.
    pub dst: Address,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Run generated kernel `kernel`, with one address per input, then per output.
    Launch {
        /// Index in the artifact's kernel table.
        kernel: u32,
        /// Operands.
        args: Vec<Address>,
        /// Domain.
        domain: Domain,
    },
    /// A matrix product. The kernel of an epilogue is in the kernel table; its first input, the tile, has no address.
    Contract {
        /// What.
        spec: Contract,
        /// Left operand.
        a: Address,
        /// Right operand.
        b: Address,
        /// Result, without an epilogue.
        c: Option<Address>,
        /// Kernel and its operands after the tile.
        epilogue: Option<(u32, Vec<Address>)>,
    },
    /// Attention: q, k, v, o, lse.
    Attention {
        /// What.
        spec: Attention,
        /// Operands and results.
        args: [Address; 5],
    },
    /// Gradient of attention: q, k, v, o, lse, d_o, d_q, d_k, d_v.
    AttentionGrad {
        /// What.
        spec: Attention,
        /// Operands and results.
        args: [Address; 9],
    },
    /// Gradient of a table: ids, rows, result.
    ScatterAdd {
        /// What.
        spec: ScatterAdd,
        /// Operands and result.
        args: [Address; 3],
    },
    /// A collective along a mesh axis, of one or more tensors at once: the ranks meet once for all parts.
    Collective {
        /// Which.
        kind: CollectiveKind,
        /// Over the ranks along this axis.
        axis: AxisId,
        /// Element type of every part.
        dtype: DType,
        /// The tensors, in the order of the op's operands.
        parts: Vec<CollectivePart>,
    },
    /// Copy bytes.
    Copy {
        /// From.
        src: Address,
        /// To.
        dst: Address,
        /// How many.
        size_bytes: u64,
    },
    /// Copy `size_bytes` from offset `coordinate along axis * size_bytes` of `src`; what lies past `src_bytes` is zero.
    RankSlice {
        /// Axis of the coordinate.
        axis: AxisId,
        /// From.
        src: Address,
        /// Bytes of the source.
        src_bytes: u64,
        /// To.
        dst: Address,
        /// How many.
        size_bytes: u64,
    },
    /// Zero bytes.
    Zero {
        /// Where; not necessarily aligned beyond the element size.
        dst: Address,
        /// How many.
        size_bytes: u64,
    },
    /// Stop the step on every rank if any of these f32 scalars is not finite.
    Guard {
        /// The scalars, with their names.
        scalars: Vec<(String, Address)>,
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

/// An instruction: an action, and what profiles and messages say of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Instr {
    /// What to do.
    pub action: Action,
    /// Stream: 0 computes, 1 communicates.
    pub stream: u8,
    /// Index in [`Plan::locs`]: the module path.
    pub loc: u32,
    /// Part of the step.
    pub phase: Phase,
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes read and written.
    pub traffic_bytes: u64,
}

/// Instructions run `repeat` times in a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// `step`, `micro` or `update`.
    pub name: String,
    /// Microbatches.
    pub repeat: u64,
    /// In issue order.
    pub instrs: Vec<Instr>,
}

/// Bytes of a rank, by purpose. The sum is what the runtime maps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Weights.
    pub params_bytes: u64,
    /// Gradients live at the peak, and accumulators.
    pub grads_bytes: u64,
    /// Optimizer state.
    pub optimizer_bytes: u64,
    /// Tables.
    pub buffers_bytes: u64,
    /// Inputs and activations live at the peak, and padding.
    pub activations_bytes: u64,
    /// Gathered weights, reduction inputs and other collective buffers live at the peak.
    pub collectives_bytes: u64,
    /// Scratch of kernels, shared by the rank's threads.
    pub workspace_bytes: u64,
    /// Scratch of kernels, of each thread.
    pub workspace_per_thread_bytes: u64,
    /// Buffers the communication library allocates for itself, outside the arena.
    pub communication_bytes: u64,
}

impl MemoryReport {
    /// All bytes of a rank that computes with `num_threads` threads.
    pub fn total_bytes(&self, num_threads: u64) -> u64 {
        self.params_bytes
            + self.grads_bytes
            + self.optimizer_bytes
            + self.buffers_bytes
            + self.activations_bytes
            + self.collectives_bytes
            + self.workspace_bytes
            + self.communication_bytes
            + self.workspace_per_thread_bytes * num_threads
    }
}

/// What bytes are for, as [`MemoryReport`] counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Category {
    /// Weights.
    Params,
    /// Gradients and accumulators.
    Grads,
    /// Optimizer state.
    Optimizer,
    /// Tables.
    Buffers,
    /// Inputs and activations.
    Activations,
    /// What collectives read or write.
    Collectives,
}

/// A buffer in use when most bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakBuffer {
    /// Name of the state or input, or module path of what makes it.
    pub path: String,
    /// What it is for.
    pub category: Category,
    /// Element type.
    pub dtype: DType,
    /// Dimensions of a rank's buffer.
    pub dims: Dims,
    /// Bytes, padding included.
    pub size_bytes: u64,
}

/// A whole training step of one rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The ranks.
    pub mesh: Mesh,
    /// Bytes of [`Arena::State`].
    pub state_bytes: u64,
    /// Bytes of [`Arena::Step`].
    pub step_bytes: u64,
    /// Scratch of native kernels.
    pub workspace: Workspace,
    /// Named tensors: state in arena order, inputs, outputs.
    pub tensors: Vec<PlanTensor>,
    /// In the order a step runs them.
    pub segments: Vec<Segment>,
    /// Module paths.
    pub locs: Vec<String>,
    /// Number of events.
    pub num_events: u32,
    /// Where the bytes go.
    pub memory: MemoryReport,
    /// The largest buffers in use at the peak, largest first.
    pub largest: Vec<PeakBuffer>,
}
