//! The format of a kernel binary for the host.
//!
//! `TITANHK1`, then a text with the device's name, a text of JSON, and a shared object; a text is its length as a little-endian
//! `u32` and its bytes. The JSON is `{symbol, args: [{size_bytes, access}], num_blocks}`.

use super::{Parameter, Signature};
use serde_json::Value;
use std::str;

const MAGIC: &[u8] = b"TITANHK1";
/// Parameters a kernel may have.
const MAX_PARAMETERS: usize = 128;

/// A binary's parts.
#[derive(Debug)]
pub(super) struct Container<'a> {
    pub(super) target: &'a str,
    pub(super) signature: Signature,
    pub(super) elf: &'a [u8],
}

impl<'a> Container<'a> {
    /// Reads the parts.
    ///
    /// # Errors
    /// What is wrong with `data`.
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, String> {
        let rest = data.strip_prefix(MAGIC).ok_or("it is no kernel binary for the host")?;
        let (target, rest) = text(rest)?;
        let (json, elf) = text(rest)?;
        let json: Value = serde_json::from_str(json).map_err(|error| format!("its description: {error}"))?;
        Ok(Self { target, signature: signature(&json).ok_or("its description lacks something")?, elf })
    }
}

fn text(data: &[u8]) -> Result<(&str, &[u8]), String> {
    let short = "the kernel binary is cut off";
    let (len, rest) = data.split_first_chunk::<4>().ok_or(short)?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or(short)?;
    Ok((str::from_utf8(text).map_err(|_| "a text of the kernel binary is not UTF-8")?, rest))
}

fn signature(json: &Value) -> Option<Signature> {
    let parameter = |arg: &Value| {
        let (reads, writes) = match arg["access"].as_str()? {
            "read" => (true, false),
            "write" => (false, true),
            "update" => (true, true),
            _ => return None,
        };
        Some(Parameter { size_bytes: arg["size_bytes"].as_u64()?.try_into().ok()?, reads, writes })
    };
    let parameters: Vec<Parameter> = json["args"].as_array()?.iter().map(parameter).collect::<Option<_>>()?;
    let num_blocks = json["num_blocks"].as_u64()?.try_into().ok().filter(|blocks| *blocks > 0)?;
    let symbol = json["symbol"].as_str()?.to_owned();
    (parameters.len() <= MAX_PARAMETERS).then_some(Signature { symbol, parameters, num_blocks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(target: &str, json: &str, elf: &[u8]) -> Vec<u8> {
        let mut data = MAGIC.to_vec();
        for text in [target, json] {
            data.extend((text.len() as u32).to_le_bytes());
            data.extend(text.as_bytes());
        }
        data.extend(elf);
        data
    }

    #[test]
    fn parts_are_found_and_damage_is_refused() {
        let json = r#"{"symbol":"k","args":[{"size_bytes":8,"access":"read"},{"size_bytes":4,"access":"update"}],"num_blocks":40}"#;
        let data = container("Ascend910B3", json, b"ELF");
        let parsed = Container::parse(&data).unwrap();
        assert_eq!((parsed.target, parsed.elf), ("Ascend910B3", &b"ELF"[..]));
        let read = Parameter { size_bytes: 8, reads: true, writes: false };
        let update = Parameter { size_bytes: 4, reads: true, writes: true };
        let signature = Signature { symbol: "k".into(), parameters: vec![read, update], num_blocks: 40 };
        assert_eq!(parsed.signature, signature);
        for len in 0..data.len() - 3 {
            assert!(Container::parse(&data[..len]).is_err(), "{len} bytes");
        }
        for json in ["{}", "[", &json.replace("read", "see"), &json.replace("40", "0")] {
            assert!(Container::parse(&container("x", json, b"")).is_err(), "{json}");
        }
    }
}
