//! CANN, opened for this process: libraries, versions, devices.

use crate::cli::Options;
use crate::metrics::info;
use crate::report::Journal;
use ascend_rs_sys::types::*;
use ascend_rs_sys::{Acl, Aclnn, Error, Hccl, Nnopbase, Search};
use std::ffi::{CStr, c_char};
use std::path::Path;
use titan_ir::ascend::Soc;
use titan_ir::{Diag, DiagResult};

/// The oldest CANN with everything a run needs.
const OLDEST: (u32, u32) = (8, 5);

/// What is needed of the ACL runtime in every run.
const ACL_FUNCTIONS: &[&str] = &[
    "aclInit",
    "aclFinalize",
    "aclrtSetDevice",
    "aclrtResetDevice",
    "aclrtGetDeviceCount",
    "aclrtGetSocName",
    "aclrtSetSysParamOpt",
    "aclrtCreateStream",
    "aclrtDestroyStream",
    "aclrtSynchronizeStreamWithTimeout",
    "aclrtCreateEventExWithFlag",
    "aclrtRecordEvent",
    "aclrtStreamWaitEvent",
    "aclrtDestroyEvent",
    "aclrtMallocHost",
    "aclrtFreeHost",
    "aclrtMemcpy",
    "aclrtMemcpyAsync",
    "aclrtMemset",
    "aclrtMemsetAsync",
];

/// What capture needs.
const CAPTURE_FUNCTIONS: &[&str] =
    &["aclmdlRICaptureBegin", "aclmdlRICaptureEnd", "aclmdlRIExecuteAsync", "aclmdlRIDestroy"];

/// A status of a second `aclInit`.
const REPEATED_INIT: i32 = 100_002;

/// The opened libraries. They are never closed, so they live as long as the process.
#[derive(Debug)]
pub(crate) struct Cann {
    pub(super) acl: Acl,
    pub(super) nnopbase: Nnopbase,
    pub(super) aclnn: Aclnn,
    /// Absent where one rank is all.
    pub(super) hccl: Option<Hccl>,
    /// Version of CANN, if it says one.
    pub(crate) version: Option<String>,
    /// Version of the driver, if CANN says one.
    pub(crate) driver: Option<String>,
    /// The device's name, once CANN was asked.
    pub(crate) soc: Option<String>,
    /// Devices this process sees, once CANN was asked.
    pub(crate) num_devices: Option<u32>,
}

/// The file that plays CANN on the host.
const HOST_CANN: &str = "libhost_cann.so";

impl Cann {
    /// What a report says of it.
    pub(crate) fn facts(&self) -> serde_json::Value {
        let mut files: Vec<String> = Vec::new();
        let all = [self.acl.files(), self.nnopbase.files(), self.aclnn.files()];
        for file in all.into_iter().flatten().chain(self.hccl.iter().flat_map(Hccl::files)) {
            files.push(file.display().to_string());
        }
        serde_json::json!({
            "version": self.version,
            "driver": self.driver,
            "soc": self.soc,
            "num_devices": self.num_devices,
            "libraries": files,
            "simulated": self.is_simulated(),
        })
    }

    /// Device, version and library in a line.
    fn summary(&self) -> String {
        let soc = self.soc.as_deref().unwrap_or("an unknown device");
        let version = self.version.as_deref().unwrap_or("of unknown version");
        let file = self.acl.files().first().map_or(String::new(), |file| format!(" from {}", file.display()));
        let simulated = if self.is_simulated() { ", simulated by host-cann" } else { "" };
        format!("Running on {soc} with CANN {version}{file}{simulated}")
    }

    /// Whether the host plays the devices.
    fn is_simulated(&self) -> bool {
        let is_host = |file: &Path| file.canonicalize().is_ok_and(|file| file.ends_with(HOST_CANN));
        self.acl.files().iter().any(|file| is_host(file))
    }
}

/// An error of CANN as a finding.
pub(crate) fn diag(error: &Error) -> Diag {
    let found = Diag::new(error.code(), error.to_string());
    match error {
        Error::LibraryNotFound { .. } => {
            found.help("source CANN's set_env.sh, or say where CANN is with `--cann PATH`")
        }
        _ => found,
    }
}

/// CANN, initialised until this is dropped.
#[derive(Debug)]
pub(crate) struct Session(&'static Cann);

impl Session {
    /// Opens CANN and checks that it and its devices are what the artifact was built for; notes what it is as soon as that is known.
    ///
    /// # Errors
    /// T0740 and T0741 for libraries and functions that are missing, T0752 an old CANN, T0753 another device, T0754 too few devices.
    pub(crate) fn open(
        options: &Options,
        soc: &Soc,
        num_devices: u64,
        world_size: u64,
        journal: &Journal,
    ) -> DiagResult<Self> {
        let mut cann = load(options, world_size)?;
        journal.cann(&cann);
        check_version(cann.version.as_deref())?;
        // SAFETY: no configuration file.
        match unsafe { cann.acl.aclInit(std::ptr::null()) } {
            Err(Error::Call { status: REPEATED_INIT, .. }) | Ok(()) => {}
            Err(error) => {
                let help = "look at the versions of driver and toolkit, and at `npu-smi info`";
                return Err(diag(&error).help(help));
            }
        }
        let probed = probe(&mut cann);
        journal.cann(&cann);
        info(&cann.summary());
        probed.and_then(|()| check_devices(&cann, soc, num_devices)).inspect_err(|_| {
            // SAFETY: nothing of CANN is in use.
            let _ = unsafe { cann.acl.aclFinalize() };
        })?;
        Ok(Self(Box::leak(Box::new(cann))))
    }

    /// The libraries.
    pub(crate) fn cann(&self) -> &'static Cann {
        self.0
    }
}

