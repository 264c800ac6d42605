//! Reading and writing tensors by name: safetensors files, alone or sharded with an index.

mod file;
mod write;

pub use safetensors::Dtype;
pub use write::{NamedTensor, write_safetensors};

use file::SafeFile;
use half::{bf16, f16};
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use titan_ir::{Diag, DiagResult};

const UNREADABLE: &str = "T0840";
const MISMATCH: &str = "T0841";
const DTYPE: &str = "T0842";

/// A tensor's element type and shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Element type in the file.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
}

/// The tensors of one or several mapped safetensors files. Nothing is read before it is asked for.
pub struct Weights {
    path: String,
    files: Vec<SafeFile>,
    /// For every tensor the file it is in, sorted by name.
    places: BTreeMap<String, usize>,
}

impl Weights {
    /// Opens a `.safetensors` file, an index (`*.safetensors.index.json`), or a folder with an index or with safetensors files.
    ///
    /// # Errors
    /// Nothing is there, a file is damaged or cut short, a tensor is there twice, or the index names what is not there.
    pub fn open(path: &Path) -> DiagResult<Self> {
        let shown = path.display().to_string();
        if path.is_dir() {
            let index = path.join("model.safetensors.index.json");
            return if index.exists() { Self::of_index(&index, shown) } else { Self::of_folder(path, shown) };
        }
        if path.extension().is_some_and(|e| e == "json") {
            return Self::of_index(path, shown);
        }
        Self::of_files(shown, vec![SafeFile::open(path)?])
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Type and shape of a tensor, if it is there.
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.files[*self.places.get(name)?].info(name)
    }

