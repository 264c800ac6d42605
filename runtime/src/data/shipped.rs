//! The text and the tokenizer built into the program, so that it trains in any folder. Provenance: `assets/README.md`.

/// Training text: JSON lines, compressed.
pub(super) const TEXT: &[u8] = include_bytes!("../../../assets/c4_test/data.json.zst");
/// The name messages give to [`TEXT`]; its ending says how it is read.
pub(super) const TEXT_NAME: &str = "shipped:data.json.zst";
/// `tokenizer.json`.
pub(super) const TOKENIZER: &[u8] = include_bytes!("../../../assets/tokenizer/tokenizer.json");
/// `tokenizer_config.json`.
pub(super) const TOKENIZER_CONFIG: &[u8] = include_bytes!("../../../assets/tokenizer/tokenizer_config.json");
