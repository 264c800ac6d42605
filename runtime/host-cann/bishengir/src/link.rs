//! From an object file to a shared library, by the system's linker.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder for one link; removed when dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind in the system's folder for such files is the system's to remove.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The bytes of a shared library with the code of `object`.
pub(super) fn shared_library(object: &[u8]) -> Result<Vec<u8>, String> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("host-bishengir-{}-{number}", std::process::id()));
    let folder = Folder(folder);
    let (input, output) = (folder.0.join("kernel.o"), folder.0.join("kernel.so"));
    let written = std::fs::create_dir_all(&folder.0).and_then(|()| std::fs::write(&input, object));
    written.map_err(|e| format!("cannot write {}: {e}", input.display()))?;
    let linker = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let run = Command::new(&linker)
        .args(["-shared", "-Wl,-z,defs", "-Wl,--build-id=none", "-o"])
        .args([&output, &input])
        .arg("-lm")
        .output()
        .map_err(|e| format!("cannot run {linker}: {e}"))?;
    if !run.status.success() {
        return Err(format!("{linker} failed: {}", String::from_utf8_lossy(&run.stderr).trim()));
    }
    std::fs::read(&output).map_err(|e| format!("cannot read {}: {e}", output.display()))
}
