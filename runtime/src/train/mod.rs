//! A run: every rank of this process is a thread, rank 0 speaks.

mod rank;

use crate::cli::Options;
use crate::device::RankError;
use crate::device::ascend::Backend;
use crate::diagnose::Finding;
use crate::host::Data;
use crate::launch::Launch;
use crate::link::Link;
use crate::load::{Code, Loaded, load};
use crate::metrics::{info, warning, with_commas};
use crate::placement::{Placement, allowed_cpus};
use crate::report::Journal;
use crate::state::Gathered;
use crate::team::Team;
use crate::{interrupt, memory, outputs};
use std::sync::{Barrier, Mutex, PoisonError};
use titan_ir::{Diag, DiagResult};

/// Runs `titan-run`.
///
/// # Errors
/// What the user can mend, of the first rank that failed.
pub fn run(options: &Options) -> DiagResult<()> {
    let journal = Journal::new();
    let result = run_ranks(options, &journal);
    let Some(path) = &options.report else { return result };
    let written = journal.write(path, options, result.as_ref().err());
    match (result, written) {
        (Err(diag), Err(unwritten)) => {
            warning(&unwritten.message);
            Err(diag)
        }
        (result, written) => result.and(written),
    }
}

fn run_ranks(options: &Options, journal: &Journal) -> DiagResult<()> {
    let launch = Launch::new(options, |name| std::env::var(name).ok())?;
    for name in launch.without_effect(options) {
        warning(&format!("{name} has no effect: this process has all ranks of the run"));
    }
    let loaded = load(&options.artifact, launch.world_size, options.device)?;
    journal.artifact(&loaded);
    let steps = check_steps(options, &loaded)?;
    outputs::check(options)?;
    interrupt::listen();
    let cpus = allowed_cpus();
    let num_local = launch.num_local() as usize;
    let placement = Placement::new(num_local, options.threads.map(|t| t as usize), &cpus);
    if matches!(loaded.code, Code::Cpu(_)) {
        check_memory(&loaded.plan, num_local as u64, placement.threads_per_rank as u64)?;
    }
    let data = Data::open(options, &loaded, steps)?;
    let fingerprint = loaded.manifest.fingerprint.get("all").cloned().unwrap_or_default();
    let team = Team::new(launch, &loaded.plan.mesh, fingerprint, steps, options.save_weights.is_some())?;
    let result = run_team(options, &loaded, data, steps, placement, &team, journal);
    if let Some(link) = &team.link {
        link.close(result.as_ref().err());
    }
    result
}

fn run_team(
    options: &Options,
    loaded: &Loaded,
    data: Data<'_>,
    steps: u64,
    placement: Placement,
    team: &Team,
    journal: &Journal,
) -> DiagResult<()> {
    let num_local = team.launch.num_local() as usize;
    let backend = match &loaded.code {
        Code::Cpu(_) => None,
        Code::Ascend(code) => Some(Backend::new(options, code, team, journal)?),
    };
    let run = Run {
        backend,
        data,
        options,
        loaded,
        steps,
        placement,
        team,
        leaving: Barrier::new(num_local),
        failure: Mutex::new(None),
        weights: team.saves_weights.then(|| Gathered::new(&loaded.plan)),
        profile: Mutex::new(None),
        journal,
    };
    run.announce();
    run.run_ranks(num_local);
    let failure = run.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (failure, team.link.as_ref().and_then(Link::failure)) {
        (None, None) => run.finish(),
        // The others stop here because of what happened there.
        (None, Some(there)) => Err(there),
        (Some(Failure { diag, .. }), Some(there)) if diag.code == there.code => Err(there),
        // CANN saw it too, and knows less.
        (Some(Failure { diag, .. }), Some(there)) if diag.code == "T0742" => Err(there.note(diag.message)),
        (Some(Failure { rank, diag, .. }), _) if team.launch.world_size > 1 => {
            let num_ranks = team.launch.world_size;
            Err(diag.note(format!("rank {rank} failed, so all {num_ranks} stopped")))
        }
        (Some(Failure { diag, .. }), _) => Err(diag),
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
    backend: Option<Backend<'a>>,
    options: &'a Options,
    loaded: &'a Loaded,
    steps: u64,
    placement: Placement,
    data: Data<'a>,
    team: &'a Team,
    /// Where ranks meet at their end, however they come to it.
    leaving: Barrier,
    /// The failure to report: the earliest of its kind, of the lowest rank.
    failure: Mutex<Option<Failure>>,
    /// The trained weights, if they are to be saved.
    weights: Option<Gathered<'a>>,
    /// Where the time of rank 0 went, if that was asked for.
    profile: Mutex<Option<String>>,
    journal: &'a Journal,
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
            self.0.team.world.stop();
        }
        self.0.leaving.wait();
    }
}

