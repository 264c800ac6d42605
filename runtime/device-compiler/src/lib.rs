//! Generated kernels to code of the device, by the vendor's compiler `bishengir-compile`: at build where there is one, else on the device
//! machine.

mod process;

use process::{Ended, Files};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use titan_ir::ascend::{DeviceKernel, Soc};
use titan_ir::{Diag, DiagResult};

/// The program's name.
const PROGRAM: &str = "bishengir-compile";

/// The environment variable that names the program, or the folder that holds it.
pub const VARIABLE: &str = "TITAN_BISHENGIR";

/// A kernel takes half a second; a compiler that takes this long will not end.
const LIMIT: Duration = Duration::from_secs(120);

/// Tries after one that ran out of a core's memory: its own search for smaller tiles ends too early for kernels with many comparisons.
const MORE_BUFFERS: [u32; 3] = [8, 24, 48];

/// A device compiler that was found and says what version it is.
#[derive(Debug, Clone)]
pub struct DeviceCompiler {
    program: PathBuf,
    version: String,
    /// `setarch -R` is there: with its addresses randomised the vendor's compiler orders operations differently from run to run.
    has_setarch: bool,
    limit: Duration,
}

impl DeviceCompiler {
    /// The compiler that `TITAN_BISHENGIR` names, else the one in `PATH`; `None` if there is neither.
    ///
    /// # Errors
    /// As [`DeviceCompiler::at`].
    pub fn find() -> Option<DiagResult<Self>> {
        if let Some(path) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            let help = format!("{VARIABLE} names it: correct that, or unset it");
            return Some(Self::at(Path::new(&path)).map_err(|diag| diag.help(help)));
        }
        in_path(PROGRAM).map(|path| Self::at(&path))
    }

    /// The compiler at `path`: the program, or a folder it is in.
    ///
    /// # Errors
    /// T0540 when it cannot be run or does not say its version, T0543 when it does not end.
    pub fn at(path: &Path) -> DiagResult<Self> {
        let program = if path.is_dir() { path.join(PROGRAM) } else { path.to_path_buf() };
        let mut compiler =
            Self { program, version: String::new(), has_setarch: in_path("setarch").is_some(), limit: LIMIT };
        let files = Files::new()?;
        let ended = compiler.run(&files, &["--version".to_owned()])?;
        let version = ended.output.lines().map(str::trim).find(|line| !line.is_empty());
        match version {
            Some(version) if ended.succeeded() => version.clone_into(&mut compiler.version),
            _ => {
                let message = format!("{} --version {}", compiler.program.display(), ended.how());
                return Err(ended.explain(Diag::new("T0540", message)));
            }
        }
        Ok(compiler)
    }

    /// The same with another limit on the time of one kernel.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// What it says its version is.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Equal for kernels whose code is equal: the source, the device, the compiler.
    pub fn key(&self, kernel: &DeviceKernel, soc: &Soc) -> String {
        let mut hash = blake3::Hasher::new();
        for part in [&self.version, &flags(soc).join(" "), &kernel.symbol, &kernel.mlir] {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().to_hex().to_string()
    }

    /// The code of a kernel for a device.
    ///
    /// # Errors
    /// T0540 when the compiler cannot be run, T0541 when it refuses the kernel, T0542 when it crashes, T0543 when it does not end,
    /// T0544 when it succeeds without a result, T0545 when the vendor's back end is missing, T0546 when its files cannot be written.
    pub fn compile(&self, kernel: &DeviceKernel, soc: &Soc) -> DiagResult<Vec<u8>> {
        let mut result = self.attempt(kernel, soc, None);
        for buffers in MORE_BUFFERS {
            match result {
                Err(ref diag) if diag.notes.iter().any(|note| note.contains("ub overflow")) => {
                    result = self.attempt(kernel, soc, Some(buffers));
                }
                done => return done,
            }
        }
        result
    }

    /// Compiles with tiles that leave room for `buffers` more of their size than the compiler counts.
    fn attempt(&self, kernel: &DeviceKernel, soc: &Soc, buffers: Option<u32>) -> DiagResult<Vec<u8>> {
        let files = Files::new()?;
        let (input, output) = (files.path("kernel.mlir"), files.path("kernel.o"));
        files.write(&input, kernel.mlir.as_bytes())?;
        let mut arguments = vec![input.display().to_string()];
        arguments.extend(flags(soc));
        arguments.extend(buffers.map(|n| format!("--hfusion-max-buffer-count-tuning={n}")));
        arguments.extend(["-o".to_owned(), output.display().to_string()]);
        let ended = self.run(&files, &arguments)?;
        let at =
            |code, message: String| ended.explain(Diag::new(code, message).in_kernel(&kernel.symbol, soc));
        if !ended.succeeded() {
            let what = format!("{PROGRAM} {}", ended.how());
            return Err(match () {
                () if ended.output.contains("External hivmc run fails") => {
                    at("T0545", format!("{PROGRAM} finds no hivmc"))
                }
                () if ended.crashed() => at("T0542", what),
                () => at("T0541", what),
            });
        }
        match std::fs::read(&output) {
            Ok(bytes) if !bytes.is_empty() => Ok(bytes),
            Ok(_) => Err(at("T0544", format!("{PROGRAM} wrote an empty object"))),
            Err(e) => Err(at("T0544", format!("{PROGRAM} wrote no object: {e}"))),
        }
    }

    fn run(&self, files: &Files, arguments: &[String]) -> DiagResult<Ended> {
        let mut command = if self.has_setarch {
            let mut command = Command::new("setarch");
            command.arg("-R").arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        process::check_program(&self.program)?;
        command.env("PATH", self.search_path());
        process::run(command.args(arguments), &self.program, files, self.limit)
    }

    /// `PATH` with the program's own folder: it may call others that lie beside it.
    fn search_path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = self.program.parent().map(Path::to_path_buf);
        let folders = std::env::split_paths(&path).chain(own);
        // A folder with a colon in its name cannot be in a search path.
        std::env::join_paths(folders).unwrap_or(path)
    }
}

/// Places a finding.
trait InKernel {
    fn in_kernel(self, symbol: &str, soc: &Soc) -> Self;
}

impl InKernel for Diag {
    fn in_kernel(mut self, symbol: &str, soc: &Soc) -> Self {
        self.path = Some(format!("{symbol} for {}", soc.name));
        self
    }
}

/// What a kernel is compiled with, besides files.
///
/// The first chooses the path from tensors; the number of blocks is that of the vector cores; the last two avoid a second store of every result
/// and retry with smaller tiles.
fn flags(soc: &Soc) -> [String; 5] {
    [
        "-enable-hfusion-compile=true".to_owned(),
        format!("--target={}", soc.name),
        format!("-block-dim={}", soc.vector_cores),
        "--disable-auto-cv-work-space-manage=true".to_owned(),
        "--enable-tuning-mode=true".to_owned(),
    ]
}

/// The first file of that name in `PATH`.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
