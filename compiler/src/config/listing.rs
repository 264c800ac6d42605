//! The list of all keys, for people.

use super::schema::{Check, Key, Support};
use super::table::KEYS;
use std::fmt::Write;

/// Every key with default, type, meaning and support, section after section; only those whose path contains `filter`.
pub fn list_keys(filter: &str) -> String {
    let mut text = String::new();
    let mut section = "";
    for key in KEYS.iter().filter(|key| key.path.contains(filter)) {
        if key.section != section {
            section = key.section;
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}[{section}]\n"));
        }
        let setting = format!("{} = {}", key.name, (key.default)());
        let support = support(key);
        let _ = writeln!(text, "  {setting:<46} {}{}{support}", key.doc, accepted(key));
    }
    text
}

/// Values the key accepts, in parentheses.
fn accepted(key: &Key) -> String {
    let none = if key.optional { " or None" } else { "" };
    let words = match (key.kind, key.check) {
        (super::Kind::Choice(words), _) | (_, Check::OneOf(words) | Check::NameOf(words)) => {
            words.join(" | ")
        }
        (_, Check::Text(_, expected)) => expected.to_string(),
        (kind, _) => kind.to_string(),
    };
    format!(" ({words}{none})")
}

fn support(key: &Key) -> String {
    match key.support {
        Support::Used => String::new(),
        Support::AtRest => " [no effect here]".to_string(),
        Support::Observes(feature, _) => format!(" [{feature}: ignored with a warning]"),
        Support::Refused(feature, _) => format!(" [{feature}: refused]"),
        Support::RefusedValue(word, feature, _) => format!(" [{word:?}, {feature}: refused]"),
    }
}
