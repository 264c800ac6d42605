//! Hugging Face tokenizers with torchtitan's rules for special tokens.
//!
//! Source: torchtitan v0.2.1, `components/tokenizer.py`; the encoding itself is the `tokenizers` crate's.

use super::{codes, shipped};
use serde_json::{Map, Value, json};
use std::path::Path;
use titan_ir::{Diag, DiagResult};
use tokenizers::AddedToken;

/// Turns text into token ids, with the ids that begin and end a text.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Put before every text unless the tokenizer does so itself.
    bos: Option<i32>,
    /// Put after every text unless the tokenizer does so itself.
    eos: Option<i32>,
    origin: String,
}

impl Tokenizer {
    /// Reads the tokenizer of folder `folder`: `tokenizer.json`, else `vocab.json` or `vocab.txt` with `merges.txt` (byte-level
    /// BPE), else the vocabulary alone (one id a word, `[UNK]` for the rest); special tokens from `tokenizer_config.json`.
    /// For torchtitan's default folder the tokenizer shipped with the project is taken where that folder does not exist.
    ///
    /// # Errors
    /// The folder or the files in it are missing or damaged, or a `tokenizer.model` is named.
    pub fn open(folder: &Path) -> DiagResult<Self> {
        let shown = folder.display().to_string();
        if shown.ends_with("tokenizer.model") {
            let message = format!("`{shown}` is a tiktoken file, which torchtitan no longer reads either");
            return Err(Diag::new("T0412", message)
                .help("set model.hf_assets_path to the folder that holds the model's tokenizer.json"));
        }
        if !folder.exists() && is_default(folder) {
            return Self::shipped();
        }
        let mut files = Files { folder, shown };
        let (name, definition) = files.definition()?;
        let config = files.json("tokenizer_config.json")?;
        Self::build(&definition, config.as_ref(), &name, files.shown)
    }

    /// The small tokenizer shipped with the project: a byte-level BPE.
    ///
    /// # Errors
    /// None for an intact program.
    pub fn shipped() -> DiagResult<Self> {
        let config = serde_json::from_slice(shipped::TOKENIZER_CONFIG).ok();
        Self::build(shipped::TOKENIZER, config.as_ref(), "tokenizer.json", "shipped with Titan".to_string())
    }

    /// Appends the ids of `text` to `ids`, between those that begin and end a text.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text, as for an unknown word in a vocabulary without `[UNK]`.
    pub fn encode(&self, text: &str, ids: &mut Vec<i32>) -> DiagResult<()> {
        let encoding = self.inner.encode_fast(text, true).map_err(|e| {
            Diag::new(
                codes::TOKENIZER,
                format!("the tokenizer of `{}` cannot encode a text: {e}", self.origin),
            )
        })?;
        ids.extend(self.bos);
        ids.extend(encoding.get_ids().iter().map(|&id| id_of(id)));
        ids.extend(self.eos);
        Ok(())
    }

    /// The text of token `id`, if the tokenizer has it.
    pub fn token(&self, id: i32) -> Option<String> {
        self.inner.id_to_token(u32::try_from(id).ok()?)
    }

    /// Number of tokens, special ones included.
    pub fn num_tokens(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// Where the tokenizer comes from, for messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    fn build(definition: &[u8], config: Option<&Value>, name: &str, origin: String) -> DiagResult<Self> {
        let parse = || tokenizers::Tokenizer::from_bytes(definition);
        // The library indexes unchecked into the merges of some damaged files.
        let parsed = std::panic::catch_unwind(parse)
            .unwrap_or_else(|_| Err("its merges do not fit its vocabulary".into()));
        let mut inner = parsed.map_err(|e| damaged(name, &origin, &e.to_string()))?;
        let specials = config.map(special_tokens).unwrap_or_default();
        inner
            .add_special_tokens(specials)
            .map_err(|e| damaged("tokenizer_config.json", &origin, &e.to_string()))?;

        let named = |key: &str| config.and_then(|c| content_of(c.get(key)?));
        let bos_token = named("bos_token");
        // A token that plays both roles begins texts only.
        let eos_token = named("eos_token").filter(|eos| bos_token != Some(eos));
        let id = |token: Option<&str>| token.and_then(|t| inner.token_to_id(t));
        let (bos, eos) = (id(bos_token), id(eos_token));
        let of_nothing = inner.encode_fast("", true).map_err(|e| damaged(name, &origin, &e.to_string()))?;
        let missing = |id: &u32| !of_nothing.get_ids().contains(id);
        let (bos, eos) = (bos.filter(missing).map(id_of), eos.filter(missing).map(id_of));
        Ok(Self { inner, bos, eos, origin })
    }
}

