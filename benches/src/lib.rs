//! What the benches share: running a program as a whole process and reading what it used.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a finished process used.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// Time from start to end.
    pub wall: Duration,
    /// Largest resident memory.
    pub peak_rss_bytes: u64,
    /// How it ended.
    pub status: ExitStatus,
}

/// Runs a command to its end; its output goes to `log`.
///
/// # Errors
/// When the program cannot be started or the log not be written.
pub fn run(command: &mut Command, log: &Path) -> io::Result<Used> {
    let out = std::fs::File::create(log)?;
    let start = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
    let pid = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: rusage is plain data; the child is ours and not waited for elsewhere.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::wait4(pid, &raw mut status, 0, &raw mut usage) != pid {
            return Err(io::Error::last_os_error());
        }
        usage
    };
    Ok(Used {
        wall: start.elapsed(),
        peak_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
        status: ExitStatus::from_raw(status),
    })
}

/// A program built by this workspace, beside this one.
///
/// # Errors
/// When it is not there.
pub fn program(name: &str) -> io::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let path = here.with_file_name(name);
    if path.exists() {
        return Ok(path);
    }
    Err(io::Error::other(format!("{} is missing: run `cargo build --release` first", path.display())))
}

/// The folder of this project.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The middle value.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
