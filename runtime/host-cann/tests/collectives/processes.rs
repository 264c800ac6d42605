//! Two processes: this program starts itself twice more, one rank each.

use crate::ranks::*;
use crate::support::*;
use ascend_rs_sys::types::*;
use std::env;
use std::ffi::{CString, c_char};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Which rank a child is, where root information is left, and what it does.
const RANK: &str = "HOST_CANN_TEST_RANK";
const FOLDER: &str = "HOST_CANN_TEST_FOLDER";
const TABLE: &str = "HOST_CANN_TEST_TABLE";

fn child(rank: u32, folder: &Path, table: Option<&str>) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "processes::child_process", "--nocapture"]);
    command.env(RANK, rank.to_string()).env(FOLDER, folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(table) = table {
        command.env(TABLE, table);
    }
    command.spawn().unwrap()
}

/// The root information that rank 0 leaves in a file.
fn shared_root_info(rank: u32, folder: &Path) -> HcclRootInfo {
    let path = folder.join("root");
    if rank == 0 {
        let info = root_info();
        let bytes: Vec<u8> = info.internal.iter().map(|&c| c as u8).collect();
        fs::write(folder.join("root.new"), bytes).unwrap();
        fs::rename(folder.join("root.new"), path).unwrap();
        return info;
    }
    loop {
        match fs::read(&path) {
            Ok(bytes) => {
                let mut info = HcclRootInfo { internal: [0; 4108] };
                info.internal.iter_mut().zip(bytes).for_each(|(to, from)| *to = from as c_char);
                return info;
            }
            Err(_) => thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Does nothing in the program itself; in a child it is one rank.
#[test]
fn child_process() {
    let Ok(rank) = env::var(RANK) else { return };
    let (rank, folder) = (rank.parse::<u32>().unwrap(), env::var(FOLDER).unwrap());
    let _session = session();
    let mut comm = HcclComm::NULL;
    // SAFETY: handles are alive, results are written.
    unsafe {
        acl().aclrtSetDevice(rank as i32).unwrap();
        match env::var(TABLE) {
            Ok(table) => {
                let table = CString::new(table).unwrap();
                hccl().HcclCommInitClusterInfo(table.as_ptr(), rank, &mut comm).unwrap();
            }
            Err(_) => {
                let info = shared_root_info(rank, Path::new(&folder));
                hccl().HcclCommInitRootInfo(2, &info, rank, &mut comm).unwrap();
            }
        }
        let stream = stream();
        let values: Vec<f32> = (0..1000).map(|i| (rank * 10 + i) as f32).collect();
        let (send, recv) = (upload(&values), device_memory(8000));
        hccl().HcclAllGather(send, recv, 1000, F32, comm, stream).unwrap();
        hccl().HcclAllReduce(send, send, 1000, F32, SUM, comm, stream).unwrap();
        synchronize(stream).unwrap();
        let gathered = download(recv, 2000);
        println!("result {rank}: {:?} {:?}", &download(send, 1000)[..2], [gathered[0], gathered[1000]]);
        hccl().HcclCommDestroy(comm).unwrap();
        acl().aclrtResetDeviceForce(rank as i32).unwrap();
    }
}

fn results_of_two(table: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let children = [0, 1].map(|rank| child(rank, folder.path(), table));
    for (rank, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        let want = format!("result {rank}: [10.0, 12.0] [0.0, 10.0]");
        assert!(out.contains(&want), "{out}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn two_processes_meet_by_root_information() {
    results_of_two(None);
}

#[test]
fn two_processes_meet_by_a_rank_table() {
    let device = |rank: u32| {
        format!(
            r#"{{"device_id":"{rank}","device_ip":"10.0.0.{}.{rank}","rank_id":"{rank}"}}"#,
            std::process::id()
        )
    };
    let table = format!(
        r#"{{"status":"completed","version":"1.0","server_count":"1","server_list":[{{"server_id":"a","device":[{},{}]}}]}}"#,
        device(0),
        device(1)
    );
    results_of_two(Some(&table));
}
