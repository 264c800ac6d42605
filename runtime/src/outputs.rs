//! The files a run will write: whether it can is told before training, not after.

use crate::cli::Options;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use titan_ir::{Diag, DiagResult};

/// Checks that the files the user asks for can be written; changes none and leaves none behind.
///
/// # Errors
/// T0704 for `--metrics-json`, T0768 for `--report`, T0843 for `--save-weights`, with the system's reason.
pub fn check(options: &Options) -> DiagResult<()> {
    check_distinct(options)?;
    let asked = [
        ("T0704", "--metrics-json", &options.metrics_json, extendable as fn(&Path) -> io::Result<()>),
        ("T0843", "--save-weights", &options.save_weights, replaceable),
        ("T0768", "--report", &options.report, replaceable),
    ];
    for (code, option, path, check) in asked {
        let Some(path) = path else { continue };
        check(path).map_err(|e| unwritable(code, option, path, &e))?;
    }
    Ok(())
}

/// No file of a run may be written over another one of it.
fn check_distinct(options: &Options) -> DiagResult<()> {
    let files = [
        ("the artifact", Some(&options.artifact)),
        ("--tokens", options.tokens.as_ref()),
        ("--init-from", options.init_from.as_ref()),
        ("--metrics-json", options.metrics_json.as_ref()),
        ("--save-weights", options.save_weights.as_ref()),
        ("--report", options.report.as_ref()),
    ];
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let outputs = [("T0704", files[3]), ("T0843", files[4]), ("T0768", files[5])];
    for (code, (option, path)) in outputs {
        let Some(path) = path else { continue };
        let mut others = files.iter().filter(|(other, _)| *other != option);
        if let Some((other, _)) = others.find(|(_, p)| p.is_some_and(|p| real(p) == real(path))) {
            let message = format!("`{}` of {option} is also {other}", path.display());
            return Err(Diag::new(code, message).help(format!("give {option} a file of its own")));
        }
    }
    Ok(())
}

/// The finding about a file of an option.
pub(crate) fn unwritable(code: &'static str, option: &str, path: &Path, error: &io::Error) -> Diag {
    Diag::new(code, format!("`{}` of {option} cannot be written: {error}", path.display()))
}

/// Whether the file can be written in its place.
fn extendable(path: &Path) -> io::Result<()> {
    if path.exists() { fs::OpenOptions::new().append(true).open(path).map(drop) } else { replaceable(path) }
}

/// Whether a file can appear in this place, first beside it under a temporary name.
fn replaceable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        // A device such as /dev/null would be gone.
        Ok(metadata) if !metadata.is_file() => return Err(io::Error::other("it is not a file")),
        _ => {}
    }
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidFilename.into()) };
    let probe = path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    File::create(&probe)?;
    fs::remove_file(&probe)
}
