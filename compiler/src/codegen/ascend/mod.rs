//! Programs for Ascend devices: the instructions of a [`Plan`] in the terms of CANN.
//!
//! | module | what |
//! |---|---|
//! | `operators` | the vendor's operators we call: parameters, workspace |
//! | `emitter` | the calls of one instruction, and their scratch |
//! | `native` | contraction, attention, scatter |
//! | `fallback` | any generated kernel as a sequence of operators |
//! | `recognise` | generated kernels that are one op of the table, and so one operator of the vendor |
//! | `parts` | what is captured as one graph: guards, forks and joins of streams |
//! | `arena` | where everything is |

mod arena;
mod emitter;
mod fallback;
pub mod kernel;
mod launch;
mod native;
pub mod operators;
mod parts;
mod recognise;

use arena::Tables;
use emitter::Emitter;
use indexmap::IndexMap;
use parts::Step;
use titan_ir::ascend::{Call, DeviceKernel, DeviceKernels, Program, Segment, Soc, Submission};
use titan_ir::kernel::RowKernel;
use titan_ir::plan::{Action, Address, Instr, Plan};
use titan_ir::{DiagResult, ice};

/// Scratch an instruction may use before it is cut in blocks.
const SCRATCH_BUDGET_BYTES: u64 = 256 << 20;

/// What generated kernels become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelStyle {
    /// Operators of the vendor only.
    Aclnn,
    /// Kernels for the device compiler, where its subset holds them.
    Fused,
}

/// How a plan is lowered.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The device.
    pub soc: &'a Soc,
    /// What generated kernels become.
    pub style: KernelStyle,
    /// Workspace for operators; without it, the bound of [`operators`].
    pub workspace_bytes: Option<u64>,
}

/// Device kernels of several programs, each once.
#[derive(Debug, Default)]
pub struct KernelTable {
    /// Per kernel and rows its number, or why it went to operators.
    known: IndexMap<(RowKernel, u64), Result<u32, String>>,
    kernels: DeviceKernels,
}

impl KernelTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kernels by number.
    pub fn into_kernels(self) -> DeviceKernels {
        self.kernels
    }

    /// The kernels by number, so far.
    pub fn kernels(&self) -> &DeviceKernels {
        &self.kernels
    }

    /// The kernel of a number.
    fn get(&self, index: u32) -> &DeviceKernel {
        &self.kernels.kernels[index as usize]
    }

    /// Kernels that became operators: kernel, rows and why.
    pub fn unfit(&self) -> impl Iterator<Item = (&RowKernel, u64, &str)> {
        self.known.iter().filter_map(|((kernel, rows), fate)| {
            fate.as_ref().err().map(|reason| (kernel, *rows, reason.as_str()))
        })
    }

    /// The number of `kernel` over `rows` rows, or over `rows` elements of a flat domain; `None` if the subset does not hold it.
    fn index_of(&mut self, kernel: &RowKernel, rows: u64, soc: &Soc) -> Option<u32> {
        let key = (kernel.clone(), rows);
        if let Some(fate) = self.known.get(&key) {
            return fate.as_ref().ok().copied();
        }
        let fate = match kernel::emit(kernel, rows, soc) {
            Ok(made) => {
                self.kernels.kernels.push(made);
                Ok(u32::try_from(self.kernels.kernels.len() - 1).expect("fewer than 2^32 kernels"))
            }
            Err(unfit) => Err(unfit.0),
        };
        let index = fate.as_ref().ok().copied();
        self.known.insert(key, fate);
        index
    }
}

/// The program of a plan.
///
/// # Errors
/// T0530 for a kernel that no operators compute.
pub fn lower(
    plan: &Plan,
    kernels: &[RowKernel],
    options: &Options<'_>,
    table: &mut KernelTable,
) -> DiagResult<Program> {
    lower_within(plan, kernels, options, table, SCRATCH_BUDGET_BYTES)
}

