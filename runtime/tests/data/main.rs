//! Datasets, tokenizers, batches, token files and weights, through the public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod batches;
mod sharding;
mod tokenizer;
mod tokens;
mod weights;

use std::io::Write;
use std::path::{Path, PathBuf};
use titan_run::data::{DataConfig, Loader};

/// A folder of a test's own, removed at the end.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn write(path: &Path, bytes: &[u8]) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
    path.to_path_buf()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstandard(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// JSON lines of these texts.
fn json_lines<S: AsRef<str>>(texts: &[S]) -> Vec<u8> {
    let line =
        |text: &S| format!("{}\n", serde_json::json!({"text": text.as_ref(), "url": "http://example.org"}));
    texts.iter().map(line).collect::<String>().into_bytes()
}

/// Rank 0 of 1, `c4_test` at `path`, the shipped tokenizer, two sequences of eight.
fn config(path: &Path) -> DataConfig {
    DataConfig {
        dataset: "c4_test".to_string(),
        dataset_path: Some(path.to_path_buf()),
        tokenizer_dir: "./tests/assets/tokenizer".into(),
        seq_len: 8,
        local_batch: 2,
        dp_rank: 0,
        dp_world: 1,
        vocab_size: 2048,
        infinite: true,
    }
}

type Batch = (Vec<i32>, Vec<i32>);

/// The next `num_batches` batches, fewer at the end of the data.
fn take(loader: &mut Loader, config: &DataConfig, num_batches: usize) -> Vec<Batch> {
    let mut batches = Vec::new();
    while batches.len() < num_batches {
        let size = config.local_batch * config.seq_len;
        let (mut inputs, mut labels) = (vec![-1; size], vec![-1; size]);
        if !loader.next_batch(&mut inputs, &mut labels).unwrap() {
            break;
        }
        batches.push((inputs, labels));
    }
    batches
}

/// Everything a dataset that is read once gives.
fn read_once(config: &DataConfig) -> Vec<Batch> {
    let config = DataConfig { infinite: false, ..config.clone() };
    take(&mut Loader::open(config.clone()).unwrap(), &config, usize::MAX)
}

/// The code and full text of the error that opening or reading gives.
fn error(config: &DataConfig) -> (&'static str, String) {
    let size = config.local_batch * config.seq_len;
    let (mut inputs, mut labels) = (vec![0; size], vec![0; size]);
    let mut loader = match Loader::open(config.clone()) {
        Ok(loader) => loader,
        Err(diag) => return (diag.code, diag.to_string()),
    };
    for _ in 0..10_000 {
        match loader.next_batch(&mut inputs, &mut labels) {
            Ok(true) => {}
            Ok(false) => panic!("the data ended without an error"),
            Err(diag) => {
                let again = loader.next_batch(&mut inputs, &mut labels).unwrap_err();
                assert_eq!(again, diag, "an error is repeated");
                return (diag.code, diag.to_string());
            }
        }
    }
    panic!("no error in 10,000 batches");
}

#[track_caller]
fn check_error(config: &DataConfig, code: &str, parts: &[&str]) {
    let (found, text) = error(config);
    assert_eq!(found, code, "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}
