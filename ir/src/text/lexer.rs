//! Tokens of the text form.

use crate::{Diag, DiagResult, Span};

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token<'a> {
    /// A word.
    Word(&'a str),
    /// `%name`, without the sign.
    Value(&'a str),
    /// Digits, perhaps with a sign, a point or an exponent; `0x` and hexadecimal digits.
    Number(&'a str),
    /// A string without its quotes and escapes.
    Str(String),
    /// `->`.
    Arrow,
    /// Any other sign.
    Sign(char),
    /// The end of the file.
    End,
}

/// A token and its bytes in the source.
#[derive(Debug, Clone)]
pub(crate) struct Located<'a> {
    pub(crate) token: Token<'a>,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// All tokens, the last one being [`Token::End`].
///
/// # Errors
/// T0001 for characters and strings that are no tokens.
pub(crate) fn lex<'a>(file: &str, source: &'a str) -> DiagResult<Vec<Located<'a>>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = source[at..].chars().next() {
        let rest = &source[at..];
        let run = |more: fn(char) -> bool, from: usize| {
            rest[from..].find(|c: char| !more(c)).map_or(rest.len(), |n| n + from)
        };
        let (token, len) = match c {
            c if c.is_ascii_whitespace() => (None, 1),
            '/' if rest.starts_with("//") => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' => match string(rest) {
                Some((text, len)) => (Some(Token::Str(text)), len),
                None => {
                    let diag = Diag::new("T0001", "string without end or with an unknown escape");
                    return Err(diag.span(Span::of_range(file, source, at, at + 1)));
                }
            },
            '-' if rest.starts_with("->") => (Some(Token::Arrow), 2),
            '-' if rest.starts_with("-inf") => (Some(Token::Number(&rest[..4])), 4),
            '0'..='9' | '-' => {
                let len = number(rest);
                (Some(Token::Number(&rest[..len])), len)
            }
            '%' => {
                let len = run(is_word, 1);
                (Some(Token::Value(&rest[1..len])), len)
            }
            c if is_word(c) => {
                let len = run(is_word, 0);
                (Some(Token::Word(&rest[..len])), len)
            }
            c if "(){}[],:=@<>".contains(c) => (Some(Token::Sign(c)), 1),
            c => {
                let diag = Diag::new("T0001", format!("unexpected character {c:?}"));
                return Err(diag.span(Span::of_range(file, source, at, at + c.len_utf8())));
            }
        };
        tokens.extend(token.map(|token| Located { token, start: at, end: at + len }));
        at += len;
    }
    tokens.push(Located { token: Token::End, start: source.len(), end: source.len() });
    Ok(tokens)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The length of the number `text` starts with. A sign belongs to it at its start and after `e`.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let hex = text.starts_with("0x");
    let mut len = 1;
    while let Some(&c) = bytes.get(len) {
        let exponent_sign = !hex && matches!(c, b'+' | b'-') && bytes[len - 1].eq_ignore_ascii_case(&b'e');
        if !(c.is_ascii_alphanumeric() || c == b'.' || c == b'_' || exponent_sign) {
            break;
        }
        len += 1;
    }
    len
}

/// The string `text` starts with and its length, quotes included.
fn string(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, at + 1)),
            '\n' => return None,
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                '0' => value.push('\0'),
                c @ ('"' | '\\' | '\'') => value.push(c),
                'u' => {
                    let hex: String = chars
                        .by_ref()
                        .map(|(_, c)| c)
                        .skip_while(|&c| c == '{')
                        .take_while(|&c| c != '}')
                        .collect();
                    value.push(u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32)?);
                }
                _ => return None,
            },
            c => value.push(c),
        }
    }
    None
}
