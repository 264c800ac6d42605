//! Token ids against those the Python package gives for the same folders (tests/assets/tokenizers).

use super::*;
use serde_json::Value;
use titan_run::data::Tokenizer;

fn check(name: &str, tokenizer: &Tokenizer) {
    let bytes = std::fs::read(folders().join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&bytes).unwrap();
    let expected = &expected[name];
    assert_eq!(tokenizer.num_tokens() as u64, expected["num_tokens"], "{name}");
    let cases = expected["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 10);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let mut ids = vec![-7];
        tokenizer.encode(text, &mut ids).unwrap();
        let expected: Vec<i32> = serde_json::from_value(case["ids"].clone()).unwrap();
        assert_eq!(ids[0], -7, "ids are appended");
        assert_eq!(ids[1..], expected, "{name}: {text:?}");
    }
}

fn folders() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/assets/tokenizers")
}

#[test]
fn ids_are_those_of_the_python_package() {
    for name in ["begins", "ascii", "pair", "words"] {
        check(name, &Tokenizer::open(&folders().join(name)).unwrap());
    }
}

#[test]
fn the_shipped_tokenizer_stands_for_the_default_folder() {
    check("shipped", &Tokenizer::shipped().unwrap());
    for default in ["./tests/assets/tokenizer", "tests/assets/tokenizer", "./tests/assets/tokenizer/"] {
        check("shipped", &Tokenizer::open(Path::new(default)).unwrap());
    }
    // It fits the debug model's vocabulary, and a built-in copy equals the file.
    assert!(Tokenizer::shipped().unwrap().num_tokens() <= 2048);
    check("shipped", &Tokenizer::open(&folders().join("../../../assets/tokenizer")).unwrap());
}