impl Run<'_> {
    fn announce(&self) {
        let manifest = &self.loaded.manifest;
        let axes = self.loaded.plan.mesh.axes.iter().map(|a| format!("{}={}", a.name, a.size));
        let Launch { ranks, world_size, .. } = &self.team.launch;
        if self.team.link.is_some() {
            info(&format!("Ranks {} to {} of {world_size}", ranks.start, ranks.end - 1));
        }
        info(&format!("Starting job: {}", manifest.run.description));
        info(&format!("Building device mesh with parallelism: {}", axes.collect::<Vec<_>>().join(", ")));
        info(&format!(
            "Model {} {} size: {} total parameters",
            manifest.model.name,
            manifest.model.flavor,
            with_commas(manifest.model.num_params)
        ));
        let threads = self.placement.threads_per_rank;
        let num_threads = threads * self.team.launch.num_local() as usize;
        if self.backend.is_none() && num_threads > allowed_cpus().len() {
            warning(
                "more threads than CPUs: ranks share CPUs, and the times printed say little about a real run",
            );
        }
    }

    /// What is left to do when all ranks have run to the end.
    fn finish(self) -> DiagResult<()> {
        let is_first = self.team.launch.ranks.start == 0;
        if let Some(weights) = self.weights {
            match &self.team.link {
                Some(link) if !link.is_center() => link.give(&[])?,
                Some(link) => link.take_all(|bytes| take_part(&weights, bytes))?,
                None => {}
            }
            if let Some(path) = self.options.save_weights.as_ref().filter(|_| is_first) {
                weights.save(path)?;
                info(&format!("Saved the weights to {}", path.display()));
            }
        }
        if let Some(profile) = self.profile.into_inner().unwrap_or_else(PoisonError::into_inner) {
            print!("{profile}");
        }
        let interrupted = self.team.stop_at() != u64::MAX;
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

    fn rank_thread(&self, local: u64) {
        let comm = self.team.comm(local);
        let rank = self.team.rank(&comm);
        let mut device = None;
        let leaving = Leaving(self);
        if let Err(RankError::Failed(failed)) = self.run_rank(&comm, &mut device) {
            let (finding, diag) = *failed;
            // Once a rank has failed, CANN fails where others waited for it: that is no news.
            if diag.code != "T0742" || comm.check().is_ok() {
                self.team.fail(&diag);
                self.fail(Failure { rank, finding, diag });
            }
        }
        drop(leaving);
        let Some(device) = device else { return };
        self.journal.rank(device.facts());
        if let Err(diag) = device.close() {
            self.fail(Failure { rank, finding: None, diag });
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
}

/// Where a part of the weights belongs, ahead of its bytes on the way from another process.
const PART_HEAD_BYTES: usize = 16;

fn take_part(weights: &Gathered<'_>, bytes: &[u8]) {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b));
    if let Some((head, part)) = bytes.split_at_checked(PART_HEAD_BYTES) {
        weights.put(number(&head[..8]), number(&head[8..]), part);
    }
}
