//! Communicators: one of all ranks, and one per axis of the mesh that has ranks to join.

use super::context::Context;
use super::owned::Owned;
use crate::device::RankError;
use ascend_rs_sys::Hccl;
use ascend_rs_sys::types::*;
use std::ffi::CString;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use titan_ir::ascend::Program;
use titan_ir::{AxisId, Diag};

/// How ranks find each other.
#[derive(Clone)]
pub(crate) enum Join {
    /// By what rank 0's HCCL says of itself.
    Root(Box<HcclRootInfo>),
    /// By a file that lists them.
    RankTable(PathBuf),
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(_) => f.write_str("root info"),
            Self::RankTable(path) => write!(f, "rank table {}", path.display()),
        }
    }
}

/// What rank 0's HCCL tells the others. A device must be set.
///
/// # Errors
/// T0742 when HCCL has nothing to tell.
pub(super) fn root_info(context: &Context<'_>) -> Result<Box<HcclRootInfo>, Diag> {
    let mut info = Box::new(HcclRootInfo { internal: [0; HCCL_ROOT_INFO_BYTES as usize] });
    // SAFETY: the struct is written.
    context.check(unsafe { hccl(context).HcclGetRootInfo(&mut *info) })?;
    Ok(info)
}

/// A rank's communicators.
#[derive(Debug)]
pub(super) struct Communicators<'a> {
    /// Per axis of the mesh: the communicator, and its ranks.
    by_axis: Vec<Option<(HcclComm, u64)>>,
    // Those of axes are made from the world's, so they go first.
    _of_axes: Vec<Owned<'a, HcclComm>>,
    _world: Option<Owned<'a, HcclComm>>,
}

impl<'a> Communicators<'a> {
    /// None, for one rank.
    pub(super) fn none() -> Self {
        Self { by_axis: Vec::new(), _of_axes: Vec::new(), _world: None }
    }

    /// Joins all ranks. All call it, and wait for each other in it.
    ///
    /// # Errors
    /// T0742 when HCCL fails, T0766 when the rank table cannot be read.
    pub(super) fn new(context: &Rc<Context<'a>>, program: &Program, join: &Join) -> Result<Self, RankError> {
        let mesh = &context.plan.mesh;
        let num_ranks = mesh.num_ranks();
        let mut world = join_world(context, num_ranks as u32, join)?;
        let mut made = Self { by_axis: vec![None; mesh.axes.len()], _of_axes: Vec::new(), _world: None };
        // SAFETY: see `Owned`.
        let destroy = |cann: &'static super::cann::Cann, comm| unsafe {
            cann.hccl.as_ref().map_or(Ok(()), |hccl: &Hccl| hccl.HcclCommDestroy(comm))
        };
        made._world = Some(Owned::new(context, world, destroy));
        context.watch(world);
        for &axis in &program.comm_axes {
            let size = mesh.size(axis);
            if size == num_ranks {
                made.by_axis[axis.index()] = Some((world, size));
                continue;
            }
            let mut ranks: Vec<u32> = mesh.group(context.rank, axis).iter().map(|&r| r as u32).collect();
            // The same on all ranks of the group, and no other group's.
            let id = ((axis.index() as u64 + 1) << 32) | u64::from(ranks[0]);
            let position = mesh.coordinate(context.rank, axis) as u32;
            let mut config = config();
            let mut comm = HcclComm::NULL;
            // SAFETY: the ranks are as many; the configuration lives through the call; the handle is written.
            context.check(unsafe {
                hccl(context).HcclCreateSubCommConfig(
                    &mut world,
                    ranks.len() as u32,
                    ranks.as_mut_ptr(),
                    id,
                    position,
                    &mut config,
                    &mut comm,
                )
            })?;
            made._of_axes.push(Owned::new(context, comm, destroy));
            context.watch(comm);
            made.by_axis[axis.index()] = Some((comm, size));
        }
        Ok(made)
    }

    /// The communicator along an axis, and its ranks.
    pub(super) fn along(&self, axis: AxisId) -> (HcclComm, u64) {
        let found = self.by_axis.get(axis.index()).copied().flatten();
        found.unwrap_or_else(|| titan_ir::ice!("the program has no communicator along axis {}", axis.index()))
    }
}

/// Sums in an order of their own, whatever the environment says.
fn config() -> HcclCommConfig {
    HcclCommConfig { hcclDeterministic: 1, ..HcclCommConfig::unset() }
}

fn hccl<'c>(context: &Context<'c>) -> &'static Hccl {
    context.cann.hccl.as_ref().expect("a run of several ranks has opened HCCL")
}

fn join_world(context: &Context<'_>, num_ranks: u32, join: &Join) -> Result<HcclComm, Diag> {
    let (hccl, rank, mut config, mut comm) = (hccl(context), context.rank as u32, config(), HcclComm::NULL);
    let help = "look at HCCL_CONNECT_TIMEOUT, HCCL_IF_IP, HCCL_SOCKET_IFNAME, and whether the devices' network works (hccn_tool)";
    match join {
        Join::Root(info) => {
            // SAFETY: the information is rank 0's; the handle is written.
            let joined =
                unsafe { hccl.HcclCommInitRootInfoConfig(num_ranks, &**info, rank, &config, &mut comm) };
            context.check(joined).map_err(|diag| diag.help(help))?;
        }
        Join::RankTable(path) => {
            let unreadable = |why: &str| {
                Diag::new("T0766", format!("`{}` of --rank-table cannot be read: {why}", path.display()))
            };
            std::fs::File::open(path).map_err(|e| unreadable(&e.to_string()))?;
            let path = CString::new(path.as_os_str().as_encoded_bytes())
                .map_err(|_| unreadable("its name has a zero byte"))?;
            // SAFETY: the path ends with 0; the handle is written.
            let joined =
                unsafe { hccl.HcclCommInitClusterInfoConfig(path.as_ptr(), rank, &mut config, &mut comm) };
            context.check(joined).map_err(|diag| diag.help(help))?;
        }
    }
    Ok(comm)
}
