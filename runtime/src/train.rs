//! The training loop: every rank is a thread, rank 0 speaks.

use crate::cli::Options;
use crate::comm::{Comm, Stopped, World};
use crate::diagnose::{self, Finding, Stop};
use crate::exec::{Memory, Profile, Rank, Step, StepError};
use crate::host::{Data, Host, num_microbatches, tensor};
use crate::load::{Loaded, load};
use crate::metrics::{Reporter, info, wants_color, warning, with_commas};
use crate::placement::{Placement, allowed_cpus};
use crate::pool::Pool;
use crate::{interrupt, kernels, memory, outputs, profile, state};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use titan_ir::{DType, Diag, DiagResult};

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
    };
    run.announce();
    let ranks = run.run_ranks(num_ranks);
    match run.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        None => {
            let interrupted = run.stop_at.into_inner() != u64::MAX;
            finish(options, &loaded, &ranks, interrupted)
        }
        Some(Failure { rank, diag, .. }) if num_ranks > 1 => {
            Err(diag.note(format!("rank {rank} failed, so all {num_ranks} stopped")))
        }
        Some(Failure { diag, .. }) => Err(diag),
    }
}

/// What is left to do when all ranks have run to the end.
fn finish(options: &Options, loaded: &Loaded, ranks: &[Rank], interrupted: bool) -> DiagResult<()> {
    if let Some(path) = &options.save_weights {
        state::save_weights(ranks, &loaded.plan, path)?;
        info(&format!("Saved the weights to {}", path.display()));
    }
    if let Some(profile) = ranks.first().and_then(|rank| rank.profile.as_ref()) {
        profile::print(profile, &loaded.plan, loaded, ranks[0].pool.num_threads());
    }
    info(if interrupted { "Training interrupted" } else { "Training completed" });
    Ok(())
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
}

/// What a rank found.
struct Failure {
    rank: u64,
    /// Where in the step, when it is about a value of a step.
    finding: Option<Finding>,
    diag: Diag,
}

/// Why a rank ended early.
enum RankError {
    /// It found something.
    Failed(Box<(Option<Finding>, Diag)>),
    /// Another rank did.
    Stopped,
}

impl From<Diag> for RankError {
    fn from(diag: Diag) -> Self {
        Self::Failed(Box::new((None, diag)))
    }
}

