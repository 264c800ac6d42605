//! Replay: one instruction after another, each on all threads of the rank.

use super::bind::{Bound, BoundSegment, Memory, Step};
use crate::comm::{Comm, Stopped};
use crate::kernels::{self, Epilogue, RowKernelFn, ThreadScratch};
use crate::pool::Pool;
use std::time::Instant;
use titan_ir::plan::Domain;

/// Why a rank ended a step early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepError {
    /// Another rank failed.
    Stopped,
    /// A guarded scalar is not finite; nothing of the state has been written.
    NotFinite {
        /// Segment.
        segment: usize,
        /// Instruction.
        instr: usize,
    },
}

impl From<Stopped> for StepError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Time spent in every instruction.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Per segment, per instruction, in nanoseconds.
    pub spent_ns: Vec<Vec<u64>>,
    /// Steps measured.
    pub num_steps: u64,
}

impl Profile {
    /// Nothing spent yet.
    pub fn new(step: &Step) -> Self {
        Self { spent_ns: step.segments.iter().map(|s| vec![0; s.instrs.len()]).collect(), num_steps: 0 }
    }
}

/// One rank, ready to run.
#[derive(Debug)]
pub struct Rank {
    /// Its place among the others.
    pub comm: Comm,
    /// Its threads.
    pub pool: Pool,
    /// Its memory.
    pub memory: Memory,
    /// Its plan.
    pub step: Step,
    /// Filled when there is one.
    pub profile: Option<Profile>,
}

impl Rank {
    /// Runs a segment once. Allocates nothing.
    ///
    /// # Errors
    /// See [`StepError`].
    pub fn run_segment(&mut self, segment: usize) -> Result<(), StepError> {
        let scratch = self.memory.scratch();
        let BoundSegment { instrs, .. } = &self.step.segments[segment];
        for (index, instr) in instrs.iter().enumerate() {
            let start = self.profile.is_some().then(Instant::now);
            let finite = run(instr, &self.pool, &self.comm, &scratch)?;
            if let (Some(profile), Some(start)) = (&mut self.profile, start) {
                profile.spent_ns[segment][index] +=
                    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            }
            if !finite {
                return Err(StepError::NotFinite { segment, instr: index });
            }
        }
        Ok(())
    }

    /// Runs one instruction, for diagnosis.
    ///
    /// # Errors
    /// When another rank failed.
    pub fn run_instr(&self, segment: usize, instr: usize) -> Result<bool, Stopped> {
        run(&self.step.segments[segment].instrs[instr], &self.pool, &self.comm, &self.memory.scratch())
    }
}

/// Runs an instruction; false if it is a guard and a scalar is not finite.
fn run(instr: &Bound, pool: &Pool, comm: &Comm, scratch: &ThreadScratch) -> Result<bool, Stopped> {
    // SAFETY (all calls below): the plan was verified at build and by its hash at load: addresses are inside the arenas, aligned, and as large as
    // the specifications say; no instruction's operands are in use by another.
    match instr {
        Bound::Launch { kernel, args, domain } => launch(*kernel, args, *domain, pool),
        Bound::Contract { spec, operands: [a, b, c], epilogue } => {
            let epilogue = epilogue.as_ref().map(|(kernel, args)| Epilogue { kernel: *kernel, args });
            // SAFETY: see above.
            unsafe { kernels::contract(pool, spec, *a, *b, *c, epilogue, scratch) };
        }
        Bound::Attention(spec, args) => {
            // SAFETY: see above.
            unsafe { kernels::attention(pool, spec, args, scratch) };
        }
        Bound::AttentionGrad(spec, args) => {
            // SAFETY: see above.
            unsafe { kernels::attention_grad(pool, spec, args, scratch) };
        }
        Bound::ScatterAdd(spec, [ids, rows, out]) => {
            // SAFETY: see above.
            unsafe { kernels::scatter_add(pool, spec, ids.cast(), *rows, *out) };
        }
        Bound::Collective(axis, call) => {
            // SAFETY: see above.
            unsafe { comm.run(*axis, call, pool)? };
        }
        Bound::Copy(src, size_bytes, dst, zeros) => copy(*src, *size_bytes, *dst, *zeros, pool),
        Bound::Guard(scalars) => {
            // SAFETY: see above.
            return Ok(scalars.iter().all(|s| unsafe { s.cast::<f32>().read() }.is_finite()));
        }
        Bound::Order => {}
    }
    Ok(true)
}

/// An operand list threads may share.
#[derive(Clone, Copy)]
struct Args<'a>(&'a [*mut u8]);
// SAFETY: a kernel's calls write disjoint parts of its outputs.
unsafe impl Sync for Args<'_> {}

fn launch(kernel: RowKernelFn, args: &[*mut u8], domain: Domain, pool: &Pool) {
    let args = Args(args);
    let call = |i0: u64, i1: u64, j0: u64, j1: u64| {
        let args = { args };
        // SAFETY: the arguments are those the kernel was generated for.
        unsafe { kernel(args.0.as_ptr(), i0 as i64, i1 as i64, j0 as i64, j1 as i64) };
    };
    match domain {
        Domain::Rows { rows, cols, grain } => pool.run(rows.div_ceil(grain) as usize, &|task, _| {
            let first = task as u64 * grain;
            call(first, rows.min(first + grain), 0, cols);
        }),
        Domain::Flat { len, chunk } => pool.run(len.div_ceil(chunk) as usize, &|task, _| {
            let task = task as u64;
            call(task, task + 1, task * chunk, len.min((task + 1) * chunk));
        }),
    }
}

const COPY_CHUNK_BYTES: usize = 1 << 18;

fn copy(src: *mut u8, size_bytes: usize, dst: *mut u8, zero_bytes: usize, pool: &Pool) {
    let ends = [src, dst];
    let ends = Args(&ends);
    let total = size_bytes + zero_bytes;
    pool.run(total.div_ceil(COPY_CHUNK_BYTES), &|task, _| {
        let [src, dst] = [{ ends }.0[0], { ends }.0[1]];
        let (start, end) = (task * COPY_CHUNK_BYTES, total.min((task + 1) * COPY_CHUNK_BYTES));
        let middle = size_bytes.clamp(start, end);
        // SAFETY: this chunk of the destination, and of the source up to its end.
        unsafe {
            std::ptr::copy_nonoverlapping(src.wrapping_add(start), dst.add(start), middle - start);
            std::ptr::write_bytes(dst.add(middle), 0, end - middle);
        }
    });
}
