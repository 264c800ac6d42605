//! `--section.key value` arguments.

use super::fit::fit;
use super::model_args::{self, ModelArg};
use super::schema::Key;
use super::source::{Raw, Shape, Source};
use super::suggest::{REDIRECTS, key_hint};
use super::table::KEYS;
use super::value::Kind;
use super::values::{Values, key_index};
use std::ops::Range;
use titan_ir::{Diag, Diags};

/// The file name in the spans of overrides.
const COMMAND_LINE: &str = "command line";

/// The name of the override that names the TOML file.
const CONFIG_FILE: &str = "job.config_file";

/// Splits arguments into others and overrides, each in their order. An override starts with `--` and has a dot in its name.
pub fn split_overrides(args: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut others, mut overrides) = (Vec::new(), Vec::new());
    let mut args = args.iter().peekable();
    while let Some(arg) = args.next() {
        let Some(option) = Override::of(arg).filter(|o| o.name.contains('.')) else {
            others.push(arg.clone());
            continue;
        };
        overrides.push(arg.clone());
        let flag = matches!(option.target(), Target::Flag(..));
        if option.value.is_none()
            && !flag
            && let Some(value) = args.next_if(|next| !next.starts_with("--"))
        {
            overrides.push(value.clone());
        }
    }
    (others, overrides)
}

/// The file `--job.config_file` names, the last one when given twice.
pub fn config_file(overrides: &[String]) -> Option<&str> {
    overrides.iter().enumerate().rev().find_map(|(i, arg)| {
        let option = Override::of(arg).filter(|o| o.name == CONFIG_FILE)?;
        option.value.or_else(|| overrides.get(i + 1).map(String::as_str))
    })
}

/// Reads overrides into `values`, later ones over earlier ones.
pub(super) fn read_overrides(args: &[String], values: &mut Values, diags: &mut Diags) {
    let mut args = args.iter().peekable();
    while let Some(arg) = args.next() {
        let Some(option) = Override::of(arg) else {
            let span = Source { name: COMMAND_LINE, text: arg }.span(&(0..arg.len()));
            diags.push(Diag::new("T0913", format!("unexpected argument `{arg}`")).span(span));
            continue;
        };
        let mut written = Written { flag: arg, text: arg.clone(), value: 0..0 };
        let target = option.target();
        let takes_value = !matches!(target, Target::Flag(..));
        if let Some(value) = option.value {
            written.value = arg.len() - value.len()..arg.len();
        } else if let Some(value) = args.next_if(|next| takes_value && !next.starts_with("--")) {
            written.text = format!("{arg} {value}");
            written.value = arg.len() + 1..written.text.len();
        } else if takes_value && !matches!(target, Target::Unknown) {
            let message = format!("option `{arg}` needs a value");
            diags.push(Diag::new("T0911", message).span(written.source().span(&(0..arg.len()))));
            continue;
        }
        apply(&option, target, &written, values, diags);
    }
}

/// An argument taken apart.
struct Override<'a> {
    /// Without dashes in front, `-` replaced by `_`.
    name: String,
    /// What follows `=`.
    value: Option<&'a str>,
}

/// What an option sets.
enum Target {
    /// The path of the TOML file.
    ConfigFile,
    /// A model argument.
    ModelArg(String),
    /// A boolean key, and the value it gets.
    Flag(usize, bool),
    /// Any other key.
    Key(usize),
    Unknown,
}

/// An override as the user wrote it.
struct Written<'a> {
    /// The argument that names the key.
    flag: &'a str,
    /// Name and value.
    text: String,
    /// The bytes of the value in `text`.
    value: Range<usize>,
}

impl Written<'_> {
    fn source(&self) -> Source<'_> {
        Source { name: COMMAND_LINE, text: &self.text }
    }

    fn value(&self) -> &str {
        &self.text[self.value.clone()]
    }

    /// The value, or the flag when it has none.
    fn place(&self) -> Range<usize> {
        if self.value.is_empty() { 0..self.flag.len() } else { self.value.clone() }
    }
}

impl<'a> Override<'a> {
    fn of(arg: &'a str) -> Option<Self> {
        let rest = arg.strip_prefix("--").filter(|rest| !rest.is_empty())?;
        let (name, value) = match rest.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (rest, None),
        };
        Some(Self { name: name.replace('-', "_"), value })
    }

    /// The present name of the key: deprecated names are replaced.
    fn path(&self) -> &str {
        let redirect = REDIRECTS.iter().find(|(old, _)| *old == self.name);
        redirect.map_or(self.name.as_str(), |(_, new)| *new)
    }

    fn target(&self) -> Target {
        let path = self.path();
        if path == CONFIG_FILE {
            return Target::ConfigFile;
        }
        if let Some(name) = path.strip_prefix(model_args::SECTION).and_then(|rest| rest.strip_prefix('.')) {
            return Target::ModelArg(name.to_string());
        }
        if let Some(index) = key_index(path) {
            return if KEYS[index].kind == Kind::Bool {
                Target::Flag(index, true)
            } else {
                Target::Key(index)
            };
        }
        let negated = path
            .rsplit_once('.')
            .and_then(|(section, name)| key_index(&format!("{section}.{}", name.strip_prefix("no_")?)));
        match negated {
            Some(index) if KEYS[index].kind == Kind::Bool => Target::Flag(index, false),
            _ => Target::Unknown,
        }
    }
}

