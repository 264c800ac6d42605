//! The training loop: every rank is a thread, rank 0 speaks.

use crate::cli::Options;
use crate::comm::{Comm, World};
use crate::device::cpu::Cpu;
use crate::device::{Device, RankError, StepError};
use crate::diagnose::{self, Finding, Stop};
use crate::host::{Data, Host, num_microbatches, tensor};
use crate::load::{Code, Loaded, load};
use crate::metrics::{Reporter, info, wants_color, warning, with_commas};
use crate::placement::{Placement, allowed_cpus};
use crate::pool::Pool;
use crate::state::{self, Gathered};
use crate::{interrupt, memory, outputs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use titan_ir::{Diag, DiagResult};

/// Runs `titan-run`.
///
/// # Errors
/// What the user can mend, of the first rank that failed.
pub fn run(options: &Options) -> DiagResult<()> {
    if options.device != "cpu" {
        return Err(Diag::new(
            "T0701",
            format!("this program has no device `{}`, only `cpu`", options.device),
        ));
    }
    let loaded = load(&options.artifact, options.world_size())?;
    let steps = check_steps(options, &loaded)?;
    outputs::check(options)?;
    interrupt::listen();
    let cpus = allowed_cpus();
    let num_ranks = options.world_size() as usize;
    let placement = Placement::new(num_ranks, options.threads.map(|t| t as usize), &cpus);
    check_memory(&loaded.plan, num_ranks as u64, placement.threads_per_rank as u64)?;
    let run = Run {
        data: Data::open(options, &loaded, steps)?,
        options,
        loaded: &loaded,
        steps,
        placement,
        world: World::new(&loaded.plan.mesh),
        leaving: Barrier::new(num_ranks),
        stop_at: AtomicU64::new(u64::MAX),
        failure: Mutex::new(None),
        weights: options.save_weights.as_ref().map(|_| Gathered::new(&loaded.plan)),
        profile: Mutex::new(None),
    };
    run.announce();
    run.run_ranks(num_ranks);
    let failure = run.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    match failure {
        None => run.finish(),
        Some(Failure { rank, diag, .. }) if num_ranks > 1 => {
            Err(diag.note(format!("rank {rank} failed, so all {num_ranks} stopped")))
        }
        Some(Failure { diag, .. }) => Err(diag),
    }
}

fn check_steps(options: &Options, loaded: &Loaded) -> DiagResult<u64> {
    let run = &loaded.manifest.run;
    let steps = options.steps.unwrap_or(run.steps);
    if steps <= run.max_steps {
        return Ok(steps);
    }
    Err(Diag::new(
        "T0702",
        format!("--steps {steps}, but the artifact's learning rate schedule has {}", run.max_steps),
    )
    .help(format!("rebuild it with `--training.steps {steps}`")))
}

/// All ranks of the run are on this machine: together they must fit it.
fn check_memory(plan: &titan_ir::Plan, num_ranks: u64, threads: u64) -> DiagResult<()> {
    let needed = num_ranks.saturating_mul(plan.memory.total_bytes(threads));
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let total = memory::machine_bytes();
    if needed > total {
        let message =
            format!("{num_ranks} ranks need {:.1} GiB, this machine has {:.1} GiB", gib(needed), gib(total));
        return Err(Diag::new("T0705", message).help(
            "rebuild with a smaller batch or more recomputation, e.g. `--activation_checkpoint.mode full`",
        ));
    }
    let available = memory::available_bytes();
    if needed > available {
        warning(&format!(
            "the run needs {:.1} GiB, {:.1} GiB are free: the system may stop it",
            gib(needed),
            gib(available)
        ));
    }
    Ok(())
}

/// What all ranks share.
struct Run<'a> {
    options: &'a Options,
    loaded: &'a Loaded,
    steps: u64,
    placement: Placement,
    data: Data<'a>,
    world: Arc<World>,
    /// Where ranks meet at their end, however they come to it.
    leaving: Barrier,
    /// The last step, once the user asked to stop.
    stop_at: AtomicU64,
    /// The failure to report: the earliest of its kind, of the lowest rank.
    failure: Mutex<Option<Failure>>,
    /// The trained weights, if they are to be saved.
    weights: Option<Gathered>,
    /// Where the time of rank 0 went, if that was asked for.
    profile: Mutex<Option<String>>,
}

/// What a rank found.
struct Failure {
    rank: u64,
    /// Where in the step, when it is about a value of a step.
    finding: Option<Finding>,
    diag: Diag,
}

/// A rank's thread on its way out: its memory stays until no other rank can be reading it.
struct Leaving<'a>(&'a Run<'a>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        // The others would wait for a rank whose thread unwinds.
        if std::thread::panicking() {
            self.0.world.stop();
        }
        self.0.leaving.wait();
    }
}

