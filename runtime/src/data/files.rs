//! Which files a dataset path means, and how each is to be read.

use super::codes;
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use titan_ir::{Diag, DiagResult};

/// What a record is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line; its `text` field is the record. Empty lines count for nothing.
    JsonLines,
    /// The whole file is one record.
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

#[derive(Debug, Clone)]
enum Origin {
    Disk(PathBuf),
    Memory(&'static [u8]),
}

/// One file of a dataset.
#[derive(Debug, Clone)]
pub struct DataFile {
    /// The name used in messages.
    pub name: String,
    /// How it splits into records.
    pub format: Format,
    compression: Compression,
    origin: Origin,
}

impl DataFile {
    /// A file held in memory; `name` decides how it is read.
    pub fn in_memory(name: &str, bytes: &'static [u8]) -> Self {
        let (format, compression) = kind_of(name).unwrap_or((Format::Text, Compression::None));
        Self { name: name.to_string(), format, compression, origin: Origin::Memory(bytes) }
    }

    /// The decompressed content.
    ///
    /// # Errors
    /// A file that cannot be opened, and a compressed file without a single byte.
    pub fn open(&self) -> DiagResult<Box<dyn BufRead + Send>> {
        let (raw, size_bytes): (Box<dyn Read + Send>, u64) = match &self.origin {
            Origin::Memory(bytes) => (Box::new(*bytes), bytes.len() as u64),
            Origin::Disk(path) => {
                let file = File::open(path).map_err(|e| unreadable(&self.name, &e))?;
                let size_bytes = file.metadata().map_err(|e| unreadable(&self.name, &e))?.len();
                (Box::new(file), size_bytes)
            }
        };
        if self.compression != Compression::None && size_bytes == 0 {
            return Err(self.corrupt("it is empty"));
        }
        Ok(match self.compression {
            Compression::None => Box::new(BufReader::with_capacity(READ_BYTES, raw)),
            Compression::Gzip => {
                let decoder = flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(READ_BYTES, raw));
                Box::new(BufReader::with_capacity(READ_BYTES, decoder))
            }
            Compression::Zstd => {
                let decoder =
                    zstd::stream::read::Decoder::new(raw).map_err(|e| unreadable(&self.name, &e))?;
                Box::new(BufReader::with_capacity(READ_BYTES, decoder))
            }
        })
    }

    /// The finding for an error met while reading.
    pub(super) fn read_error(&self, error: &std::io::Error) -> Diag {
        if self.compression == Compression::None {
            unreadable(&self.name, error)
        } else {
            self.corrupt(&error.to_string())
        }
    }

    fn corrupt(&self, reason: &str) -> Diag {
        let format = if self.compression == Compression::Gzip { "gzip" } else { "zstd" };
        Diag::new(codes::CORRUPT, format!("`{}` is not a whole {format} file: {reason}", self.name))
            .help("copy or download the file again; `gzip -t` and `zstd -t` test a file")
    }
}

const READ_BYTES: usize = 64 * 1024;

/// The files below `path`, in the order they are read: one file, or all files of a folder and its sub-folders sorted by path.
///
/// A folder with JSON-lines files is read as those alone; otherwise its text files are. Hidden entries are passed over.
///
/// # Errors
/// The path does not exist or cannot be read, or nothing below it has a known ending.
pub fn find_files(path: &Path) -> DiagResult<Vec<DataFile>> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|e| {
        Diag::new(codes::NO_FILES, format!("the dataset `{shown}` cannot be read: {e}"))
            .help("training.dataset_path is resolved from the current folder")
    })?;
    let mut paths = Vec::new();
    if metadata.is_dir() {
        collect(path, &mut paths)?;
        paths.sort();
    } else {
        paths.push(path.to_path_buf());
    }
    let known = |path: &PathBuf| {
        let name = path.file_name()?.to_string_lossy();
        let (format, compression) = kind_of(&name)?;
        let name = path.display().to_string();
        Some(DataFile { name, format, compression, origin: Origin::Disk(path.clone()) })
    };
    let mut files: Vec<DataFile> = paths.iter().filter_map(known).collect();
    if files.iter().any(|f| f.format == Format::JsonLines) {
        files.retain(|f| f.format == Format::JsonLines);
    }
    if files.is_empty() {
        return Err(nothing_found(path, &paths));
    }
    Ok(files)
}

fn nothing_found(path: &Path, paths: &[PathBuf]) -> Diag {
    let diag = Diag::new(codes::NO_FILES, format!("`{}` holds no training text", path.display())).help(
        "give JSON lines with a `text` field (.json, .jsonl, also .gz and .zst) or text files (.txt, .md, .text)",
    );
    if paths.iter().any(|p| p.extension().is_some_and(|e| e == "parquet")) {
        return diag.note("Parquet files are not read yet; write them out as JSON lines");
    }
    diag
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> DiagResult<()> {
    let shown = folder.display().to_string();
    for entry in std::fs::read_dir(folder).map_err(|e| unreadable(&shown, &e))? {
        let path = entry.map_err(|e| unreadable(&shown, &e))?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        if path.is_dir() {
            collect(&path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

/// How a file of that name is read; none for a name with an unknown ending.
fn kind_of(name: &str) -> Option<(Format, Compression)> {
    let name: Cow<'_, str> = if name.bytes().any(|b| b.is_ascii_uppercase()) {
        name.to_ascii_lowercase().into()
    } else {
        name.into()
    };
    let (stem, compression) = if let Some(stem) = name.strip_suffix(".gz") {
        (stem, Compression::Gzip)
    } else if let Some(stem) = name.strip_suffix(".zst") {
        (stem, Compression::Zstd)
    } else {
        (&*name, Compression::None)
    };
    let ending = stem.rsplit_once('.').map(|(_, ending)| ending);
    let format = match ending {
        Some("json" | "jsonl" | "ndjson") => Format::JsonLines,
        Some("txt" | "md" | "text") => Format::Text,
        _ => return None,
    };
    Some((format, compression))
}

fn unreadable(name: &str, error: &std::io::Error) -> Diag {
    Diag::new(codes::READ, format!("`{name}` cannot be read: {error}"))
}