    /// The bytes of a tensor as they are in the file (little endian, row major, not aligned), if it is there.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.files[*self.places.get(name)?].bytes(name)
    }

    /// Checks that the tensors are exactly `expected`: pairs of name and shape.
    ///
    /// # Errors
    /// One finding that lists missing, unexpected and differently shaped tensors.
    pub fn check<'a>(&self, expected: impl IntoIterator<Item = (&'a str, &'a [usize])>) -> DiagResult<()> {
        let expected: IndexMap<&str, &[usize]> = expected.into_iter().collect();
        let mut missing = Vec::new();
        let mut misshaped = Vec::new();
        for (&name, &shape) in &expected {
            match self.info(name) {
                None => missing.push(name.to_string()),
                Some(info) if info.shape != shape => {
                    misshaped.push(format!("{name} is {:?}, the model needs {shape:?}", info.shape));
                }
                Some(_) => {}
            }
        }
        let unexpected: Vec<String> =
            self.names().filter(|name| !expected.contains_key(name)).map(str::to_string).collect();
        if missing.is_empty() && misshaped.is_empty() && unexpected.is_empty() {
            return Ok(());
        }
        let mut diag =
            Diag::new(MISMATCH, format!("the tensors of `{}` are not those of the model", self.path)).help(
                "weights need the model's own names and shapes (torchtitan's: `tok_embeddings.weight`, ...)",
            );
        for (what, names) in
            [("missing", missing), ("of another shape", misshaped), ("not in the model", unexpected)]
        {
            if !names.is_empty() {
                diag = diag.note(format!("{} {what}: {}", names.len(), first_few(&names)));
            }
        }
        Err(diag)
    }

    /// Reads a whole tensor, widened to f32.
    ///
    /// # Errors
    /// The tensor is missing, is not F32, BF16 or F16, or has another number of elements than `out`.
    pub fn read_f32(&self, name: &str, out: &mut [f32]) -> DiagResult<()> {
        let info = self.info(name).ok_or_else(|| self.missing(name))?;
        let num_elements: usize = info.shape.iter().product();
        self.read_elements(name, 0..num_elements, out)
    }

    /// Reads the rows `rows` of dimension 0, widened to f32. Only their pages are touched.
    ///
    /// # Errors
    /// As [`Weights::read_f32`]; or the tensor has fewer rows.
    pub fn read_rows_f32(&self, name: &str, rows: Range<usize>, out: &mut [f32]) -> DiagResult<()> {
        let info = self.info(name).ok_or_else(|| self.missing(name))?;
        let num_rows = info.shape.first().copied().unwrap_or(1);
        if rows.start > rows.end || rows.end > num_rows {
            let message = format!("tensor `{name}` of `{}` has {num_rows} rows, not {rows:?}", self.path);
            return Err(Diag::new(MISMATCH, message));
        }
        let row_elements: usize = info.shape.iter().skip(1).product();
        self.read_elements(name, rows.start * row_elements..rows.end * row_elements, out)
    }

    fn read_elements(&self, name: &str, elements: Range<usize>, out: &mut [f32]) -> DiagResult<()> {
        let (Some(info), Some(bytes)) = (self.info(name), self.bytes(name)) else {
            return Err(self.missing(name));
        };
        if elements.len() != out.len() {
            let message = format!(
                "tensor `{name}` of `{}` is {:?}: {} elements, not {}",
                self.path,
                info.shape,
                elements.len(),
                out.len()
            );
            return Err(Diag::new(MISMATCH, message));
        }
        let element_bytes = info.dtype.bitsize() / 8;
        let bytes = &bytes[elements.start * element_bytes..elements.end * element_bytes];
        match info.dtype {
            Dtype::F32 => widen(bytes, out, f32::from_le_bytes),
            Dtype::BF16 => widen(bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
            Dtype::F16 => widen(bytes, out, |b| f16::from_le_bytes(b).to_f32()),
            other => {
                let message =
                    format!("tensor `{name}` of `{}` is {other:?}; weights are F32, BF16 or F16", self.path);
                return Err(Diag::new(DTYPE, message));
            }
        }
        Ok(())
    }

    fn missing(&self, name: &str) -> Diag {
        Diag::new(MISMATCH, format!("`{}` has no tensor `{name}`", self.path))
    }

    fn of_files(path: String, files: Vec<SafeFile>) -> DiagResult<Self> {
        let mut places = BTreeMap::new();
        for (i, file) in files.iter().enumerate() {
            for name in file.names() {
                if places.insert(name.to_string(), i).is_some() {
                    return Err(Diag::new(
                        UNREADABLE,
                        format!("tensor `{name}` is in two files of `{path}`"),
                    ));
                }
            }
        }
        Ok(Self { path, files, places })
    }

    fn of_folder(folder: &Path, shown: String) -> DiagResult<Self> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|e| unreadable(&shown, &e.to_string()))? {
            paths.push(entry.map_err(|e| unreadable(&shown, &e.to_string()))?.path());
        }
        paths.retain(|p| p.extension().is_some_and(|e| e == "safetensors"));
        paths.sort();
        if paths.is_empty() {
            return Err(unreadable(&shown, "the folder holds no .safetensors file"));
        }
        Self::of_files(shown, paths.iter().map(|p| SafeFile::open(p)).collect::<DiagResult<_>>()?)
    }

    fn of_index(index: &Path, shown: String) -> DiagResult<Self> {
        let index_shown = index.display().to_string();
        let bytes = std::fs::read(index).map_err(|e| unreadable(&index_shown, &e.to_string()))?;
        let index_json: Index =
            serde_json::from_slice(&bytes).map_err(|e| unreadable(&index_shown, &e.to_string()))?;
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut files = Vec::new();
        for file in index_json.weight_map.values() {
            if numbers.contains_key(file.as_str()) {
                continue;
            }
            if PathBuf::from(file).file_name().is_none_or(|name| name != file.as_str()) {
                return Err(unreadable(
                    &index_shown,
                    &format!("`{file}` is not the name of a file beside the index"),
                ));
            }
            numbers.insert(file, files.len());
            files.push(SafeFile::open(&index.with_file_name(file))?);
        }
        let weights = Self::of_files(shown, files)?;
        for (name, file) in &index_json.weight_map {
            if weights.places.get(name) != numbers.get(file.as_str()) {
                return Err(unreadable(
                    &index_shown,
                    &format!("it says that `{name}` is in `{file}`, which it is not"),
                ));
            }
        }
        Ok(weights)
    }
}

#[derive(serde::Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn widen<const N: usize>(bytes: &[u8], out: &mut [f32], convert: impl Fn([u8; N]) -> f32) {
    let (elements, _) = bytes.as_chunks::<N>();
    for (out, &element) in out.iter_mut().zip(elements) {
        *out = convert(element);
    }
}

fn first_few(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(", and {} more", names.len() - SHOWN));
    }
    text
}

fn unreadable(path: &str, reason: &str) -> Diag {
    Diag::new(UNREADABLE, format!("`{path}` cannot be read as safetensors: {reason}"))
}
