//! Every way in which a dataset can be wrong has a code and a message that names the place.

use super::*;

#[test]
fn names_and_paths() {
    let dir = folder();
    let base = config(dir.path());
    let named = |dataset: &str| DataConfig { dataset: dataset.to_string(), ..base.clone() };
    check_error(&named("alpaca"), "T0800", &["`alpaca`", "c4_test, c4 or c4_validation"]);
    for dataset in ["c4", "c4_validation"] {
        let config = DataConfig { dataset_path: None, ..named(dataset) };
        check_error(&config, "T0801", &[dataset, "training.dataset_path"]);
    }
    check_error(&config(&dir.path().join("nowhere")), "T0802", &["nowhere", "training.dataset_path"]);
    check_error(&base, "T0802", &["holds no training text"]);
    write(&dir.path().join("x.parquet"), b"PAR1");
    check_error(&base, "T0802", &["Parquet files are not read yet"]);
}

#[test]
fn empty_datasets() {
    let dir = folder();
    let path = write(&dir.path().join("data.json"), b"\n \n");
    check_error(&config(&path), "T0808", &["the dataset is empty", "data.json"]);
    let streaming = DataConfig { dataset: "c4".to_string(), ..config(&path) };
    check_error(&streaming, "T0808", &["gives no record to data-parallel rank 0 of 1"]);

    write(&path, &json_lines(&["one", "two", "three"]));
    let last_of_four = DataConfig { dp_rank: 3, dp_world: 4, ..config(&path) };
    check_error(&last_of_four, "T0808", &["3 record(s) for 4 data-parallel ranks"]);
    let streaming = DataConfig { dataset: "c4".to_string(), ..last_of_four };
    check_error(&streaming, "T0808", &["gives no record to data-parallel rank 3 of 4"]);
}

#[test]
fn records_without_text() {
    let dir = folder();
    let path = dir.path().join("data.json");
    let cases: [(&[u8], &str); 6] = [
        (b"{\"text\": \"ab\"", "EOF while parsing"),
        (b"{\"txt\": \"ab\"}", "missing field `text`"),
        (b"{\"text\": 7}", "invalid type: integer `7`"),
        (b"[\"ab\"]", "not a JSON object"),
        (b"{\"text\": \"ab\"} x", "trailing characters"),
        (b"{\"text\": \"ab\ncd\"}", "EOF while parsing a string"),
    ];
    for (line, reason) in cases {
        let mut bytes = json_lines(&["fine"]);
        bytes.extend(b"\n");
        bytes.extend(line);
        for name in ["data.json", "data.json.gz"] {
            let path = path.with_file_name(name);
            write(&path, &if name.ends_with("gz") { gzip(&bytes) } else { bytes.clone() });
            check_error(
                &config(&path),
                "T0805",
                &[&format!("line 3 of `{}`", path.display()), reason, &format!("{name}:3:")],
            );
        }
    }
}

#[test]
fn text_that_is_not_utf8() {
    let dir = folder();
    let json = write(&dir.path().join("a/data.json"), b"{\"text\": \"fine\"}\n{\"text\": \"caf\xe9\"}\n");
    check_error(&config(&json), "T0806", &["data.json:2", "byte 14"]);
    let text = write(&dir.path().join("b/data.txt"), b"caf\xe9");
    check_error(&config(&text), "T0806", &["data.txt", "byte 4", "iconv"]);
}

#[test]
fn damaged_compressed_files() {
    let dir = folder();
    let texts: Vec<String> = (0..200).map(|i| format!("{i} {}", i * i * 7919 % 10007)).collect();
    let lines = json_lines(&texts);
    for (name, whole) in [("data.json.gz", gzip(&lines)), ("data.json.zst", zstandard(&lines))] {
        let path = dir.path().join(name);
        for dataset in ["c4_test", "c4"] {
            let config = DataConfig { dataset: dataset.to_string(), ..config(&path) };
            for length in [0, 1, 9, whole.len() / 2, whole.len() - 1] {
                write(&path, &whole[..length]);
                check_error(&config, "T0804", &[name, "not a whole"]);
            }
            for at in [0, whole.len() / 2, whole.len() - 3] {
                let mut flipped = whole.clone();
                flipped[at] ^= 0x10;
                write(&path, &flipped);
                let (code, text) = error(&config);
                // Damage may also break a line before the checksum at the end is reached.
                let broken_line = dataset == "c4" && matches!(code, "T0805" | "T0806");
                assert!(code == "T0804" || broken_line, "{name}, byte {at}: {text}");
            }
            write(&path, &[&whole[..], b"trailing garbage"].concat());
            check_error(&config, "T0804", &[name]);
        }
    }
}

#[test]
fn tokens_the_model_does_not_have() {
    let dir = folder();
    let path = write(&dir.path().join("data.json"), &json_lines(&["fine", "the end"]));
    // The two special tokens and the bytes come first; merged tokens come after them.
    let config = DataConfig { vocab_size: 258, ..config(&path) };
    check_error(
        &config,
        "T0822",
        &["outside the model's vocabulary of 258", "data.json:", "titan.model_args.vocab_size"],
    );
}

#[test]
fn tokenizer_folders() {
    let dir = folder();
    let data = write(&dir.path().join("data.json"), &json_lines(&["fine"]));
    let at = |folder: &str| DataConfig { tokenizer_dir: dir.path().join(folder), ..config(&data) };
    check_error(
        &at("nowhere"),
        "T0820",
        &["nowhere", "is not a folder", "tokenizer.json", "model.hf_assets_path"],
    );
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    check_error(&at("empty"), "T0820", &["empty", "holds no tokenizer"]);
    check_error(&at("llama/tokenizer.model"), "T0412", &["tokenizer.model", "model.hf_assets_path"]);

    write(&dir.path().join("cut/tokenizer.json"), b"{\"version\": \"1.0\", \"model\": {");
    check_error(&at("cut"), "T0821", &["tokenizer.json", "cut"]);
    let merges = br#"{"version":"1.0","added_tokens":[],"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[["a","b"]]}}"#;
    write(&dir.path().join("merges/tokenizer.json"), merges);
    check_error(&at("merges"), "T0821", &["merges"]);
    write(&dir.path().join("config/vocab.json"), b"{\"fine\": 0}");
    write(&dir.path().join("config/tokenizer_config.json"), b"[1]");
    check_error(&at("config"), "T0821", &["tokenizer_config.json", "not a JSON object"]);
    // A word list without `[UNK]` has no id for another word.
    write(&dir.path().join("words/vocab.json"), b"{\"other\": 0}");
    check_error(&at("words"), "T0821", &["cannot encode a text"]);
}