impl From<Stopped> for RankError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
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

    /// Runs every rank in a thread of its own and gives those that ran to the end.
    ///
    /// # Panics
    /// When a rank did.
    fn run_ranks(&self, num_ranks: usize) -> Vec<Rank> {
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
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.filter_map(|rank| rank.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    fn rank_thread(&self, number: u64) -> Option<Rank> {
        let mut rank = None;
        // Dropped before the rank.
        let _leaving = Leaving(self);
        match self.run_rank(Comm::new(&self.world, number), &mut rank) {
            Ok(()) => rank.take(),
            Err(RankError::Stopped) => None,
            Err(RankError::Failed(failed)) => {
                let (finding, diag) = *failed;
                self.fail(Failure { rank: number, finding, diag });
                self.world.stop();
                None
            }
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

    /// Runs the rank of `comm`, which is kept in `rank`.
    fn run_rank(&self, comm: Comm, rank: &mut Option<Rank>) -> Result<(), RankError> {
        let (rank_number, loaded, options) = (comm.rank, self.loaded, self.options);
        let plan = &loaded.plan;
        let threads = self.placement.threads_per_rank;
        let pool = Pool::new(threads, self.placement.cpus_of(rank_number as usize));
        let memory = Memory::map(plan, threads).map_err(|e| {
            Diag::new(
                "T0703",
                format!(
                    "rank {rank_number} cannot map the {} bytes of its plan: {e}",
                    plan.memory.total_bytes(threads as u64)
                ),
            )
            .help("use more ranks, or rebuild with a smaller `training.local_batch_size`")
        })?;
        let step = Step::bind(plan, &memory, &loaded.image, &comm);
        let profile = (options.profile && rank_number == 0).then(|| Profile::new(&step));
        let rank = rank.insert(Rank { comm, pool, memory, step, profile });
        state::initialize(rank, plan, options, &loaded.manifest)?;
        let mut host = Host::new(&self.data, rank)?;
        if rank.comm.rank == 0 {
            info(&format!("Training on {}", host.summary()));
        }
        let peak = if rank_number == 0 { kernels::peak::peak(&rank.pool, self.compute_dtype()) } else { 1.0 };
        let mut reporter = (rank_number == 0).then(|| self.reporter(rank, peak));
        rank.comm.barrier()?;
        if let Some(reporter) = &mut reporter {
            reporter.start();
        }
        self.train(rank, &mut host, &mut reporter)?;
        if let Some(diag) = diagnose::after_last_step(rank, plan) {
            return Err(diag.into());
        }
        rank.comm.barrier()?;
        Ok(())
    }

    fn train(
        &self,
        rank: &mut Rank,
        host: &mut Host,
        reporter: &mut Option<Reporter>,
    ) -> Result<(), RankError> {
        for step in 1..=self.steps {
            if rank.comm.rank == 0 && interrupt::requested() {
                self.stop_at.fetch_min(step, Ordering::SeqCst);
            }
            rank.comm.barrier()?;
            if self.stop_at.load(Ordering::SeqCst) <= step {
                if rank.comm.rank == 0 {
                    info(&format!("Interrupted: stopping after step {}", step - 1));
                }
                return Ok(());
            }
            host.fetch()?;
            if rank.comm.rank == 0 {
                host.take_warnings().iter().for_each(|diag| warning(&diag.message));
            }
            match host.run_step(rank, step) {
                Ok(()) => {}
                Err(StepError::Stopped) => return Err(RankError::Stopped),
                Err(StepError::NotFinite { segment, instr }) => {
                    let at = Stop { step, segment, instr };
                    return Err(self.explain(rank, host, at)?);
                }
            }
            if let Some(reporter) = reporter {
                let [loss, grad_norm, lr] = host.outputs();
                reporter.step(step, loss, grad_norm, lr).map_err(|e| {
                    let path = self.options.metrics_json.clone().unwrap_or_default();
                    outputs::unwritable("T0704", "--metrics-json", &path, &e)
                })?;
            }
        }
        Ok(())
    }

    /// Finds the value that stopped a step. Every rank searches; the earliest finding is reported.
    fn explain(&self, rank: &Rank, host: &Host, at: Stop) -> Result<RankError, Stopped> {
        let finding = diagnose::find(rank, &self.loaded.plan, &self.loaded.kernels, host, at);
        let [loss, grad_norm, _] = host.outputs();
        let unknown = || {
            Diag::new("T0710", format!("step {}: loss {loss}, grad_norm {grad_norm}: not finite", at.step))
        };
        let diag = finding.as_ref().map_or_else(unknown, |f| f.diag(rank.comm.rank, at));
        let failure = Failure { rank: rank.comm.rank, finding: finding.clone(), diag: diag.clone() };
        self.fail(failure);
        rank.comm.barrier()?;
        Ok(RankError::Failed(Box::new((finding, diag))))
    }

    fn compute_dtype(&self) -> DType {
        DType::from_name(&self.loaded.manifest.run.compute_dtype).unwrap_or(DType::F32)
    }

    fn reporter(&self, rank: &Rank, peak_flops: f64) -> Reporter {
        let manifest = &self.loaded.manifest;
        let tokens = tensor(&self.loaded.plan.tensors, "tokens");
        let microbatches = num_microbatches(&self.loaded.plan);
        let color = manifest.run.color && !self.options.no_color && wants_color();
        let mut reporter = Reporter::new(manifest.run.log_freq, color);
        reporter.tokens_per_step = tokens.local_dims.iter().product::<u64>() * microbatches;
        reporter.flops_per_token = manifest.model.flops_per_token;
        reporter.peak_flops = peak_flops;
        reporter.memory_bytes = rank.memory.len_bytes();
        reporter.json_path.clone_from(&self.options.metrics_json);
        reporter.capacity_bytes = memory::machine_bytes() / self.options.world_size();
        info(&format!("Peak FLOPS used for computing MFU: {peak_flops:.3e}"));
        info(&format!(
            "Training starts at step 1, with local batch size {}, gradient accumulation steps {microbatches}, \
             sequence length {}, total steps {}",
            tokens.local_dims[0], manifest.run.seq_len, self.steps
        ));
        reporter
    }
}