/// Where the libraries are looked for.
fn search(options: &Options) -> DiagResult<Search> {
    let Some(path) = options.cann.as_deref() else { return Ok(Search::from_environment()) };
    if !path.exists() {
        let message = format!("CANN is not found: --cann {} does not exist", path.display());
        return Err(Diag::new("T0740", message)
            .help("give the folder CANN is installed in, or leave --cann out and source its set_env.sh"));
    }
    // The folder that CANN is installed in will do, too.
    let inside = path.join("lib64");
    Ok(Search::at(if inside.is_dir() { &inside } else { path }))
}

/// Opens the libraries and checks that what is needed is in them.
fn load(options: &Options, world_size: u64) -> DiagResult<Cann> {
    let search = search(options)?;
    let acl = Acl::load(&search).map_err(|e| diag(&e))?;
    let nnopbase = Nnopbase::load(&search, &acl).map_err(|e| diag(&e))?;
    let aclnn = Aclnn::load(&search, &acl).map_err(|e| diag(&e))?;
    let load_hccl = || Hccl::load(&search, &acl).map_err(|e| diag(&e));
    let hccl = (world_size > 1).then(load_hccl).transpose()?;
    acl.require(ACL_FUNCTIONS).map_err(|e| diag(&e))?;
    if !options.no_capture && !options.profile {
        acl.require(CAPTURE_FUNCTIONS).map_err(|e| diag(&e))?;
    }
    let version = version(&acl, aclCANNPackageName::ACL_PKG_NAME_CANN);
    let driver = version_of_driver(&acl);
    Ok(Cann { acl, nnopbase, aclnn, hccl, version, driver, soc: None, num_devices: None })
}

/// Asks for the devices.
fn probe(cann: &mut Cann) -> DiagResult<()> {
    let mut count = 0;
    // SAFETY: the count is written.
    let name = unsafe {
        cann.acl.aclrtGetDeviceCount(&mut count).map_err(|e| diag(&e))?;
        cann.num_devices = Some(count);
        cann.acl.aclrtGetSocName().map_err(|e| diag(&e))?
    };
    // SAFETY: not null, so a text that lives as long as the process.
    cann.soc = (!name.is_null()).then(|| unsafe { text(name) });
    Ok(())
}

/// That the devices are the artifact's, and enough.
fn check_devices(cann: &Cann, soc: &Soc, num_devices: u64) -> DiagResult<()> {
    let name = cann.soc.as_deref().unwrap_or("an unknown device");
    if name != soc.name {
        let message = format!("the artifact was built for {}, this machine has {name}", soc.name);
        return Err(Diag::new("T0753", message).help(format!("rebuild it with `--target {name}`")));
    }
    let count = cann.num_devices.unwrap_or_default();
    if u64::from(count) < num_devices {
        let message =
            format!("the ranks of this process need {num_devices} devices, the machine has {count}");
        return Err(
            Diag::new("T0754", message).help("start fewer ranks here, or look at ASCEND_RT_VISIBLE_DEVICES")
        );
    }
    Ok(())
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: all devices were reset.
        if let Err(error) = unsafe { self.0.acl.aclFinalize() } {
            crate::metrics::warning(&error.to_string());
        }
    }
}

fn check_version(version: Option<&str>) -> DiagResult<()> {
    let mut parts = version.unwrap_or_default().split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return Ok(()) };
    if (major, minor) >= OLDEST {
        return Ok(());
    }
    let message = format!("this is CANN {major}.{minor}, a run needs {}.{} or newer", OLDEST.0, OLDEST.1);
    Err(Diag::new("T0752", message).help("install a newer toolkit, and source its set_env.sh"))
}

fn version(acl: &Acl, package: aclCANNPackageName) -> Option<String> {
    if !acl.has("aclsysGetCANNVersion") {
        return None;
    }
    // SAFETY: the struct is plain data, filled by the call.
    unsafe {
        let mut version: aclCANNPackageVersion = std::mem::zeroed();
        acl.aclsysGetCANNVersion(package, &mut version).ok()?;
        Some(text(version.version.as_ptr())).filter(|text| !text.is_empty())
    }
}

fn version_of_driver(acl: &Acl) -> Option<String> {
    version(acl, aclCANNPackageName::ACL_PKG_NAME_DRIVER)
}

/// # Safety
/// `at` points to a text that ends with 0.
unsafe fn text(at: *const c_char) -> String {
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}
