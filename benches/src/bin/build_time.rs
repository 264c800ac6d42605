//! `cargo run --release -p titan-benches --bin build_time`
//!
//! Builds Llama 3 8B and 405B for more and more ranks and prints time, memory and artifact size: none of them may grow with the ranks.

use std::process::Command;
use titan_benches::{program, project, run};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("titan-build-time-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    println!("| flavor | ranks | build, s | peak RSS, MiB | artifact, KiB |");
    println!("|---|---|---|---|---|");
    for (flavor, all_ranks) in [("8B", [8_u64, 64, 1024]), ("405B", [8, 64, 512])] {
        for ranks in all_ranks {
            let (artifact, log) = (folder.join("built.titan"), folder.join("build.log"));
            let mut build = Command::new(program("titanc")?);
            build.arg("build").arg(project().join("examples/llama3_8b.toml")).arg("-o").arg(&artifact);
            build.args(["--model.flavor", flavor, "--titan.world_size", &ranks.to_string()]);
            let used = run(&mut build, &log)?;
            if !used.status.success() {
                return Err(format!("titanc failed: {}", std::fs::read_to_string(&log)?).into());
            }
            let kib = std::fs::metadata(&artifact)?.len() >> 10;
            let (seconds, mib) = (used.wall.as_secs_f64(), used.peak_rss_bytes >> 20);
            println!("| {flavor} | {ranks} | {seconds:.2} | {mib} | {kib} |");
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
