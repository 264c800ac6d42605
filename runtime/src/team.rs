//! The ranks of this process, and the other processes: where all meet.

use crate::comm::{Comm, World};
use crate::device::RankError;
use crate::launch::Launch;
use crate::link::{Hello, Link};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use titan_ir::{Axis, Diag, DiagResult, Mesh};

/// What the ranks of this process share.
#[derive(Debug)]
pub(crate) struct Team {
    pub(crate) launch: Launch,
    pub(crate) world: Arc<World>,
    pub(crate) link: Option<Link>,
    /// Whether the ranks bring the trained weights together.
    pub(crate) saves_weights: bool,
    /// The step before which all stop, once the user asked one process to.
    stop_at: AtomicU64,
}

impl Team {
    /// Meets the other processes, if there are any.
    ///
    /// # Errors
    /// T0762 and T0763 when they do not come together.
    pub(crate) fn new(
        launch: Launch,
        mesh: &Mesh,
        fingerprint: String,
        steps: u64,
        saves_weights: bool,
    ) -> DiagResult<Self> {
        let all_here = launch.num_local() == launch.world_size;
        let here = || Mesh { axes: vec![Axis { name: "ranks".to_owned(), size: launch.num_local() }] };
        let world = if all_here { World::new(mesh) } else { World::new(&here()) };
        let (world_size, ranks) = (launch.world_size, launch.ranks.clone());
        let hello = Hello { fingerprint, world_size, ranks, steps, saves_weights };
        let link = launch.rendezvous.as_ref().map(|at| Link::new(at, &hello, &world)).transpose()?;
        let saves_weights = link.as_ref().map_or(saves_weights, |link| link.saves_weights);
        Ok(Self { launch, world, link, saves_weights, stop_at: AtomicU64::new(u64::MAX) })
    }

    /// Rank `local` of this process.
    pub(crate) fn comm(&self, local: u64) -> Comm {
        Comm::new(&self.world, local)
    }

    /// The number of a rank in the run.
    pub(crate) fn rank(&self, comm: &Comm) -> u64 {
        self.launch.ranks.start + comm.rank
    }

    /// Asks all ranks of all processes to stop before `step`.
    pub(crate) fn ask_to_stop(&self, step: u64) {
        self.stop_at.fetch_min(step, Ordering::SeqCst);
    }

    /// The step before which all stop. All ranks get the same, between two meetings.
    pub(crate) fn stop_at(&self) -> u64 {
        self.stop_at.load(Ordering::SeqCst)
    }

    /// Waits for all ranks of all processes.
    ///
    /// # Errors
    /// When one has failed.
    pub(crate) fn meet(&self, comm: &Comm) -> Result<(), RankError> {
        comm.barrier()?;
        let Some(link) = &self.link else { return Ok(()) };
        if comm.rank == 0 {
            self.ask_to_stop(link.min(self.stop_at())?);
        }
        Ok(comm.barrier()?)
    }

    /// Makes all ranks of all processes give up.
    pub(crate) fn fail(&self, diag: &Diag) {
        self.world.stop();
        if let Some(link) = &self.link {
            link.close(Some(diag));
        }
    }
}
