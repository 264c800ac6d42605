//! The fingerprint: a BLAKE3 hash of everything an artifact is made from, so that two artifacts differ exactly where their inputs do.

use crate::target::Target;
use serde::Serialize;
use std::collections::BTreeMap;
use titan_ir::artifact::FORMAT_VERSION;
use titan_ir::ice;

/// Hashes by name of the input.
#[derive(Debug, Clone, Default)]
pub struct Fingerprint(BTreeMap<String, String>);

/// Version of this compiler.
pub const TITAN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Version of the LLVM this compiler is linked with.
pub fn llvm_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}

impl Fingerprint {
    /// The inputs every build has: versions and target.
    pub fn new(target: Target) -> Self {
        let mut fingerprint = Self::default();
        fingerprint.add("titan_version", TITAN_VERSION.as_bytes());
        fingerprint.add("format_version", &FORMAT_VERSION.to_le_bytes());
        fingerprint.add("llvm_version", llvm_version().as_bytes());
        fingerprint.add_json("target", &target.info());
        fingerprint
    }

    /// Adds the bytes of an input.
    pub fn add(&mut self, name: impl Into<String>, bytes: &[u8]) {
        self.0.insert(name.into(), blake3::hash(bytes).to_hex().to_string());
    }

    /// Adds an input by its JSON text.
    pub fn add_json(&mut self, name: impl Into<String>, input: &impl Serialize) {
        match serde_json::to_vec(input) {
            Ok(text) => self.add(name, &text),
            Err(error) => ice!("an input of the build is not JSON: {error}"),
        }
    }

    /// The hashes by name, and under `all` the hash of all of them.
    pub fn finish(mut self) -> BTreeMap<String, String> {
        let lines: String = self.0.iter().map(|(name, hash)| format!("{name} {hash}\n")).collect();
        self.add("all", lines.as_bytes());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{CPU_TARGETS, Target};

    #[test]
    fn every_input_changes_its_own_hash_and_that_of_all() {
        let of = |index: usize, ir: &str| {
            let target = Target::Cpu(&CPU_TARGETS[index]);
            let mut fingerprint = Fingerprint::new(target);
            fingerprint.add("ir", ir.as_bytes());
            fingerprint.finish()
        };
        let differing = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>| {
            a.keys().filter(|k| a[*k] != b[*k]).cloned().collect::<Vec<_>>()
        };
        let first = of(0, "x");
        assert_eq!(first, of(0, "x"));
        assert_eq!(differing(&first, &of(0, "y")), ["all", "ir"]);
        assert_eq!(differing(&first, &of(1, "x")), ["all", "target"]);
    }
}
