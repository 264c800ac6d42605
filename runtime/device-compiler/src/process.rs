//! Runs a program in a folder of its own, for a limited time.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use titan_ir::{Diag, DiagResult};

/// Lines of a program's messages that a finding repeats.
const MAX_LINES: usize = 12;

/// A folder for one run; removed when dropped.
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(super) fn new() -> DiagResult<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("titan-kernel-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|e| unwritable(&folder, &e))?;
        Ok(Self { folder })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> DiagResult<()> {
        let written = File::create(path).and_then(|mut file| file.write_all(bytes));
        written.map_err(|e| unwritable(path, &e))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What stays behind in the system's folder for such files is the system's to remove.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// How a program ended and what it said.
pub(super) struct Ended {
    status: ExitStatus,
    pub(super) output: String,
}

impl Ended {
    pub(super) fn succeeded(&self) -> bool {
        self.status.success()
    }

    /// Ended by a signal, or by a handler of one that turned it into an exit code.
    pub(super) fn crashed(&self) -> bool {
        self.status.signal().is_some() || self.status.code().is_some_and(|code| code > 128)
    }

    pub(super) fn how(&self) -> String {
        match (self.status.signal(), self.status.code()) {
            (Some(signal), _) => format!("was ended by signal {signal}"),
            (_, Some(code)) => format!("ended with exit code {code}"),
            _ => "ended".to_owned(),
        }
    }

    /// Adds what the program said: its errors if it names any, else its last lines.
    pub(super) fn explain(&self, mut diag: Diag) -> Diag {
        let lines: Vec<&str> = self.output.lines().filter(|line| !line.trim().is_empty()).collect();
        let errors: Vec<&str> =
            lines.iter().copied().filter(|line| line.to_lowercase().contains("error")).collect();
        let chosen =
            if errors.is_empty() { &lines[lines.len().saturating_sub(MAX_LINES)..] } else { &errors[..] };
        diag.notes.extend(chosen.iter().take(MAX_LINES).map(|line| line.chars().take(400).collect()));
        diag
    }
}

/// That a program is there and may be run.
pub(super) fn check_program(program: &Path) -> DiagResult<()> {
    let cannot = |why: &str| Err(Diag::new("T0540", format!("cannot run {}: {why}", program.display())));
    match fs::metadata(program) {
        Err(e) => cannot(&e.to_string()),
        Ok(metadata) if !metadata.is_file() => cannot("it is no file"),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => cannot("it is not executable"),
        Ok(_) => Ok(()),
    }
}

/// Runs `command`; its output goes to a file, so that it never waits for a reader.
pub(super) fn run(
    command: &mut Command,
    program: &Path,
    files: &Files,
    limit: Duration,
) -> DiagResult<Ended> {
    let log = files.path("log");
    let open = File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
    let (out, err) = open.map_err(|e| unwritable(&log, &e))?;
    let spawned = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
    let mut child =
        spawned.map_err(|e| Diag::new("T0540", format!("cannot run {}: {e}", program.display())))?;
    let status = wait(&mut child, limit)
        .map_err(|e| Diag::new("T0540", format!("cannot wait for {}: {e}", program.display())))?;
    let output = fs::read(&log).map_err(|e| unwritable(&log, &e))?;
    let output = String::from_utf8_lossy(&output).into_owned();
    match status {
        Some(status) => Ok(Ended { status, output }),
        None => {
            let message = format!("{} did not end within {} s", program.display(), limit.as_secs_f32());
            Err(Diag::new("T0543", message))
        }
    }
}

/// Waits for a program; kills it at the limit, then `None`.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Diag {
    Diag::new("T0546", format!("cannot write {}: {error}", path.display()))
}
