//! Runs the command in a folder of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A small model that builds in no time.
pub(crate) const TINY: &str = "\
[training]
seq_len = 16
local_batch_size = 2
steps = 3

[lr_scheduler]
warmup_steps = 1

[titan]
ranks = [1, 2]
target = \"cpu-portable\"

[titan.model_args]
dim = 32
n_layers = 2
n_heads = 4
vocab_size = 64
multiple_of = 16
";

/// A temporary folder that is removed at the end.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

/// What a command left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("titanc-cli-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self { path }
    }

    /// A folder with the file `a.toml`.
    pub(crate) fn with(toml: &str) -> Self {
        let folder = Self::new();
        folder.write("a.toml", toml);
        folder
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path.join(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path.join(name)).unwrap()
    }

    /// Names of the files, sorted.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs `titanc` with these arguments, split at spaces.
    pub(crate) fn run(&self, args: &str) -> Ran {
        self.run_with(args, "")
    }

    /// The same with this device compiler; with none when it is empty, whatever the machine has.
    pub(crate) fn run_with(&self, args: &str, device_compiler: &str) -> Ran {
        let output = Command::new(env!("CARGO_BIN_EXE_titanc"))
            .args(args.split_whitespace())
            .current_dir(&self.path)
            .env("TITAN_BISHENGIR", device_compiler)
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// What the command prints and its exit code, as one text for a snapshot.
    pub(crate) fn show(&self, args: &str) -> String {
        let ran = self.run(args);
        format!("$ titanc {args}\n{}{}exit code {}\n", ran.stderr, ran.stdout, ran.code)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).unwrap();
    }
}

/// The text with amounts of memory, times and hashes masked: they change whenever a pass gets better.
pub(crate) fn masked(text: &str) -> String {
    let mask_line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let masked = words.iter().enumerate().map(|(i, word)| {
            let next = words.get(i + 1).map_or("", |w| w.trim_end_matches([',', ':']));
            let is_amount = matches!(
                next,
                "B" | "KiB" | "MiB" | "GiB" | "s" | "instructions" | "kernels" | "generated" | "contractions"
            );
            let is_number = word.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',');
            let is_unit = matches!(word.trim_end_matches([',', ':']), "B" | "KiB" | "MiB" | "GiB");
            match (is_number && !word.is_empty(), is_amount, is_unit) {
                (true, true, _) => "*".to_owned(),
                (_, _, true) => word.replace("KiB", "B").replace("MiB", "B").replace("GiB", "B"),
                _ if word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit()) => "<hash>".to_owned(),
                _ => (*word).to_owned(),
            }
        });
        // Columns are as wide as their amounts.
        let words: Vec<String> = masked.filter(|word| !word.is_empty()).collect();
        let indent = &line[..line.len() - line.trim_start().len()];
        format!("{indent}{}\n", words.join(" "))
    };
    text.lines().map(mask_line).collect()
}
