//! Which records a rank reads, and in which order files are read.

use super::*;
use std::collections::BTreeMap;
use titan_run::data::Tokenizer;

/// Texts whose first word is their number, each of one token piece so that a batch row is a text's beginning.
fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|i| format!("#{i}#")).collect()
}

/// The numbers of the texts that a rank reads in one epoch, in order.
fn numbers(config: &DataConfig) -> Vec<usize> {
    let config = DataConfig { seq_len: 1, local_batch: 1, ..config.clone() };
    let mut tokens = Vec::new();
    for (inputs, labels) in read_once(&config) {
        tokens.extend([inputs[0], labels[0]]);
    }
    let tokenizer = Tokenizer::shipped().unwrap();
    let text: String = tokens.iter().filter_map(|&t| tokenizer.token(t)).collect();
    text.split('#').filter_map(|part| part.parse().ok()).collect()
}

fn of_ranks(config: &DataConfig, num_ranks: usize) -> Vec<Vec<usize>> {
    (0..num_ranks)
        .map(|dp_rank| numbers(&DataConfig { dp_rank, dp_world: num_ranks, ..config.clone() }))
        .collect()
}

fn every_record_once(shares: &[Vec<usize>], num_records: usize) {
    let mut seen = BTreeMap::new();
    for &number in shares.iter().flatten() {
        *seen.entry(number).or_insert(0) += 1;
    }
    assert_eq!(seen, (0..num_records).map(|i| (i, 1)).collect(), "every record belongs to one rank");
}

#[test]
fn c4_test_is_split_into_blocks() {
    let dir = folder();
    write(&dir.path().join("a.json"), &json_lines(&numbered(0..4)));
    write(&dir.path().join("b.json"), &json_lines(&numbered(4..11)));
    let config = config(dir.path());
    assert_eq!(of_ranks(&config, 1), [(0..11).collect::<Vec<_>>()]);
    assert_eq!(of_ranks(&config, 3), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10]]);
    for num_ranks in [2, 4, 5, 11] {
        every_record_once(&of_ranks(&config, num_ranks), 11);
    }
}

#[test]
fn a_streaming_dataset_is_split_by_files_where_they_divide() {
    let dir = folder();
    for file in 0..4 {
        write(&dir.path().join(format!("{file}.json")), &json_lines(&numbered(file * 3..file * 3 + 3)));
    }
    let config = DataConfig { dataset: "c4".to_string(), ..config(dir.path()) };
    assert_eq!(of_ranks(&config, 2), [vec![0, 1, 2, 6, 7, 8], vec![3, 4, 5, 9, 10, 11]]);
    assert_eq!(of_ranks(&config, 3), [vec![0, 3, 6, 9], vec![1, 4, 7, 10], vec![2, 5, 8, 11]]);
    for num_ranks in [1, 4, 5, 12] {
        every_record_once(&of_ranks(&config, num_ranks), 12);
    }
}

#[test]
fn folders_are_read_in_the_order_of_their_paths() {
    let dir = folder();
    for (i, path) in ["B.txt", "a/1.md", "a/2.txt", "b.txt", "c/d/e.text.gz"].iter().enumerate() {
        let text = format!("#{i}#");
        let bytes = if path.ends_with("gz") { gzip(text.as_bytes()) } else { text.into_bytes() };
        write(&dir.path().join(path), &bytes);
    }
    write(&dir.path().join(".hidden.txt"), b"#100#");
    write(&dir.path().join(".git/x.txt"), b"#101#");
    write(&dir.path().join("picture.png"), b"#102#");
    for dataset in ["c4_test", "c4"] {
        let config = DataConfig { dataset: dataset.to_string(), ..config(dir.path()) };
        assert_eq!(of_ranks(&config, 1), [vec![0, 1, 2, 3, 4]]);
        every_record_once(&of_ranks(&config, 2), 5);
    }
    // JSON lines beside a readme: the readme is not training text.
    write(&dir.path().join("z.jsonl"), &json_lines(&numbered(7..9)));
    assert_eq!(numbers(&config(dir.path())), [7, 8]);
}

#[test]
fn all_packings_of_a_file_read_the_same() {
    let dir = folder();
    // Empty lines, a byte order mark, Windows line ends, no line end at the end, non-ASCII text.
    let mut lines = json_lines(&["#0# pl\u{00e4}in \u{4e16}", "#1#", "#2# \n"]);
    lines.splice(0..0, *b"\xef\xbb\xbf\n\r\n");
    lines.extend(b"   \r\n{\"a\": [1, {\"text\": 4}], \"text\": \"#3#\"}");
    let two_members: Vec<u8> = [gzip(&lines[..40]), gzip(&lines[40..])].concat();
    let two_frames: Vec<u8> = [zstandard(&lines[..40]), zstandard(&lines[40..])].concat();
    let plain = read_once(&config(&write(&dir.path().join("p.json"), &lines)));
    assert!(!plain.is_empty());
    for (name, bytes) in [
        ("a.json.gz", gzip(&lines)),
        ("b.jsonl.gz", two_members),
        ("c.json.zst", zstandard(&lines)),
        ("d.NDJSON.ZST", two_frames),
    ] {
        let path = write(&dir.path().join(name), &bytes);
        assert_eq!(read_once(&config(&path)), plain, "{name}");
        assert_eq!(numbers(&config(&path)), [0, 1, 2, 3], "{name}");
    }
}
