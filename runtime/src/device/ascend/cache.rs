//! Code of kernels that were compiled on this machine, kept from run to run by what they were made of.
//!
//! A file is the BLAKE3 of the code and the code. It appears under its name only when it is whole, so processes may share a folder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs};
use titan_ir::{Diag, DiagResult};

const HASH_BYTES: usize = 32;

/// A folder of code.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The folder given, else `titan/kernels` in `XDG_CACHE_HOME` or in `.cache` of `HOME`; nothing is kept where there is none.
    pub(super) fn new(given: Option<&Path>) -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        Self { folder: given.map(Path::to_path_buf).or_else(|| Some(home()?.join("titan/kernels"))) }
    }

    /// The code kept under `key`; a damaged file counts as none.
    pub(super) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let mut file = fs::read(self.path(key)?).ok()?;
        let (hash, code) = file.split_at_checked(HASH_BYTES)?;
        if code.is_empty() || blake3::hash(code).as_bytes() != hash {
            return None;
        }
        Some(file.split_off(HASH_BYTES))
    }

    /// Keeps code under `key`.
    ///
    /// # Errors
    /// T0758 when the folder cannot be written.
    pub(super) fn put(&self, key: &str, code: &[u8]) -> DiagResult<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Some(path) = self.path(key) else { return Ok(()) };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unfinished = path.with_extension(format!("{}.{number}.tmp", std::process::id()));
        let write = || -> io::Result<()> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&unfinished, [blake3::hash(code).as_bytes().as_slice(), code].concat())?;
            fs::rename(&unfinished, &path)
        };
        write().map_err(|e| {
            let _ = fs::remove_file(&unfinished);
            Diag::new("T0758", format!("compiled kernels cannot be kept in `{}`: {e}", path.display()))
                .help("give a folder that can be written with --kernel-cache")
        })
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{key}.bin")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_and_damage_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(&folder.path().join("a/b")));
        assert_eq!(cache.get("k"), None);
        cache.put("k", b"code").unwrap();
        cache.put("k", b"code").unwrap();
        assert_eq!(cache.get("k").as_deref(), Some(&b"code"[..]));
        let file = cache.path("k").unwrap();
        let whole = fs::read(&file).unwrap();
        for len in 0..whole.len() {
            fs::write(&file, &whole[..len]).unwrap();
            assert_eq!(cache.get("k"), None, "{len} bytes");
        }
        let mut flipped = whole;
        flipped[HASH_BYTES + 1] ^= 1;
        fs::write(&file, &flipped).unwrap();
        assert_eq!(cache.get("k"), None);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing unfinished is left");
    }

    #[test]
    fn writers_at_once_leave_one_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path()));
        let code = vec![7; 100_000];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20).for_each(|_| cache.put("k", &code).unwrap()));
            }
            for _ in 0..100 {
                assert!(cache.get("k").is_none_or(|found| found == code));
            }
        });
        assert_eq!(cache.get("k").unwrap(), code);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let diag = Cache::new(Some(&file)).put("k", b"code").unwrap_err();
        assert_eq!(diag.code, "T0758");
        assert!(diag.message.contains(&file.display().to_string()), "{diag}");
    }
}
