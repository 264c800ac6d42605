//! The model of this crate builds with its own command and trains with the common runtime.

use clap::Parser;
use std::path::Path;
use std::process::Command;
use titan_run::cli::Options;
use titan_run::train;

#[test]
fn a_model_of_ones_own_learns() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("user-model-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let (artifact, metrics) = (folder.join("pocket.titan"), folder.join("metrics.jsonl"));
    let built = Command::new(env!("CARGO_BIN_EXE_user_model"))
        .args(["build", "pocket.toml", "--model.flavor", "tiny", "--training.seq_len", "64", "-o"])
        .arg(&artifact)
        .current_dir(crate_dir)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let summary = String::from_utf8(built.stdout).unwrap();
    assert!(summary.starts_with("model: pocket tiny, "), "{summary}");

    let options = Options::parse_from([
        "titan-run".as_ref(),
        artifact.as_os_str(),
        "--nodes=2".as_ref(),
        "--metrics-json".as_ref(),
        metrics.as_os_str(),
    ]);
    train::run(&options).unwrap();
    let losses: Vec<f64> = std::fs::read_to_string(&metrics)
        .unwrap()
        .lines()
        .map(|line| {
            let loss = line.split("\"loss\":").nth(1).unwrap();
            loss.split([',', '}']).next().unwrap().trim().parse().unwrap()
        })
        .collect();
    assert_eq!(losses.len(), 40);
    // The first prediction is close to a uniform one over 2048 tokens.
    assert!((losses[0] - 2048_f64.ln()).abs() < 1.0, "{losses:?}");
    assert!(losses[39] < 0.75 * losses[0], "{losses:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
