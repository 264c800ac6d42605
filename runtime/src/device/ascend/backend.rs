//! What the ranks of this process share on Ascend devices.

use super::cann::{Cann, Session};
use super::hccl::Join;
use super::kernels::Objects;
use super::{Ascend, Manner, Seat};
use crate::cli::Options;
use crate::comm::Comm;
use crate::device::RankError;
use crate::load::{AscendCode, Loaded};
use crate::pool::Pool;
use crate::report::Journal;
use crate::team::Team;
use ascend_rs_sys::types::{HCCL_ROOT_INFO_BYTES, HcclRootInfo};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use titan_ir::{Diag, DiagResult};

/// CANN, code of kernels, and how the ranks find each other.
#[derive(Debug)]
pub(crate) struct Backend<'a> {
    session: Session,
    code: &'a AscendCode,
    objects: Objects,
    manner: Manner,
    rank_table: Option<PathBuf>,
    root: Mutex<Option<Join>>,
}

impl<'a> Backend<'a> {
    /// Opens CANN, and compiles the kernels that travel as source.
    ///
    /// # Errors
    /// As [`Session::open`] and [`Objects::new`].
    pub(crate) fn new(
        options: &Options,
        code: &'a AscendCode,
        team: &Team,
        journal: &Journal,
    ) -> DiagResult<Self> {
        let launch = &team.launch;
        let num_devices = launch.first_device + launch.num_local();
        let session = Session::open(options, code.soc, num_devices, launch.world_size, journal)?;
        let objects = Objects::new(&code.program, &code.kernels, code.soc, options.kernel_cache.as_deref())?;
        let manner = Manner {
            eager: options.no_capture || options.profile,
            expandable_segments: options.expandable_segments,
            profiled: false,
        };
        let rank_table = options.rank_table.clone();
        Ok(Self { session, code, objects, manner, rank_table, root: Mutex::new(None) })
    }

    /// The opened libraries.
    pub(crate) fn cann(&self) -> &'static Cann {
        self.session.cann()
    }

    /// Makes a rank ready.
    ///
    /// # Errors
    /// As [`Ascend::open`].
    pub(crate) fn open(
        &'a self,
        loaded: &'a Loaded,
        team: &Team,
        comm: &Comm,
        pool: Pool,
        profiled: bool,
    ) -> Result<Ascend<'a>, RankError> {
        let device = team.launch.first_device + comm.rank;
        let seat = Seat { rank: team.rank(comm), device: device as i32, comm: comm.clone() };
        let manner = Manner { profiled, ..self.manner };
        let meet = |root_info: &dyn Fn() -> DiagResult<Box<HcclRootInfo>>| self.meet(team, comm, root_info);
        Ascend::open(self.cann(), loaded, (self.code, &self.objects), seat, pool, manner, meet)
    }

    /// Brings all ranks here, before any waits in HCCL for the others, and tells them how to find each other.
    fn meet(
        &self,
        team: &Team,
        comm: &Comm,
        root_info: &dyn Fn() -> DiagResult<Box<HcclRootInfo>>,
    ) -> Result<Join, RankError> {
        team.meet(comm)?;
        if let Some(path) = &self.rank_table {
            return Ok(Join::RankTable(path.clone()));
        }
        if comm.rank == 0 {
            let mine = if team.rank(comm) == 0 { Some(root_info()?) } else { None };
            let root = match &team.link {
                Some(link) => {
                    let bytes = mine.as_ref().map_or(&[][..], |info| as_bytes(info));
                    from_bytes(&link.broadcast(bytes)?)?
                }
                None => mine.unwrap_or_else(|| titan_ir::ice!("a process alone has rank 0")),
            };
            *self.root.lock().unwrap_or_else(PoisonError::into_inner) = Some(Join::Root(root));
        }
        comm.barrier()?;
        let root = self.root.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(root.unwrap_or_else(|| titan_ir::ice!("the first rank of the process has got the root info")))
    }
}

fn as_bytes(info: &HcclRootInfo) -> &[u8] {
    // SAFETY: the struct is an array of bytes.
    unsafe { std::slice::from_raw_parts(info.internal.as_ptr().cast(), info.internal.len()) }
}

fn from_bytes(bytes: &[u8]) -> Result<Box<HcclRootInfo>, Diag> {
    if bytes.len() != HCCL_ROOT_INFO_BYTES as usize {
        let message = format!("rank 0 told {} bytes of root info, not {HCCL_ROOT_INFO_BYTES}", bytes.len());
        return Err(Diag::new("T0763", message).help("run the same titan-run everywhere"));
    }
    let mut info = Box::new(HcclRootInfo { internal: [0; HCCL_ROOT_INFO_BYTES as usize] });
    for (to, &from) in info.internal.iter_mut().zip(bytes) {
        *to = from as std::ffi::c_char;
    }
    Ok(info)
}
