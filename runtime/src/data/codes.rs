//! The codes of this module's findings; `titan_ir::codes` explains them.

/// Dataset name unknown.
pub(super) const UNKNOWN_DATASET: &str = "T0800";
/// Dataset would need the network.
pub(super) const NO_NETWORK: &str = "T0801";
/// No training text at the path.
pub(super) const NO_FILES: &str = "T0802";
/// File unreadable.
pub(super) const READ: &str = "T0803";
/// Compressed file damaged.
pub(super) const CORRUPT: &str = "T0804";
/// Record is not an object with a text.
pub(super) const BAD_RECORD: &str = "T0805";
/// Text is not UTF-8.
pub(super) const NOT_UTF8: &str = "T0806";
/// Record too large.
pub(super) const TOO_LARGE: &str = "T0807";
/// No record, or no token.
pub(super) const EMPTY: &str = "T0808";
/// Data starts again.
pub(super) const RELOOPED: &str = "T0809";
/// Saved position does not fit.
pub(super) const STATE: &str = "T0810";
/// Tokenizer missing.
pub(super) const NO_TOKENIZER: &str = "T0820";
/// Tokenizer damaged.
pub(super) const TOKENIZER: &str = "T0821";
/// Token outside the model's vocabulary.
pub(super) const VOCABULARY: &str = "T0822";
/// Token file of another shape.
pub(super) const TOKEN_SHAPE: &str = "T0830";
/// Token file used up.
pub(super) const TOKENS_END: &str = "T0831";