fn apply(
    option: &Override<'_>,
    target: Target,
    written: &Written<'_>,
    values: &mut Values,
    diags: &mut Diags,
) {
    let source = written.source();
    if option.path() != option.name {
        let message = format!("`{}` is deprecated and read as `{}`", option.name, option.path());
        let span = source.span(&(0..written.flag.len()));
        diags.push(Diag::warning("T0408", message).span(span));
    }
    match target {
        Target::ConfigFile => {}
        Target::Unknown => diags.push(unknown(&option.name).span(source.span(&(0..written.flag.len())))),
        Target::Flag(index, value) if option.value.is_none() => {
            values.set(index, value.into(), source.span(&written.place()));
        }
        Target::Flag(index, _) => {
            let (section, name) = (KEYS[index].section, KEYS[index].name);
            let message = format!("boolean option `--{}` takes no value", option.name);
            let help = format!("write --{section}.{name} or --{section}.no_{name}");
            diags.push(Diag::new("T0912", message).span(source.span(&written.place())).help(help));
        }
        Target::Key(index) => {
            let raw = raw_of_kind(&KEYS[index], written.value(), &written.value);
            if let Some(value) = fit(&KEYS[index], &raw, source, diags) {
                values.set(index, value, source.span(&written.place()));
            }
        }
        Target::ModelArg(name) => {
            let span = source.span(&written.place());
            let raw = guess(written.value(), written.value.clone());
            match raw.scalar() {
                Some(value) => values.model_args.set(&name, ModelArg { value, span }),
                None => {
                    let message = format!("`{}` must be an integer of 64 bits, found {raw}", option.name);
                    diags.push(Diag::new("T0406", message).span(span));
                }
            }
        }
    }
}

fn unknown(name: &str) -> Diag {
    let diag = Diag::new("T0910", format!("unknown option `--{name}`"));
    let Some((section, key)) = name.rsplit_once('.') else {
        return diag.help("overrides are written --section.key value");
    };
    let hint = key_hint(section, key).or_else(|| key_hint(section, key.strip_prefix("no_")?));
    match hint {
        Some(hint) if hint.moved => diag.help(format!("it is now --{}", hint.path)),
        Some(hint) => diag.help(format!("did you mean --{}?", hint.path)),
        None => diag,
    }
}

/// The text of an override as a value for `key`: what does not read as its type stays a string, which then does not fit.
fn raw_of_kind(key: &Key, text: &str, range: &Range<usize>) -> Raw {
    if key.optional && text == "None" {
        return Raw { shape: Shape::None, range: range.clone() };
    }
    match key.kind {
        Kind::List(item) => {
            let mut start = range.start;
            let mut items = Vec::new();
            for part in text.split(',').filter(|_| !text.is_empty()) {
                items.push(scalar_of_kind(*item, part, start..start + part.len()));
                start += part.len() + 1;
            }
            Raw { shape: Shape::List(items), range: range.clone() }
        }
        kind => scalar_of_kind(kind, text, range.clone()),
    }
}

fn scalar_of_kind(kind: Kind, text: &str, range: Range<usize>) -> Raw {
    match kind {
        Kind::Int | Kind::Count | Kind::Float => guess(text, range),
        _ => Raw { shape: Shape::Str(text.to_string()), range },
    }
}

/// The text as an integer, a float, a boolean, or else a string.
fn guess(text: &str, range: Range<usize>) -> Raw {
    let digits = text.replace('_', "");
    let huge = digits.strip_prefix('-').unwrap_or(&digits).bytes().all(|b| b.is_ascii_digit());
    let shape = match text {
        "true" | "True" => Shape::Bool(true),
        "false" | "False" => Shape::Bool(false),
        _ => match (digits.parse::<i64>(), digits.parse::<f64>()) {
            (Ok(value), _) => Shape::Int(value),
            (_, Ok(_)) if huge => Shape::HugeInt(text.to_string()),
            (_, Ok(value)) => Shape::Float(value),
            _ => Shape::Str(text.to_string()),
        },
    };
    Raw { shape, range }
}