/// The files of a tokenizer folder.
struct Files<'a> {
    folder: &'a Path,
    shown: String,
}

impl Files<'_> {
    /// The content of `tokenizer.json`, or the same made from the older files, with the name of the file it comes from.
    fn definition(&mut self) -> DiagResult<(String, Vec<u8>)> {
        if let Some(bytes) = self.read("tokenizer.json")? {
            return Ok(("tokenizer.json".to_string(), bytes));
        }
        let (name, vocab) = if let Some(vocab) = self.json("vocab.json")? {
            ("vocab.json", vocab)
        } else if let Some(bytes) = self.read("vocab.txt")? {
            ("vocab.txt", vocab_of_lines(&String::from_utf8_lossy(&bytes)))
        } else {
            return Err(self.missing());
        };
        let definition = match self.read("merges.txt")? {
            Some(merges) => byte_level_bpe(&vocab, &String::from_utf8_lossy(&merges)),
            None => json!({"version": "1.0", "added_tokens": [],
                "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}}),
        };
        Ok((name.to_string(), definition.to_string().into_bytes()))
    }

    fn json(&self, name: &str) -> DiagResult<Option<Value>> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|e| damaged(name, &self.shown, &e.to_string()))?;
        if value.is_object() {
            Ok(Some(value))
        } else {
            Err(damaged(name, &self.shown, "it is not a JSON object"))
        }
    }

    fn read(&self, name: &str) -> DiagResult<Option<Vec<u8>>> {
        match std::fs::read(self.folder.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e)
                if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(e) => Err(damaged(name, &self.shown, &e.to_string())),
        }
    }

    fn missing(&self) -> Diag {
        let reason = if self.folder.is_dir() { "holds no tokenizer" } else { "is not a folder" };
        Diag::new(codes::NO_TOKENIZER, format!("the tokenizer folder `{}` {reason}", self.shown)).help(
            "put the model's tokenizer.json and tokenizer_config.json there, or set model.hf_assets_path to the folder that \
             has them; the default ./tests/assets/tokenizer stands for the tokenizer shipped with Titan",
        )
    }
}

fn damaged(name: &str, origin: &str, reason: &str) -> Diag {
    Diag::new(
        codes::TOKENIZER,
        format!("`{name}` of the tokenizer folder `{origin}` cannot be used: {reason}"),
    )
    .help("copy the tokenizer's files there again")
}

fn is_default(folder: &Path) -> bool {
    folder.strip_prefix(".").unwrap_or(folder) == Path::new("tests/assets/tokenizer")
}

fn id_of(id: u32) -> i32 {
    i32::try_from(id).unwrap_or(i32::MAX)
}

fn vocab_of_lines(text: &str) -> Value {
    let entries = text.lines().map(str::trim).enumerate().filter(|(_, token)| !token.is_empty());
    Value::Object(entries.map(|(id, token)| (token.to_string(), Value::from(id))).collect::<Map<_, _>>())
}

fn byte_level_bpe(vocab: &Value, merges: &str) -> Value {
    let pair = |line: &str| {
        let mut parts = line.split_whitespace();
        Some(json!([parts.next()?, parts.next()?]))
    };
    let merges: Vec<Value> =
        merges.lines().filter(|line| !line.trim().starts_with('#')).filter_map(pair).collect();
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": byte_level,
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocab, "merges": merges},
    })
}

/// The special tokens a `tokenizer_config.json` names, in the order in which they are added.
fn special_tokens(config: &Value) -> Vec<AddedToken> {
    const ROLES: [&str; 7] =
        ["bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token"];
    let of_roles = ROLES.iter().filter_map(|role| config.get(role));
    let decoder = config.get("added_tokens_decoder").and_then(Value::as_object);
    let listed = decoder.into_iter().flat_map(Map::values).filter(|token| token.is_object());
    of_roles.chain(listed).filter_map(added_token).collect()
}

fn added_token(token: &Value) -> Option<AddedToken> {
    let content = content_of(token)?;
    let flag = |key: &str, default: bool| token.get(key).and_then(Value::as_bool).unwrap_or(default);
    Some(
        AddedToken::from(content, true)
            .single_word(flag("single_word", false))
            .lstrip(flag("lstrip", false))
            .rstrip(flag("rstrip", false))
            .normalized(flag("normalized", token.is_object())),
    )
}

/// A token is written as its text or as an object with the text under `content`.
fn content_of(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}