impl Run<'_> {
    fn announce(&self) {
        let manifest = &self.loaded.manifest;
        let axes = self.loaded.plan.mesh.axes.iter().map(|a| format!("{}={}", a.name, a.size));
        info(&format!("Starting job: {}", manifest.run.description));
        info(&format!("Building device mesh with parallelism: {}", axes.collect::<Vec<_>>().join(", ")));
        info(&format!(
            "Model {} {} size: {} total parameters",
            manifest.model.name,
            manifest.model.flavor,
            with_commas(manifest.model.num_params)
        ));
        let threads = self.placement.threads_per_rank;
        if threads * self.options.world_size() as usize > allowed_cpus().len() {
            warning(
                "more threads than CPUs: ranks share CPUs, and the times printed say little about a real run",
            );
        }
    }

    /// What is left to do when all ranks have run to the end.
    fn finish(self) -> DiagResult<()> {
        if let (Some(path), Some(weights)) = (&self.options.save_weights, self.weights) {
            weights.save(&self.loaded.plan, path)?;
            info(&format!("Saved the weights to {}", path.display()));
        }
        if let Some(profile) = self.profile.into_inner().unwrap_or_else(PoisonError::into_inner) {
            print!("{profile}");
        }
        let interrupted = self.stop_at.into_inner() != u64::MAX;
        info(if interrupted { "Training interrupted" } else { "Training completed" });
        Ok(())
    }

    /// Runs every rank in a thread of its own.
    ///
    /// # Panics
    /// When a rank did.
    fn run_ranks(&self, num_ranks: usize) {
        std::thread::scope(|scope| {
            let spawn = |rank: usize| {
                let thread = std::thread::Builder::new().name(format!("titan-rank-{rank}"));
                thread.spawn_scoped(scope, move || self.rank_thread(rank as u64)).unwrap_or_else(|e| {
                    // The ranks already started would wait for the others for ever.
                    eprintln!(
                        "{}",
                        Diag::new("T0706", format!("the system refuses a thread for rank {rank}: {e}"))
                    );
                    std::process::exit(1)
                })
            };
            let threads: Vec<_> = (0..num_ranks).map(spawn).collect();
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
    }

    fn rank_thread(&self, number: u64) {
        let mut device = None;
        let leaving = Leaving(self);
        let result = self.run_rank(Comm::new(&self.world, number), &mut device);
        if let Err(RankError::Failed(failed)) = result {
            let (finding, diag) = *failed;
            self.fail(Failure { rank: number, finding, diag });
            self.world.stop();
        }
        drop(leaving);
        if let Some(Err(diag)) = device.map(Device::close) {
            self.fail(Failure { rank: number, finding: None, diag });
        }
    }

    fn fail(&self, failure: Failure) {
        // Which rank is first to speak is chance; which is first in this order is not.
        let order = |f: &Failure| (f.finding.is_none(), f.finding.clone(), f.rank);
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|first| order(&failure) < order(first)) {
            *first = Some(failure);
        }
    }

    /// Runs the rank of `comm`, whose device is kept in `place`.
    fn run_rank<'a>(&'a self, comm: Comm, place: &mut Option<Box<dyn Device + 'a>>) -> Result<(), RankError> {
        let (rank, loaded, options) = (comm.rank, self.loaded, self.options);
        let plan = &loaded.plan;
        let device = &mut **place.insert(self.open(&comm)?);
        state::initialize(device, rank, plan, options, &loaded.manifest)?;
        let mut host = Host::new(&self.data, rank)?;
        if rank == 0 {
            info(&format!("Training on {}", host.summary()));
        }
        let mut reporter = (rank == 0).then(|| self.reporter(device));
        comm.barrier()?;
        if let Some(reporter) = &mut reporter {
            reporter.start();
        }
        self.train(&comm, device, &mut host, &mut reporter)?;
        if let Some(diag) = diagnose::after_last_step(device, plan, rank)? {
            return Err(diag.into());
        }
        comm.barrier()?;
        if let Some(weights) = &self.weights {
            weights.add(device, rank, plan)?;
        }
        if rank == 0 {
            *self.profile.lock().unwrap_or_else(PoisonError::into_inner) = device.profile();
        }
        Ok(())
    }

    /// Makes a rank's device.
    fn open<'a>(&'a self, comm: &Comm) -> DiagResult<Box<dyn Device + 'a>> {
        let placement = &self.placement;
        let pool = Pool::new(placement.threads_per_rank, placement.cpus_of(comm.rank as usize));
        let profiled = self.options.profile && comm.rank == 0;
        match &self.loaded.code {
            Code::Cpu(code) => Ok(Box::new(Cpu::new(self.loaded, code, comm.clone(), pool, profiled)?)),
        }
    }

    fn train(
        &self,
        comm: &Comm,
        device: &mut dyn Device,
        host: &mut Host,
        reporter: &mut Option<Reporter>,
    ) -> Result<(), RankError> {
        for step in 1..=self.steps {
            if comm.rank == 0 && interrupt::requested() {
                self.stop_at.fetch_min(step, Ordering::SeqCst);
            }
            comm.barrier()?;
            if self.stop_at.load(Ordering::SeqCst) <= step {
                if comm.rank == 0 {
                    info(&format!("Interrupted: stopping after step {}", step - 1));
                }
                return Ok(());
            }
            host.fetch()?;
            if comm.rank == 0 {
                host.take_warnings().iter().for_each(|diag| warning(&diag.message));
            }
            match device.step(&host.inputs(step)) {
                Ok(()) => {}
                Err(StepError::Ended(error)) => return Err(error),
                Err(StepError::NotFinite(at)) => return Err(self.explain(comm, device, host, step, at)?),
            }
            if let Some(reporter) = reporter {
                let [loss, grad_norm, lr] = device.outputs();
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
        let diag = finding.as_ref().map_or_else(unknown, |f| f.diag(comm.rank, step));
        self.fail(Failure { rank: comm.rank, finding: finding.clone(), diag: diag.clone() });
        comm.barrier()?;
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
