//! Holds a value against the type and range of its key.

use super::schema::{Check, Key};
use super::source::{Raw, Shape, Source};
use super::suggest::nearest;
use super::value::{Kind, Value};
use titan_ir::{Diag, Diags};

/// The value as the key's type, or nothing with what is wrong added to `diags`.
pub(super) fn fit(key: &Key, raw: &Raw, source: Source<'_>, diags: &mut Diags) -> Option<Value> {
    if matches!(raw.shape, Shape::None) && key.optional {
        return Some(Value::None);
    }
    Fitting { key, source, diags }.typed(key.kind, raw)
}

struct Fitting<'a> {
    key: &'a Key,
    source: Source<'a>,
    diags: &'a mut Diags,
}

impl Fitting<'_> {
    fn typed(&mut self, kind: Kind, raw: &Raw) -> Option<Value> {
        match (kind, &raw.shape) {
            (Kind::Bool, Shape::Bool(value)) => Some(Value::Bool(*value)),
            (Kind::Int, Shape::Int(value)) => self.integer(*value, raw),
            (Kind::Count, Shape::Int(value)) => self.count(*value, raw),
            (Kind::Int | Kind::Count, Shape::HugeInt(_)) => self.out_of_range("an integer of 64 bits", raw),
            (Kind::Float, Shape::Float(value)) => self.float(*value, raw),
            #[expect(
                clippy::cast_precision_loss,
                reason = "an integer written for a float means the nearest one"
            )]
            (Kind::Float, Shape::Int(value)) => self.float(*value as f64, raw),
            (Kind::Str, Shape::Str(text)) => self.string(text, raw),
            (Kind::Choice(words), Shape::Str(text)) => self.word(words, text, raw),
            (Kind::List(item), Shape::List(items)) => {
                let values: Vec<_> = items.iter().map(|raw| self.typed(*item, raw)).collect();
                values.into_iter().collect::<Option<_>>().map(Value::List)
            }
            _ => self.wrong_type(kind, raw),
        }
    }

    fn integer(&mut self, value: i64, raw: &Raw) -> Option<Value> {
        let expected = match self.key.check {
            Check::Min(min) if value < min => format!("at least {min}"),
            Check::Within(min, max) if !(min..=max).contains(&value) => format!("from {min} to {max}"),
            Check::MinusOneOr(min) if value != -1 && value < min => format!("-1 or at least {min}"),
            _ => return Some(Value::Int(value)),
        };
        self.out_of_range(&expected, raw)
    }

    fn count(&mut self, value: i64, raw: &Raw) -> Option<Value> {
        if value < 0 && !matches!(self.key.check, Check::Min(_) | Check::Within(..)) {
            return self.out_of_range("at least 0", raw);
        }
        self.integer(value, raw)
    }

    fn float(&mut self, value: f64, raw: &Raw) -> Option<Value> {
        let (accepted, expected) = match self.key.check {
            Check::Positive => (value > 0.0, "above 0"),
            Check::Fraction => ((0.0..=1.0).contains(&value), "from 0 to 1"),
            Check::BelowOne => ((0.0..1.0).contains(&value), "from 0 to 1, without 1"),
            _ => (value >= 0.0 && value.is_finite(), "finite and at least 0"),
        };
        if accepted { Some(Value::Float(value)) } else { self.out_of_range(expected, raw) }
    }

    fn string(&mut self, text: &str, raw: &Raw) -> Option<Value> {
        match self.key.check {
            Check::OneOf(words) => self.word(words, text, raw),
            Check::NameOf(names) => {
                let name = names.iter().find(|name| name.eq_ignore_ascii_case(text));
                self.word(names, name.copied().unwrap_or(text), raw)
            }
            Check::Text(accepts, expected) if !accepts(text) => {
                let message = format!("{} must be {expected}, found {raw}", self.name(self.item_kind()));
                self.report(Diag::new("T0405", message), raw)
            }
            _ => Some(Value::from(text)),
        }
    }

    fn word(&mut self, words: &'static [&'static str], text: &str, raw: &Raw) -> Option<Value> {
        if words.contains(&text) {
            return Some(Value::from(text));
        }
        let list = words.iter().map(|w| format!("{w:?}")).collect::<Vec<_>>().join(", ");
        let mut diag =
            Diag::new("T0405", format!("{} must be one of {list}, found {raw}", self.name(self.item_kind())));
        if let Some(word) = nearest(text, words.iter().copied()) {
            diag = diag.help(format!("did you mean {word:?}?"));
        }
        self.report(diag, raw)
    }

    fn out_of_range(&mut self, expected: &str, raw: &Raw) -> Option<Value> {
        let message = format!("{} must be {expected}, found {raw}", self.name(self.item_kind()));
        self.report(Diag::new("T0406", message).note(self.key.doc), raw)
    }

    fn wrong_type(&mut self, kind: Kind, raw: &Raw) -> Option<Value> {
        let message = format!("{} must be {kind}, found {raw}", self.name(kind));
        let mut diag = Diag::new("T0404", message);
        if let Some(fix) = fix(kind, raw) {
            diag = diag.help(format!("write {} = {fix}", self.key.name));
        } else if self.key.optional
            && matches!(&raw.shape, Shape::Str(text) if text.is_empty() || text == "None")
        {
            diag = diag.help(format!("leave {} out", self.key.name));
        } else if (self.key.default)() != Value::None {
            diag = diag.help(format!("the default is {} = {}", self.key.name, (self.key.default)()));
        }
        self.report(diag, raw)
    }

    /// The key, and that an item of it is meant when `kind` is not the whole of it.
    fn name(&self, kind: Kind) -> String {
        let item = if kind == self.key.kind { "" } else { "an item of " };
        format!("{item}`{}`", self.key.path)
    }

    /// The type values are checked at: that of the items of a list.
    fn item_kind(&self) -> Kind {
        if let Kind::List(item) = self.key.kind { *item } else { self.key.kind }
    }

    fn report(&mut self, diag: Diag, raw: &Raw) -> Option<Value> {
        self.diags.push(diag.span(self.source.span(&raw.range)));
        None
    }
}

/// The value the user most likely meant.
fn fix(kind: Kind, raw: &Raw) -> Option<String> {
    match (kind, &raw.shape) {
        (Kind::Bool, Shape::Str(text)) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some("true".into()),
            "false" | "0" | "no" | "off" => Some("false".into()),
            _ => None,
        },
        (Kind::Bool, Shape::Int(value @ (0 | 1))) => Some((*value == 1).to_string()),
        (Kind::Int | Kind::Count, Shape::Str(text)) => text.parse::<i64>().ok().map(|v| v.to_string()),
        (Kind::Int | Kind::Count, Shape::Float(value)) if value.fract() == 0.0 && value.abs() < 1e15 => {
            Some(format!("{value:.0}"))
        }
        (Kind::Float, Shape::Str(text)) => {
            text.parse::<f64>().ok().filter(|v| v.is_finite()).map(|v| Value::Float(v).to_string())
        }
        (Kind::Str | Kind::Choice(_), Shape::Int(_) | Shape::Float(_) | Shape::Bool(_)) => {
            raw.scalar().map(|value| format!("\"{value}\""))
        }
        (Kind::List(Kind::Str), Shape::Str(text)) => {
            let items: Vec<_> = text.split(',').map(|item| format!("{:?}", item.trim())).collect();
            Some(format!("[{}]", items.join(", ")))
        }
        (Kind::List(Kind::Count), Shape::Int(value)) => Some(format!("[{value}]")),
        _ => None,
    }
}
