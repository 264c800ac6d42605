//! Token files: the golden runs' own, and wrong ones.

use super::*;
use titan_run::data::{Source, TokenFile, TokenShape};
use titan_run::weights::{Dtype, NamedTensor, write_safetensors};

const SHAPE: TokenShape =
    TokenShape { seq_len: 64, local_batch: 4, dp_rank: 0, dp_world: 1, vocab_size: 256 };

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/assets/golden").join(name)
}

/// The bytes of tensor `tokens` of a golden file, read without the code under test.
fn golden_tokens(name: &str) -> Vec<i32> {
    let bytes = std::fs::read(golden(name)).unwrap();
    let header_bytes = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[8 + header_bytes..].as_chunks::<4>().0.iter().map(|&b| i32::from_le_bytes(b)).collect()
}

fn all_batches(path: &Path, shape: TokenShape, num_batches: usize) -> Vec<Batch> {
    let mut file = Source::Tokens(TokenFile::open(path, shape).unwrap());
    let size = shape.local_batch * shape.seq_len;
    let mut batches = Vec::new();
    for _ in 0..num_batches {
        let (mut inputs, mut labels) = (vec![0; size], vec![0; size]);
        assert!(file.next_batch(&mut inputs, &mut labels).unwrap());
        batches.push((inputs, labels));
    }
    batches
}

#[test]
fn golden_tokens_are_read_row_by_row() {
    let tokens = golden_tokens("plain.tokens.safetensors");
    assert_eq!(tokens.len(), 10 * 4 * 65);
    let batches = all_batches(&golden("plain.tokens.safetensors"), SHAPE, 10);
    for (step, (inputs, labels)) in batches.iter().enumerate() {
        for row in 0..4 {
            let expected = &tokens[(step * 4 + row) * 65..][..65];
            assert_eq!(&inputs[row * 64..][..64], &expected[..64]);
            assert_eq!(&labels[row * 64..][..64], &expected[1..]);
        }
    }
    // The accumulation case has the same rows, two micro-batches a step.
    let halves = all_batches(&golden("accum.tokens.safetensors"), TokenShape { local_batch: 2, ..SHAPE }, 20);
    let joined: Vec<Batch> = halves
        .chunks(2)
        .map(|p| ([&p[0].0[..], &p[1].0].concat(), [&p[0].1[..], &p[1].1].concat()))
        .collect();
    assert_eq!(joined, batches);
}

#[test]
fn ranks_take_neighbouring_rows() {
    let whole = all_batches(&golden("plain.tokens.safetensors"), SHAPE, 10);
    for num_ranks in [2, 4] {
        let local_batch = 4 / num_ranks;
        let of_rank = |dp_rank| {
            let shape = TokenShape { local_batch, dp_rank, dp_world: num_ranks, ..SHAPE };
            all_batches(&golden("plain.tokens.safetensors"), shape, 10)
        };
        let ranks: Vec<Vec<Batch>> = (0..num_ranks).map(of_rank).collect();
        for (step, (inputs, labels)) in whole.iter().enumerate() {
            assert_eq!(&ranks.iter().flat_map(|r| r[step].0.clone()).collect::<Vec<_>>(), inputs);
            assert_eq!(&ranks.iter().flat_map(|r| r[step].1.clone()).collect::<Vec<_>>(), labels);
        }
    }
}

#[test]
fn a_file_is_read_once_and_resumed() {
    let path = golden("plain.tokens.safetensors");
    let mut file = TokenFile::open(&path, SHAPE).unwrap();
    let whole = all_batches(&path, SHAPE, 10);
    let (mut inputs, mut labels) = (vec![0; 256], vec![0; 256]);
    for _ in 0..7 {
        file.next_batch(&mut inputs, &mut labels).unwrap();
    }
    let mut resumed = TokenFile::open(&path, SHAPE).unwrap();
    resumed.restore(&file.state()).unwrap();
    for expected in &whole[7..] {
        resumed.next_batch(&mut inputs, &mut labels).unwrap();
        assert_eq!((&inputs, &labels), (&expected.0, &expected.1));
    }
    let diag = resumed.next_batch(&mut inputs, &mut labels).unwrap_err();
    assert_eq!(diag.code, "T0831");
    assert!(diag.message.contains("used up after 10 micro-batches"), "{diag}");
    let behind = titan_run::data::DataState { sample_idx: 11, ..file.state() };
    assert_eq!(file.restore(&behind).unwrap_err().code, "T0810");
}

#[test]
fn wrong_files_are_refused() {
    let dir = folder();
    let check = |path: &Path, shape: TokenShape, code: &str, part: &str| {
        let diag = TokenFile::open(path, shape).err().expect("refused");
        assert_eq!(diag.code, code, "{diag}");
        assert!(diag.to_string().contains(part), "`{part}` is not in:\n{diag}");
    };
    let good = golden("plain.tokens.safetensors");
    check(&good, TokenShape { seq_len: 63, ..SHAPE }, "T0830", "[micro-batches, 4, 64]");
    check(&good, TokenShape { dp_world: 2, ..SHAPE }, "T0830", "8 = 4 sequences x 2 data-parallel ranks");
    check(&golden("tiny.weights.safetensors"), SHAPE, "T0830", "no tensor named `tokens`");
    check(&dir.path().join("none.safetensors"), SHAPE, "T0840", "none.safetensors");

    let path = dir.path().join("t.safetensors");
    let of = |dtype, shape: &[usize], data: &[u8]| {
        write_safetensors(&path, &[NamedTensor { name: "tokens", dtype, shape, data }]).unwrap();
    };
    let shape = TokenShape { seq_len: 1, local_batch: 1, vocab_size: 10, ..SHAPE };
    of(Dtype::F32, &[1, 1, 2], &[0; 8]);
    check(&path, shape, "T0830", "F32");
    of(Dtype::I32, &[1, 2], &[0; 8]);
    check(&path, shape, "T0830", "[1, 2]");

    for (token, fits) in [(9i64, true), (10, false), (-1, false), (1 << 32, false)] {
        of(Dtype::I64, &[1, 1, 2], &[4i64.to_le_bytes(), token.to_le_bytes()].concat());
        let (mut inputs, mut labels) = ([0], [0]);
        let result = TokenFile::open(&path, shape).unwrap().next_batch(&mut inputs, &mut labels);
        if fits {
            result.unwrap();
            assert_eq!((inputs, labels), ([4], [9]));
        } else {
            let diag = result.unwrap_err();
            assert_eq!(diag.code, "T0822");
            let text = diag.to_string();
            assert!(text.contains(&format!("token {token} ")) && text.contains("tokens[0, 0, 1]"), "{text}");
        }
    }
}
