//! `--report`: what somebody who was not there must know of a run, in one JSON file, also when the run failed.

use crate::cli::Options;
use crate::device::ascend::Cann;
use crate::load::{Code, Loaded};
use crate::metrics::utc;
use crate::outputs;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::{env, fs};
use titan_ir::ascend::{Call, Program};
use titan_ir::{Diag, DiagResult};

/// Variables that change what CANN, HCCL and this program do.
const PREFIXES: [&str; 6] = ["ASCEND", "ACL", "HCCL", "CANN", "TITAN", "HOST_CANN"];

/// Single variables of that kind.
const VARIABLES: [&str; 11] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PATH",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "XDG_CACHE_HOME",
    "TBE_IMPL_PATH",
    "GE_PROFILING_TO_STD_OUT",
];

/// Files that say what a machine is.
const FILES: [&str; 5] = [
    "/etc/os-release",
    "/proc/version",
    "/usr/local/Ascend/driver/version.info",
    "/usr/local/Ascend/firmware/version.info",
    "/etc/ascend_install.info",
];

/// What is learned on the way.
#[derive(Debug)]
pub(crate) struct Journal {
    /// When the run began.
    start: String,
    facts: Mutex<Map<String, Value>>,
    /// The last step that is finished, and its loss.
    last_step: Mutex<Option<(u64, f32)>>,
}

impl Journal {
    /// The journal of a run that begins now.
    pub(crate) fn new() -> Self {
        Self { start: utc(), facts: Mutex::default(), last_step: Mutex::default() }
    }

    fn note(&self, key: &str, value: Value) {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), value);
    }

    /// What the artifact holds.
    pub(crate) fn artifact(&self, loaded: &Loaded) {
        self.note("manifest", json!(loaded.manifest));
        if let Code::Ascend(code) = &loaded.code {
            self.note("program", summary(&code.program));
            self.note("num_kernels", json!(code.kernels.kernels.len()));
        }
    }

    /// Which CANN was opened.
    pub(crate) fn cann(&self, cann: &Cann) {
        self.note("cann", cann.facts());
    }

    /// A step is finished.
    pub(crate) fn step(&self, step: u64, loss: f32) {
        *self.last_step.lock().unwrap_or_else(PoisonError::into_inner) = Some((step, loss));
    }

    /// What a rank says at its end; ranks end in any order.
    pub(crate) fn rank(&self, facts: Value) {
        let mut all = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ranks) = all.entry("ranks").or_insert_with(|| json!([])).as_array_mut() {
            ranks.push(facts);
            ranks.sort_by_key(|facts| facts["rank"].as_u64());
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// T0768 when it cannot be written.
    pub(crate) fn write(&self, path: &Path, options: &Options, failure: Option<&Diag>) -> DiagResult<()> {
        let mut all = self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let last_step = *self.last_step.lock().unwrap_or_else(PoisonError::into_inner);
        let artifact = std::path::absolute(&options.artifact).unwrap_or_else(|_| options.artifact.clone());
        all.insert("time".to_owned(), json!({ "start": self.start, "end": utc() }));
        all.insert("finished_steps".to_owned(), json!(last_step.map_or(0, |(step, _)| step)));
        all.insert("last_loss".to_owned(), json!(last_step.map(|(_, loss)| loss)));
        all.insert("titan_run".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        all.insert("arguments".to_owned(), json!(env::args().collect::<Vec<_>>()));
        all.insert("artifact".to_owned(), json!(artifact.display().to_string()));
        all.insert("environment".to_owned(), json!(variables()));
        all.insert("machine".to_owned(), machine());
        all.insert("error".to_owned(), failure.map_or(Value::Null, error));
        let text = serde_json::to_string_pretty(&all).expect("numbers and text are JSON");
        fs::write(path, text + "\n").map_err(|e| outputs::unwritable("T0768", "--report", path, &e))
    }
}

fn error(diag: &Diag) -> Value {
    json!({
        "code": diag.code,
        "message": diag.message,
        "at": diag.path,
        "notes": diag.notes,
        "help": diag.help,
    })
}

fn variables() -> BTreeMap<String, String> {
    let ours =
        |name: &str| VARIABLES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let all = env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    all.filter(|(name, _)| ours(name)).collect()
}

fn machine() -> Value {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    let files = FILES.iter().filter_map(|&path| Some((path, fs::read_to_string(path).ok()?)));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    json!({
        "host": host.as_deref().map(str::trim),
        "cpu": model.map(|(_, model)| model),
        "num_cpus": crate::placement::allowed_cpus().len(),
        "memory_bytes": crate::memory::machine_bytes(),
        "files": files.collect::<BTreeMap<_, _>>(),
    })
}

/// Sizes and numbers of calls of a program.
fn summary(program: &Program) -> Value {
    let segments = program.segments.iter().map(|segment| {
        let parts = segment.parts.iter().map(|part| {
            let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
            for submission in &part.submissions {
                *calls.entry(name(&submission.call)).or_default() += 1;
            }
            let guard: Vec<&str> = part.guard.iter().map(|(name, _)| name.as_str()).collect();
            json!({ "calls": calls, "guard": guard })
        });
        json!({ "name": segment.name, "repeat": segment.repeat, "parts": parts.collect::<Vec<_>>() })
    });
    json!({
        "arena_bytes": program.arena_bytes,
        "state_bytes": program.state.size_bytes,
        "step_bytes": program.step.size_bytes,
        "scratch_bytes": program.scratch.size_bytes,
        "workspace_bytes": program.workspaces.iter().map(|w| w.size_bytes).collect::<Vec<_>>(),
        "num_streams": program.num_streams,
        "num_events": program.num_events,
        "memory": program.memory,
        "segments": segments.collect::<Vec<_>>(),
    })
}

fn name(call: &Call) -> &str {
    match call {
        Call::Operator { name, .. } => name,
        Call::Kernel { .. } => "kernel",
        Call::Collective { .. } => "collective",
        Call::Copy { .. } | Call::RankSlice { .. } => "copy",
        Call::Zero { .. } => "zero",
        Call::Record { .. } => "record",
        Call::Wait { .. } => "wait",
    }
}
