//! The ways a communicator comes to be.

use super::communicators::{Communicator, communicator, current_device};
use super::config::Settings;
use super::connection::Connection;
use super::hub::serve;
use super::rank_table::RankTable;
use super::wire::Group;
use super::{fault, seconds};
use crate::boundary::write;
use crate::fault::Fault;
use ascend_rs_sys::types::*;
use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What root information of this library begins with.
const ROOT_INFO: &str = "host-cann/root/";

fn null(name: &str) -> Fault {
    fault(HcclResult::HCCL_E_PTR, format!("{name} is null"))
}

/// Serves a new hub, and gives the name of its socket.
fn new_hub() -> Result<String, Fault> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let name = format!("{ROOT_INFO}{}/{count}/{time:x}", std::process::id());
    serve(&name)?;
    Ok(name)
}

pub(crate) unsafe fn HcclGetRootInfo(rootInfo: *mut HcclRootInfo) -> Result<(), Fault> {
    if rootInfo.is_null() {
        return Err(null("rootInfo"));
    }
    current_device()?;
    let mut info = HcclRootInfo { internal: [0; HCCL_ROOT_INFO_BYTES as usize] };
    for (place, byte) in info.internal.iter_mut().zip(new_hub()?.bytes()) {
        *place = byte as c_char;
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(rootInfo, info, "rootInfo") }
}

/// The socket in root information.
fn socket(info: &HcclRootInfo) -> Result<String, Fault> {
    let bytes: Vec<u8> = info.internal.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
    let name = String::from_utf8(bytes).ok().filter(|name| name.starts_with(ROOT_INFO));
    name.ok_or_else(|| fault(HcclResult::HCCL_E_PARA, "rootInfo was not made by HcclGetRootInfo"))
}

/// Joins the communicator of all `size` ranks that meet at `socket`.
fn join(socket: &str, size: u32, rank: u32, settings: Settings) -> Result<Communicator, Fault> {
    if size == 0 || rank >= size {
        return Err(fault(HcclResult::HCCL_E_PARA, format!("rank {rank} of {size}")));
    }
    let connection = Connection::open(socket, seconds("HCCL_CONNECT_TIMEOUT", 120))?;
    let group = Group { id: None, ranks: (0..size).collect() };
    Communicator::announce(Arc::new(connection), group, rank, settings, socket.to_owned())
}

pub(crate) unsafe fn HcclCommInitRootInfo(
    nRanks: u32,
    rootInfo: *const HcclRootInfo,
    rank: u32,
    comm: *mut HcclComm,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { HcclCommInitRootInfoConfig(nRanks, rootInfo, rank, ptr::null(), comm) }
}

pub(crate) unsafe fn HcclCommInitRootInfoConfig(
    nRanks: u32,
    rootInfo: *const HcclRootInfo,
    rank: u32,
    config: *const HcclCommConfig,
    comm: *mut HcclComm,
) -> Result<(), Fault> {
    if rootInfo.is_null() || comm.is_null() {
        return Err(null("rootInfo or comm"));
    }
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        let (socket, settings) = (socket(&*rootInfo)?, Settings::of(config)?);
        write(comm, join(&socket, nRanks, rank, settings)?.meet()?, "comm")
    }
}

pub(crate) unsafe fn HcclCommInitClusterInfo(
    clusterInfo: *const c_char,
    rank: u32,
    comm: *mut HcclComm,
) -> Result<(), Fault> {
    // SAFETY: the caller vouches for the pointers.
    unsafe { HcclCommInitClusterInfoConfig(clusterInfo, rank, ptr::null_mut(), comm) }
}