/// As [`lower`], with another budget of scratch: an instruction whose values between operators need more is cut in blocks of rows.
///
/// # Errors
/// As [`lower`].
pub fn lower_within(
    plan: &Plan,
    kernels: &[RowKernel],
    options: &Options<'_>,
    table: &mut KernelTable,
    scratch_budget_bytes: u64,
) -> DiagResult<Program> {
    let mut tables = Tables::default();
    let mut lowering = Lowering {
        plan,
        kernels,
        options,
        table,
        emitter: Emitter::new(&mut tables, options.soc, scratch_budget_bytes),
        known: recognise::Known::new(),
    };
    let mut events = 0;
    let mut segments = Vec::with_capacity(plan.segments.len());
    for segment in &plan.segments {
        let mut steps = Vec::new();
        lowering.emitter.forget();
        for (source, instr) in (0u32..).zip(&segment.instrs) {
            lowering.instr(instr, source, &mut steps)?;
        }
        let parts = parts::cut(steps, &mut events);
        segments.push(Segment { name: segment.name.clone(), repeat: segment.repeat, parts });
    }
    let Emitter { demand, .. } = lowering.emitter;
    Ok(arena::finish(plan, options, segments, &tables, demand, events))
}

/// The state of [`lower`].
struct Lowering<'a, 'b> {
    plan: &'a Plan,
    kernels: &'a [RowKernel],
    options: &'a Options<'a>,
    table: &'a mut KernelTable,
    emitter: Emitter<'b>,
    known: recognise::Known,
}

impl Lowering<'_, '_> {
    fn instr(&mut self, instr: &Instr, source: u32, steps: &mut Vec<Step>) -> DiagResult<()> {
        let at = |address: Address| arena::place(self.plan, address);
        match &instr.action {
            Action::Guard { scalars } => {
                let scalars = scalars.iter().map(|(name, address)| (name.clone(), at(*address))).collect();
                steps.push(Step::Guard(scalars));
                self.emitter.forget();
                return Ok(());
            }
            Action::Launch { kernel, args, domain } => {
                let args: Vec<u64> = args.iter().map(|&a| at(a)).collect();
                launch::launch(self, *kernel, &args, *domain)?;
            }
            Action::Contract { epilogue: Some(_), .. } => ice!("a contraction for Ascend has no epilogue"),
            Action::Contract { spec, a, b, c, .. } => {
                let Some(c) = *c else { ice!("a contraction without a result") };
                native::contract(&mut self.emitter, spec, [at(*a), at(*b), at(c)]);
            }
            Action::Attention { spec, args } => {
                native::attention(&mut self.emitter, spec, args.map(at));
            }
            Action::AttentionGrad { spec, args } => {
                native::attention_grad(&mut self.emitter, spec, args.map(at));
            }
            Action::ScatterAdd { spec, args } => {
                native::scatter_add(&mut self.emitter, spec, args.map(at));
            }
            Action::Collective { kind, axis, dtype, parts } => {
                for part in parts {
                    let (src, dst) = (at(part.src), at(part.dst));
                    let element = (*dtype).into();
                    let call = if self.plan.mesh.size(*axis) > 1 {
                        Call::Collective {
                            kind: *kind,
                            axis: *axis,
                            element,
                            src_len: part.src_len,
                            src,
                            dst,
                        }
                    } else {
                        Call::Copy { src, dst, size_bytes: part.src_len * dtype.size_bytes() as u64 }
                    };
                    self.emitter.push(call);
                }
            }
            Action::Copy { src, dst, size_bytes } => {
                self.emitter.push(Call::Copy { src: at(*src), dst: at(*dst), size_bytes: *size_bytes });
            }
            Action::RankSlice { axis, src, src_bytes, dst, size_bytes } => {
                let (src, dst) = (at(*src), at(*dst));
                let (axis, src_bytes, size_bytes) = (*axis, *src_bytes, *size_bytes);
                self.emitter.push(Call::RankSlice { axis, src, src_bytes, dst, size_bytes });
            }
            Action::Zero { dst, size_bytes } => {
                self.emitter.push(Call::Zero { dst: at(*dst), size_bytes: *size_bytes });
            }
            Action::Record { event } => self.emitter.push(Call::Record { event: *event }),
            Action::Wait { event } => self.emitter.push(Call::Wait { event: *event }),
        }
        let calls = self.emitter.take();
        let submission = |call| Step::Call(Submission { call, stream: instr.stream, source });
        steps.extend(calls.into_iter().map(submission));
        Ok(())
    }
}
