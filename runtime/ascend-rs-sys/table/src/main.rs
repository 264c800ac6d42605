//! `check-cann-headers FOLDER...`: compares the table with the headers in these include folders.

use ascend_rs_table::conformance::Kind;
use ascend_rs_table::headers::{Headers, Report};
use ascend_rs_table::model::{Library, Table};
use ascend_rs_table::{mutants, table};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io, process};

fn main() -> ExitCode {
    let folders: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    if folders.is_empty() {
        eprintln!("usage: check-cann-headers FOLDER...");
        return ExitCode::from(2);
    }
    let scratch = env::temp_dir().join(format!("check-cann-headers-{}", process::id()));
    let result = fs::create_dir_all(&scratch).and_then(|()| run(&folders, &scratch));
    // The folder is ours and holds only what can be made again.
    let _ = fs::remove_dir_all(&scratch);
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("check-cann-headers: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(folders: &[PathBuf], scratch: &Path) -> io::Result<bool> {
    let table = table().map_err(io::Error::other)?;
    let cxx = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let headers = Headers::read(&table, folders, &cxx, scratch)?;
    println!("headers: {} read", headers.num_files);
    for path in &headers.unreadable {
        println!("  not read, it does not compile by itself: {}", path.display());
    }
    let report = headers.compare(&table, &cxx, scratch)?;
    print_counts(&table, &report);
    println!("differences: {}", report.differences.len());
    for (entry, message) in &report.differences {
        println!("  {entry}: {message}");
    }
    let all_caught = self_test(&headers, &table, &report, &cxx, scratch)?;
    Ok(report.differences.is_empty() && all_caught)
}

fn print_counts(table: &Table, report: &Report) {
    let checked = |kind| report.checked.get(&kind).map_or(0, |entries| entries.len());
    for (name, library) in Library::ALL {
        let functions = table.functions_of(library);
        let missing: Vec<&str> = functions
            .iter()
            .map(|f| f.name.as_str())
            .filter(|n| report.missing.iter().any(|m| m == n))
            .collect();
        println!("{name}: {} of {} prototypes checked", functions.len() - missing.len(), functions.len());
    }
    println!(
        "types: {} enums, {} structs and unions, {} other names; {} constants and statuses; {} statements in all",
        checked(Kind::Enum),
        checked(Kind::Struct),
        checked(Kind::Name),
        checked(Kind::Constant),
        report.num_statements
    );
    println!("in no header: {} entries", report.missing.len());
    for line in report.missing.chunks(6) {
        println!("  {}", line.join(" "));
    }
}

/// Whether every fault put into an entry that was checked and found equal is found.
fn self_test(
    headers: &Headers,
    table: &Table,
    clean: &Report,
    cxx: &str,
    scratch: &Path,
) -> io::Result<bool> {
    let mut all_caught = true;
    for (what, mutate) in mutants::ALL {
        let mut mutant = table.clone();
        let mut changed = mutate(&mut mutant);
        let is_equal = |entry: &String| !clean.differences.contains_key(entry);
        changed.retain(|entry| is_equal(entry) && clean.checked.values().any(|all| all.contains(entry)));
        let report = headers.compare(&mutant, cxx, scratch)?;
        let missed: Vec<_> =
            changed.iter().filter(|entry| !report.differences.contains_key(*entry)).collect();
        println!("self-test, {what}: {} of {} found", changed.len() - missed.len(), changed.len());
        if !missed.is_empty() {
            println!("  not found: {missed:?}");
            all_caught = false;
        }
    }
    Ok(all_caught)
}