pub(crate) unsafe fn HcclCommInitClusterInfoConfig(
    clusterInfo: *const c_char,
    rank: u32,
    config: *mut HcclCommConfig,
    comm: *mut HcclComm,
) -> Result<(), Fault> {
    if clusterInfo.is_null() || comm.is_null() {
        return Err(null("clusterInfo or comm"));
    }
    // SAFETY: the caller vouches for the pointers.
    let (text, settings) = unsafe { (CStr::from_ptr(clusterInfo), Settings::of(config)?) };
    let text = text.to_str().map_err(|_| fault(HcclResult::HCCL_E_PARA, "clusterInfo is not UTF-8"))?;
    let table = RankTable::read(text)?;
    let (device, listed) = (current_device()?, table.devices.get(rank as usize));
    if listed != Some(&device) {
        let text = format!("rank {rank} has device {listed:?} in the rank table; this thread's is {device}");
        return Err(fault(HcclResult::HCCL_E_PARA, text));
    }
    if rank == 0 {
        serve(&table.socket)?;
    }
    let joined = join(&table.socket, table.devices.len() as u32, rank, settings)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(comm, joined.meet()?, "comm") }
}

pub(crate) unsafe fn HcclCommInitAll(
    ndev: u32,
    devices: *mut i32,
    comms: *mut HcclComm,
) -> Result<(), Fault> {
    if devices.is_null() || comms.is_null() {
        return Err(null("devices or comms"));
    }
    // SAFETY: the caller vouches for both arrays.
    let (devices, comms) = unsafe {
        (
            std::slice::from_raw_parts(devices, ndev as usize),
            std::slice::from_raw_parts_mut(comms, ndev as usize),
        )
    };
    let (settings, before) = (
        // SAFETY: there is no configuration.
        unsafe { Settings::of(ptr::null())? },
        current_device().ok(),
    );
    let name = new_hub()?;
    let announced = devices.iter().enumerate().map(|(rank, &device)| {
        crate::api::aclrtSetDevice(device)?;
        join(&name, ndev, rank as u32, settings.clone())
    });
    let announced: Vec<Communicator> = announced.collect::<Result<_, Fault>>()?;
    for (place, communicator) in comms.iter_mut().zip(announced) {
        *place = communicator.meet()?;
    }
    before.map_or(Ok(()), crate::api::aclrtSetDevice)
}

pub(crate) unsafe fn HcclCreateSubCommConfig(
    comm: *mut HcclComm,
    rankNum: u32,
    rankIds: *mut u32,
    subCommId: u64,
    subCommRankId: u32,
    config: *mut HcclCommConfig,
    subComm: *mut HcclComm,
) -> Result<(), Fault> {
    if comm.is_null() || subComm.is_null() {
        return Err(null("comm or subComm"));
    }
    // SAFETY: the caller vouches for the pointers.
    let (parent, settings) = unsafe { (communicator(*comm)?, Settings::of(config)?) };
    if rankIds.is_null() && subCommId == u64::from(u32::MAX) {
        // This rank is no member, and has said so.
        return Ok(());
    }
    if rankIds.is_null() {
        return Err(null("rankIds"));
    }
    let refuse = |text: String| Err(fault(HcclResult::HCCL_E_PARA, text));
    if parent.group.id.is_some() {
        return refuse(format!(
            "{} is a group; groups are made from the communicator of all ranks",
            parent.name
        ));
    }
    // SAFETY: the caller vouches for the array.
    let ranks = unsafe { std::slice::from_raw_parts(rankIds, rankNum as usize) }.to_vec();
    if ranks.is_empty()
        || ranks.windows(2).any(|pair| pair[0] >= pair[1])
        || ranks[ranks.len() - 1] >= parent.size()
    {
        return refuse(format!("rankIds {ranks:?} do not ascend below {}", parent.size()));
    }
    if ranks.get(subCommRankId as usize) != Some(&parent.rank) {
        return refuse(format!(
            "subCommRankId is {subCommRankId}; rank {} is not there in {ranks:?}",
            parent.rank
        ));
    }
    let name = format!("{}/{subCommId}", parent.name);
    let group = Group { id: Some(subCommId), ranks };
    let announced =
        Communicator::announce(Arc::clone(&parent.connection), group, subCommRankId, settings, name)?;
    // SAFETY: the caller vouches for the pointer.
    unsafe { write(subComm, announced.meet()?, "subComm") }
}
