//! Binding: every address of a plan becomes a pointer once, at load, so that a step looks nothing up.

use crate::comm::{Call, Comm, Part};
use crate::image::Image;
use crate::kernels::{RowKernelFn, ThreadScratch};
use crate::memory::Mapping;
use std::io;
use titan_ir::kernel::{Attention, Contract, ScatterAdd};
use titan_ir::plan::{Action, Address, Arena, CollectivePart, Domain, PlanTensor};
use titan_ir::{AxisId, Plan};

/// The memory of one rank.
#[derive(Debug)]
pub struct Memory {
    state: Mapping,
    step: Mapping,
    shared: Mapping,
    per_thread: Mapping,
    per_thread_stride_bytes: usize,
}

impl Memory {
    /// Maps what `plan` asks for.
    ///
    /// # Errors
    /// When the system has not enough memory.
    pub fn map(plan: &Plan, num_threads: usize) -> io::Result<Self> {
        Ok(Self {
            state: Mapping::zeroed(plan.state_bytes)?,
            step: Mapping::zeroed(plan.step_bytes)?,
            shared: Mapping::zeroed(plan.workspace.shared_bytes)?,
            per_thread: Mapping::zeroed(plan.workspace.per_thread_bytes * num_threads as u64)?,
            per_thread_stride_bytes: plan.workspace.per_thread_bytes as usize,
        })
    }

    /// Bytes mapped.
    pub fn len_bytes(&self) -> u64 {
        [&self.state, &self.step, &self.shared, &self.per_thread].iter().map(|m| m.len_bytes()).sum()
    }

    /// The pointer of an address.
    pub fn at(&self, address: Address, size_bytes: u64) -> *mut u8 {
        let mapping = match address.arena {
            Arena::State => &self.state,
            Arena::Step => &self.step,
        };
        mapping.at(address.offset_bytes, size_bytes)
    }

    /// The pointer of a named tensor.
    pub fn tensor(&self, tensor: &PlanTensor) -> *mut u8 {
        self.at(tensor.address, tensor.size_bytes)
    }

    pub(super) fn scratch(&self) -> ThreadScratch {
        ThreadScratch {
            shared: self.shared.start(),
            per_thread: self.per_thread.start(),
            per_thread_stride_bytes: self.per_thread_stride_bytes,
        }
    }
}

/// A plan bound to the memory and place of one rank.
#[derive(Debug)]
pub struct Step {
    /// In the order a step runs them.
    pub segments: Vec<BoundSegment>,
}

/// A segment of a bound plan.
#[derive(Debug)]
pub struct BoundSegment {
    /// Microbatches.
    pub repeat: u64,
    /// In issue order, one per instruction of the plan.
    pub instrs: Vec<Bound>,
}

/// A bound instruction.
#[derive(Debug)]
pub enum Bound {
    /// A generated kernel.
    Launch {
        /// Code.
        kernel: RowKernelFn,
        /// Operands.
        args: Box<[*mut u8]>,
        /// Domain.
        domain: Domain,
    },
    /// A matrix product.
    Contract {
        /// What.
        spec: Contract,
        /// Left, right, result.
        operands: [*mut u8; 3],
        /// Code and operands after the tile.
        epilogue: Option<(RowKernelFn, Box<[*mut u8]>)>,
    },
    /// Attention.
    Attention(Attention, [*mut u8; 5]),
    /// Gradient of attention.
    AttentionGrad(Attention, [*mut u8; 9]),
    /// Gradient of a table.
    ScatterAdd(ScatterAdd, [*mut u8; 3]),
    /// A collective along an axis.
    Collective(AxisId, Call),
    /// A copy, then zeros: source, bytes, destination, bytes of zeros after it.
    Copy(*mut u8, usize, *mut u8, usize),
    /// Scalars that must be finite.
    Guard(Box<[*mut u8]>),
    /// Order among streams: on the CPU streams run in issue order.
    Order,
}

// SAFETY: the pointers lead into this rank's memory, which outlives the step.
unsafe impl Send for Bound {}

impl Step {
    /// Binds `plan` for the rank of `comm`.
    pub fn bind(plan: &Plan, memory: &Memory, image: &Image, comm: &Comm) -> Self {
        let binder = Binder { memory, image, comm };
        let segments = plan.segments.iter().map(|segment| BoundSegment {
            repeat: segment.repeat,
            instrs: segment.instrs.iter().map(|instr| binder.bind(&instr.action)).collect(),
        });
        Self { segments: segments.collect() }
    }
}

struct Binder<'a> {
    memory: &'a Memory,
    image: &'a Image,
    comm: &'a Comm,
}

impl Binder<'_> {
    fn at(&self, address: Address) -> *mut u8 {
        self.memory.at(address, 0)
    }

    fn all(&self, addresses: &[Address]) -> Box<[*mut u8]> {
        addresses.iter().map(|&a| self.at(a)).collect()
    }

    fn bind(&self, action: &Action) -> Bound {
        match action {
            Action::Launch { kernel, args, domain } => {
                Bound::Launch { kernel: self.image.kernel(*kernel), args: self.all(args), domain: *domain }
            }
            Action::Contract { spec, a, b, c, epilogue } => {
                let c = c.map_or(std::ptr::null_mut(), |c| self.at(c));
                let epilogue =
                    epilogue.as_ref().map(|(kernel, args)| (self.image.kernel(*kernel), self.all(args)));
                Bound::Contract { spec: spec.clone(), operands: [self.at(*a), self.at(*b), c], epilogue }
            }
            Action::Attention { spec, args } => Bound::Attention(spec.clone(), args.map(|a| self.at(a))),
            Action::AttentionGrad { spec, args } => {
                Bound::AttentionGrad(spec.clone(), args.map(|a| self.at(a)))
            }
            Action::ScatterAdd { spec, args } => Bound::ScatterAdd(spec.clone(), args.map(|a| self.at(a))),
            Action::Collective { kind, axis, dtype, parts } => {
                let part = |part: &CollectivePart| Part {
                    src_len: part.src_len as usize,
                    src: self.at(part.src),
                    dst: self.at(part.dst),
                };
                let parts = parts.iter().map(part).collect();
                Bound::Collective(*axis, Call { kind: *kind, dtype: *dtype, parts })
            }
            Action::Copy { src, dst, size_bytes } => {
                Bound::Copy(self.at(*src), *size_bytes as usize, self.at(*dst), 0)
            }
            Action::RankSlice { axis, src, src_bytes, dst, size_bytes } => {
                let start = (self.comm.group(*axis).position as u64 * size_bytes).min(*src_bytes);
                let copied = (*size_bytes).min(src_bytes - start);
                let src = self.memory.at(Address { offset_bytes: src.offset_bytes + start, ..*src }, copied);
                Bound::Copy(src, copied as usize, self.at(*dst), (size_bytes - copied) as usize)
            }
            Action::Zero { dst, size_bytes } => {
                Bound::Copy(self.at(*dst), 0, self.at(*dst), *size_bytes as usize)
            }
            Action::Guard { scalars } => Bound::Guard(scalars.iter().map(|(_, a)| self.at(*a)).collect()),
            Action::Record { .. } | Action::Wait { .. } => Bound::Order,
        }
    }
}
