//! One rank's run: its device, its data, the training loop.

use super::{Failure, Run};
use crate::comm::Comm;
use crate::device::cpu::Cpu;
use crate::device::{Device, RankError, StepError};
use crate::diagnose::{self, Stop};
use crate::host::{Host, num_microbatches, tensor};
use crate::load::Code;
use crate::metrics::{Reporter, info, wants_color, warning};
use crate::pool::Pool;
use crate::{interrupt, outputs, state};
use std::sync::PoisonError;
use titan_ir::Diag;

impl Run<'_> {
    /// Runs the rank of `comm`, whose device is kept in `place`.
    pub(super) fn run_rank<'a>(
        &'a self,
        comm: &Comm,
        place: &mut Option<Box<dyn Device + 'a>>,
    ) -> Result<(), RankError> {
        let (rank, loaded, options) = (self.team.rank(comm), self.loaded, self.options);
        let plan = &loaded.plan;
        let device = &mut **place.insert(self.open(comm)?);
        state::initialize(device, rank, plan, options, &loaded.manifest)?;
        let mut host = Host::new(&self.data, rank)?;
        if rank == 0 {
            info(&format!("Training on {}", host.summary()));
        }
        let mut reporter = (rank == 0).then(|| self.reporter(device));
        self.team.meet(comm)?;
        interrupt::steps_begin();
        if let Some(reporter) = &mut reporter {
            reporter.start();
        }
        self.train(comm, device, &mut host, &mut reporter)?;
        if let Some(diag) = diagnose::after_last_step(device, plan, rank)? {
            return Err(diag.into());
        }
        self.team.meet(comm)?;
        if let Some(weights) = &self.weights {
            let link = self.team.link.as_ref().filter(|link| !link.is_center());
            weights.parts(device, rank, &|number, start, part| match link {
                None => {
                    weights.put(number, start, part);
                    Ok(())
                }
                Some(link) => link.give(&[&number.to_le_bytes(), &start.to_le_bytes(), part]),
            })?;
        }
        if rank == 0 {
            *self.profile.lock().unwrap_or_else(PoisonError::into_inner) = device.profile();
        }
        Ok(())
    }

    /// Makes a rank's device.
    fn open<'a>(&'a self, comm: &Comm) -> Result<Box<dyn Device + 'a>, RankError> {
        let placement = &self.placement;
        let pool = Pool::new(placement.threads_per_rank, placement.cpus_of(comm.rank as usize));
        let profiled = self.options.profile && self.team.rank(comm) == 0;
        match (&self.loaded.code, &self.backend) {
            (Code::Cpu(code), _) => Ok(Box::new(Cpu::new(self.loaded, code, comm.clone(), pool, profiled)?)),
            (Code::Ascend(_), Some(backend)) => {
                Ok(Box::new(backend.open(self.loaded, self.team, comm, pool, profiled)?))
            }
            (Code::Ascend(_), None) => titan_ir::ice!("an Ascend program has a backend"),
        }
    }

    fn train(
        &self,
        comm: &Comm,
        device: &mut dyn Device,
        host: &mut Host,
        reporter: &mut Option<Reporter>,
    ) -> Result<(), RankError> {
        let rank = self.team.rank(comm);
        for step in 1..=self.steps {
            if comm.rank == 0 && interrupt::requested() {
                self.team.ask_to_stop(step);
            }
            self.team.meet(comm)?;
            if self.team.stop_at() <= step {
                if rank == 0 {
                    info(&format!("Interrupted: stopping after step {}", step - 1));
                }
                return Ok(());
            }
            host.fetch()?;
            if rank == 0 {
                host.take_warnings().iter().for_each(|diag| warning(&diag.message));
            }
            match device.step(&host.inputs(step)) {
                Ok(()) => {}
                Err(StepError::Ended(error)) => return Err(error),
                Err(StepError::NotFinite(at)) => return Err(self.explain(comm, device, host, step, at)?),
            }
            let [loss, grad_norm, lr] = device.outputs();
            if comm.rank == 0 {
                self.journal.step(step, loss);
            }
            if let Some(reporter) = reporter {
                reporter.step(step, loss, grad_norm, lr).map_err(|e| {
                    let path = self.options.metrics_json.clone().unwrap_or_default();
                    outputs::unwritable("T0704", "--metrics-json", &path, &e)
                })?;
            }
        }
        Ok(())
    }

    /// Finds the value that stopped a step. Every rank searches; the earliest finding is reported.
    fn explain(
        &self,
        comm: &Comm,
        device: &mut dyn Device,
        host: &Host,
        step: u64,
        at: Stop,
    ) -> Result<RankError, RankError> {
        let [loss, grad_norm, _] = device.outputs();
        let finding = device.explain(&host.inputs(step), at)?;
        let unknown =
            || Diag::new("T0710", format!("step {step}: loss {loss}, grad_norm {grad_norm}: not finite"));
        let rank = self.team.rank(comm);
        let diag = finding.as_ref().map_or_else(unknown, |f| f.diag(rank, step));
        self.fail(Failure { rank, finding: finding.clone(), diag: diag.clone() });
        self.team.meet(comm)?;
        Ok(RankError::Failed(Box::new((finding, diag))))
    }

    fn reporter(&self, device: &dyn Device) -> Reporter {
        let peak_flops = device.peak_flops();
        let manifest = &self.loaded.manifest;
        let tokens = tensor(&self.loaded.plan.tensors, "tokens");
        let microbatches = num_microbatches(&self.loaded.plan);
        let color = manifest.run.color && !self.options.no_color && wants_color();
        let mut reporter = Reporter::new(manifest.run.log_freq, color);
        reporter.tokens_per_step = tokens.local_dims.iter().product::<u64>() * microbatches;
        reporter.flops_per_token = manifest.model.flops_per_token;
        reporter.peak_flops = peak_flops;
        reporter.memory_bytes = device.memory_bytes();
        reporter.json_path.clone_from(&self.options.metrics_json);
        reporter.capacity_bytes = device.capacity_bytes();
        info(&format!("Peak FLOPS used for computing MFU: {peak_flops:.3e}"));
        info(&format!(
            "Training starts at step 1, with local batch size {}, gradient accumulation steps {microbatches}, \
             sequence length {}, total steps {}",
            tokens.local_dims[0], manifest.run.seq_len, self.steps
        ));
        reporter
    }
}
