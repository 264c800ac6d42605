//! A rank as threads of this process.

mod diagnose;

use super::{Device, Inputs, RankError, StepError, Write};
use crate::comm::Comm;
use crate::diagnose::{Finding, Stop};
use crate::exec::{self, Memory, Profile, Rank, Step};
use crate::host::tensor;
use crate::load::{CpuCode, Loaded};
use crate::pool::Pool;
use crate::{kernels, memory, profile};
use titan_ir::plan::PlanTensor;
use titan_ir::{DType, Diag, DiagResult, Plan};

/// A rank on the CPU.
#[derive(Debug)]
pub(crate) struct Cpu<'a> {
    loaded: &'a Loaded,
    code: &'a CpuCode,
    rank: Rank,
    ports: Ports,
    num_ranks: u64,
}

/// Where the host writes and reads in a rank's memory.
#[derive(Debug)]
struct Ports {
    tokens: *mut i32,
    labels: *mut i32,
    step: *mut i32,
    outputs: [*const f32; 3],
}

impl Ports {
    fn new(plan: &Plan, memory: &Memory) -> Self {
        let pointer = |name: &str| memory.tensor(tensor(&plan.tensors, name));
        Self {
            tokens: pointer("tokens").cast(),
            labels: pointer("labels").cast(),
            step: pointer("step").cast(),
            outputs: ["loss", "grad_norm", "lr"].map(|name| pointer(name).cast_const().cast()),
        }
    }

    /// Sets the step number.
    fn begin(&self, inputs: &Inputs<'_>) {
        // SAFETY: the address is this rank's, and no kernel runs.
        unsafe { self.step.write(inputs.index()) };
    }

    /// Puts a microbatch into the rank's memory.
    fn load(&self, inputs: &Inputs<'_>, microbatch: usize) {
        let [tokens, labels] = inputs.batch(microbatch);
        // SAFETY: the addresses are this rank's, as long as a microbatch, and no kernel runs.
        unsafe {
            std::ptr::copy_nonoverlapping(tokens.as_ptr(), self.tokens, tokens.len());
            std::ptr::copy_nonoverlapping(labels.as_ptr(), self.labels, labels.len());
        }
    }
}

impl<'a> Cpu<'a> {
    /// Maps the memory of the rank of `comm` and binds its plan to it.
    ///
    /// # Errors
    /// T0703 when the system has not enough memory.
    pub(crate) fn new(
        loaded: &'a Loaded,
        code: &'a CpuCode,
        comm: Comm,
        pool: Pool,
        profiled: bool,
    ) -> DiagResult<Self> {
        let (plan, threads) = (&loaded.plan, pool.num_threads());
        let memory = Memory::map(plan, threads).map_err(|e| {
            Diag::new(
                "T0703",
                format!(
                    "rank {} cannot map the {} bytes of its plan: {e}",
                    comm.rank,
                    plan.memory.total_bytes(threads as u64)
                ),
            )
            .help("use more ranks, or rebuild with a smaller `training.local_batch_size`")
        })?;
        let step = Step::bind(plan, &memory, &code.image, &comm);
        let profile = profiled.then(|| Profile::new(&step));
        let ports = Ports::new(plan, &memory);
        let rank = Rank { comm, pool, memory, step, profile };
        Ok(Self { loaded, code, rank, ports, num_ranks: plan.mesh.num_ranks() })
    }

    fn values(&self, tensor: &PlanTensor, len: u64) -> *mut f32 {
        self.rank.memory.at(tensor.address, len * 4).cast()
    }
}

impl From<exec::StepError> for StepError {
    fn from(error: exec::StepError) -> Self {
        match error {
            exec::StepError::Stopped => Self::Ended(RankError::Stopped),
            exec::StepError::NotFinite { segment, instr } => Self::NotFinite(Stop { segment, instr }),
        }
    }
}

impl Device for Cpu<'_> {
    fn write_state(&mut self, tensor: &PlanTensor, len: u64, write: &mut Write<'_>) -> Result<(), RankError> {
        // SAFETY: the tensor is this rank's f32 state, aligned, and no kernel runs.
        let values = unsafe { std::slice::from_raw_parts_mut(self.values(tensor, len), len as usize) };
        Ok(write(values, &self.rank.pool)?)
    }

    fn read_state(
        &self,
        tensor: &PlanTensor,
        len: u64,
        read: &mut dyn FnMut(&[f32]),
    ) -> Result<(), RankError> {
        // SAFETY: the tensor is this rank's f32 state, aligned, and no kernel runs.
        read(unsafe { std::slice::from_raw_parts(self.values(tensor, len), len as usize) });
        Ok(())
    }

    /// Allocates nothing.
    fn step(&mut self, inputs: &Inputs<'_>) -> Result<(), StepError> {
        self.ports.begin(inputs);
        for segment in 0..self.rank.step.segments.len() {
            for microbatch in 0..self.rank.step.segments[segment].repeat as usize {
                self.ports.load(inputs, microbatch);
                self.rank.run_segment(segment)?;
            }
        }
        if let Some(profile) = &mut self.rank.profile {
            profile.num_steps += 1;
        }
        Ok(())
    }

    fn outputs(&self) -> [f32; 3] {
        // SAFETY: scalars of this rank that no kernel is writing.
        self.ports.outputs.map(|at| unsafe { at.read() })
    }

    fn explain(&mut self, inputs: &Inputs<'_>, at: Stop) -> Result<Option<Finding>, RankError> {
        diagnose::find(self, &self.loaded.plan, &self.code.kernels, inputs, at)
    }

    fn memory_bytes(&self) -> u64 {
        self.rank.memory.len_bytes()
    }

    fn capacity_bytes(&self) -> u64 {
        memory::machine_bytes() / self.num_ranks
    }

    fn peak_flops(&self) -> f64 {
        let dtype = DType::from_name(&self.loaded.manifest.run.compute_dtype).unwrap_or(DType::F32);
        kernels::peak::peak(&self.rank.pool, dtype)
    }

    fn profile(&self) -> Option<String> {
        let Rank { profile, pool, .. } = &self.rank;
        let what = format!("{} threads, {} kernels", pool.num_threads(), self.code.kernels.kernels.len());
        profile.as_ref().map(|profile| profile::table(profile, &self.loaded.plan, &what))
    }

    fn facts(&self) -> serde_json::Value {
        serde_json::json!({ "rank": self.rank.comm.rank, "threads": self.rank.pool.num_threads() })
    }

    fn close(self: Box<Self>) -> DiagResult<()> {
        Ok(())
    }
}
