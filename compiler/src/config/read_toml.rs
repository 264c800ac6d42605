//! Reads a TOML file into values.

use super::fit::fit;
use super::model_args::{self, ModelArg};
use super::source::{Raw, Source};
use super::suggest::{REDIRECTS, key_hint, section_hint};
use super::table::KEYS;
use super::value::Value;
use super::values::{Values, key_index};
use std::ops::Range;
use titan_ir::{Diag, Diags};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads all keys of `source` into `values`. Keys are judged only if the whole text is TOML.
pub(super) fn read_toml(source: Source<'_>, values: &mut Values, diags: &mut Diags) {
    let (document, errors) = DeTable::parse_recoverable(source.text);
    if errors.is_empty() {
        let mut reader = Reader { source, values, diags, redirected: Vec::new() };
        reader.table("", document.get_ref());
        reader.apply_redirected();
    }
    for error in errors {
        let range = error.span().unwrap_or(0..0);
        diags.push(Diag::new("T0401", error.message()).span(source.span(&range)));
    }
}

struct Reader<'a> {
    source: Source<'a>,
    values: &'a mut Values,
    diags: &'a mut Diags,
    /// Values of deprecated keys, which win over the present ones.
    redirected: Vec<(usize, Value, Range<usize>)>,
}

impl Reader<'_> {
    /// Reads the keys of the section `section`, which is empty for the file itself.
    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let path = join(section, name.get_ref());
            let quoted_dot = name.get_ref().contains('.');
            if quoted_dot {
                self.unknown(section, name, value);
            } else if path == model_args::SECTION || is_section(&path) {
                self.section(&path, name, value);
            } else if let Some(index) = key_index(&path) {
                let raw = Raw::of_toml(value.get_ref(), value.span());
                if let Some(fitted) = fit(&KEYS[index], &raw, self.source, self.diags) {
                    self.values.set(index, fitted, self.source.span(&value.span()));
                }
            } else if let Some((_, new)) = REDIRECTS.iter().find(|(old, _)| *old == path) {
                self.redirect(&path, new, name, value);
            } else {
                self.unknown(section, name, value);
            }
        }
    }

    fn section(&mut self, path: &str, name: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) if path == model_args::SECTION => self.model_args(table),
            DeValue::Table(table) => self.table(path, table),
            _ => {
                let raw = Raw::of_toml(value.get_ref(), value.span());
                self.report(
                    Diag::new("T0404", format!("`{path}` is a section, found {raw}"))
                        .help(format!("write its keys below the line [{path}]")),
                    name.span(),
                );
            }
        }
    }

    fn model_args(&mut self, table: &DeTable<'_>) {
        for (name, value) in table {
            let raw = Raw::of_toml(value.get_ref(), value.span());
            match raw.scalar() {
                Some(scalar) => {
                    let span = self.source.span(&value.span());
                    self.values.model_args.set(name.get_ref(), ModelArg { value: scalar, span });
                }
                None => {
                    let message = format!(
                        "`titan.model_args.{}` must be a number, a boolean or a string, found {raw}",
                        name.get_ref()
                    );
                    self.report(Diag::new("T0404", message), value.span());
                }
            }
        }
    }

    fn redirect(
        &mut self,
        old: &str,
        new: &str,
        name: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        self.report(
            Diag::warning("T0408", format!("`{old}` is deprecated and read as `{new}`"))
                .help(format!("rename it to {new}")),
            name.span(),
        );
        let Some(index) = key_index(new) else {
            titan_ir::ice!("{old} is redirected to the unknown key {new}")
        };
        let raw = Raw::of_toml(value.get_ref(), value.span());
        if let Some(fitted) = fit(&KEYS[index], &raw, self.source, self.diags) {
            self.redirected.push((index, fitted, value.span()));
        }
    }

    fn apply_redirected(self) {
        for (index, value, range) in self.redirected {
            self.values.set(index, value, self.source.span(&range));
        }
    }

    fn unknown(&mut self, section: &str, name: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue<'_>>) {
        let text = name.get_ref().as_ref();
        let diag = if matches!(value.get_ref(), DeValue::Table(_)) || section.is_empty() {
            unknown_section(&join(section, text), value)
        } else {
            unknown_key(section, text)
        };
        self.report(diag, name.span());
    }

    fn report(&mut self, diag: Diag, range: Range<usize>) {
        self.diags.push(diag.span(self.source.span(&range)));
    }
}

/// An error about a section or top-level key that does not exist.
fn unknown_section(path: &str, value: &Spanned<DeValue<'_>>) -> Diag {
    if !matches!(value.get_ref(), DeValue::Table(_)) {
        let diag = Diag::new("T0402", format!("unknown key `{path}` outside any section"));
        return match KEYS.iter().find(|key| key.name == path) {
            Some(key) => diag.help(format!("write it below the line [{}]", key.section)),
            None => diag.help("every key belongs to a section, such as [training]"),
        };
    }
    let diag = Diag::new("T0403", format!("unknown section [{path}]"));
    match section_hint(path) {
        Some(hint) if hint.moved => diag.help(format!("it is now [{}]", hint.path)),
        Some(hint) => diag.help(format!("did you mean [{}]?", hint.path)),
        None => diag,
    }
}

/// An error about a key that its section does not have.
fn unknown_key(section: &str, name: &str) -> Diag {
    let message = format!("unknown key `{name}` in [{section}]");
    match key_hint(section, name) {
        Some(hint) if hint.moved => Diag::new("T0407", format!("`{section}.{name}` is now `{}`", hint.path))
            .help(format!("rename it to {}", hint.path)),
        Some(hint) => {
            let (other, near) = hint.path.rsplit_once('.').unwrap_or(("", &hint.path));
            Diag::new("T0402", message).help(match other == section {
                true => format!("did you mean `{near}`?"),
                false => format!("did you mean `{near}` of [{other}]?"),
            })
        }
        None => Diag::new("T0402", message),
    }
}

/// Whether keys or sections stand below `path`.
fn is_section(path: &str) -> bool {
    KEYS.iter().any(|key| {
        key.section.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_string() } else { format!("{section}.{name}") }
}
