//! Refuses what would change the training and does not exist yet, and warns of what would only observe it.

use super::schema::{Key, Support};
use super::table::KEYS;
use super::value::Value;
use super::values::{Setting, Values};
use titan_ir::{Diag, Diags};

/// Adds an error or a warning for every setting that asks for a missing feature.
pub(super) fn judge(values: &Values, diags: &mut Diags) {
    for (index, key) in KEYS.iter().enumerate() {
        let setting = values.get(index);
        if let Some(diag) = verdict(key, setting) {
            diags.push(match &setting.span {
                Some(span) => diag.span(span.clone()),
                None => diag,
            });
        }
    }
}

fn verdict(key: &Key, setting: &Setting) -> Option<Diag> {
    let value = &setting.value;
    let changed = *value != (key.default)();
    let asks = |feature: &str| format!("`{} = {value}` asks for {feature}", key.path);
    match key.support {
        Support::Refused(feature, advice) if changed => Some(refusal(asks(feature), advice)),
        Support::RefusedValue(word, feature, advice) if *value == Value::from(word) => {
            Some(refusal(asks(feature), advice))
        }
        Support::Observes(feature, advice) if changed => {
            let message = format!("{}, which titanc does not have yet; it is ignored", asks(feature));
            Some(Diag::warning("T0410", message).note(advice))
        }
        _ => None,
    }
}

fn refusal(asks: String, advice: &str) -> Diag {
    Diag::new("T0409", format!("{asks}, which titanc does not support yet")).help(advice)
}
