//! One test per file in `filetests/<pass>/*.titan`.
//!
//! The first line names the passes to run: `// run: autodiff,dce`. Then comes the input, a line `// ==== expected`, and the module
//! after the passes, or the diagnostic the passes end with, as comments. The output must verify and survive printing and
//! parsing. `TITAN_BLESS=1` writes what came out into the file, except when the module does not verify or does not survive.

use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::path::{Path, PathBuf};
use titan_ir::{Diags, text, verify};
use titan_passes::manager::{self, ManagerOptions};
use titan_passes::pass::PassCx;
use titan_passes::registry;

const MARK: &str = "// ==== expected\n";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let mut files = Vec::new();
    for folder in fs::read_dir(&root).expect("the folder of filetests").flatten() {
        let entries = fs::read_dir(folder.path()).expect("a folder per pass");
        files.extend(
            entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "titan")),
        );
    }
    files.sort();
    let trial = |file: PathBuf| {
        let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        Trial::test(name, move || check(&file).map_err(Failed::from))
    };
    let trials = files.into_iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Runs one file.
fn check(file: &Path) -> Result<(), String> {
    let source = fs::read_to_string(file).map_err(|e| e.to_string())?;
    let (test, expected) = source.split_once(MARK).unwrap_or((&source, ""));
    let Some(passes) = source.lines().next().and_then(|l| l.strip_prefix("// run: ")) else {
        return Err("the first line is not `// run: pass,pass`".to_owned());
    };
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let actual = match transform(&name, test, passes) {
        Ok(output) => output?,
        Err(diags) => {
            diags.to_string().lines().map(|line| format!("// {line}").trim_end().to_owned() + "\n").collect()
        }
    };
    if actual == expected {
        return Ok(());
    }
    if std::env::var_os("TITAN_BLESS").is_some_and(|v| v == "1") {
        let blessed = format!("{}\n{MARK}{actual}", test.trim_end());
        return fs::write(file, blessed + if actual.is_empty() { "\n" } else { "" })
            .map_err(|e| e.to_string());
    }
    Err(first_difference(expected, &actual))
}

/// The text after the passes, or the findings they end with. The inner error is a fault that must not be blessed.
fn transform(name: &str, source: &str, passes: &str) -> Result<Result<String, String>, Diags> {
    let mut module = text::parse(name, source)?;
    let before = text::print(&module);
    if text::parse(name, &before).as_ref() != Ok(&module) {
        return Ok(Err(format!("the input does not survive printing and parsing:\n{before}")));
    }
    let steps = registry::steps(passes)?;
    manager::run(&mut module, &mut PassCx::default(), &steps, &ManagerOptions::default())?;
    let printed = text::print(&module);
    if let Err(diags) = verify::verify(&module) {
        return Ok(Err(format!("the output does not verify:\n{diags}\n{printed}")));
    }
    Ok(match text::parse(name, &printed) {
        Ok(again) if text::print(&again) == printed => Ok(printed),
        Ok(again) => {
            Err(format!("printing and parsing changed the output:\n{printed}\n{}", text::print(&again)))
        }
        Err(diag) => Err(format!("the output does not parse:\n{diag}\n{printed}")),
    })
}

fn first_difference(expected: &str, actual: &str) -> String {
    let (expected_lines, actual_lines): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), actual.lines().collect());
    let at = expected_lines.iter().zip(&actual_lines).take_while(|(a, b)| a == b).count();
    let line = |lines: &[&str]| lines.get(at).map_or_else(|| "(end)".to_owned(), |l| (*l).to_owned());
    format!(
        "line {} of the output\n  expected: {}\n  actual:   {}\nTITAN_BLESS=1 accepts this output:\n{actual}",
        at + 1,
        line(&expected_lines),
        line(&actual_lines)
    )
}
