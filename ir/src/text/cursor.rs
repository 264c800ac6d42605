//! A position in the tokens of a text, and the words and lists every part of the grammar is made of.

use super::lexer::{Located, Token, lex};
use crate::{DType, Diag, DiagResult, Dims, Span};

/// Most elements of a tensor, so that sizes in bytes and operation counts stay far from overflow.
const MAX_ELEMENTS: u64 = 1 << 48;

/// A position in a text.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    file: &'a str,
    source: &'a str,
    tokens: Vec<Located<'a>>,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of a text.
    ///
    /// # Errors
    /// T0001.
    pub(crate) fn new(file: &'a str, source: &'a str) -> DiagResult<Self> {
        Ok(Self { file, source, tokens: lex(file, source)?, at: 0 })
    }

    /// The next token.
    pub(crate) fn peek(&self) -> &Token<'a> {
        &self.tokens[self.at].token
    }

    /// The number of tokens read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Places a finding at the next token.
    pub(crate) fn place(&self, diag: Diag) -> Diag {
        self.place_from(self.at, diag)
    }

    /// Places a finding at the tokens from a position up to the last one read.
    pub(crate) fn place_from(&self, position: usize, diag: Diag) -> Diag {
        if diag.span.is_some() {
            return diag;
        }
        let (start, last) = (&self.tokens[position], &self.tokens[self.at.saturating_sub(1).max(position)]);
        diag.span(Span::of_range(self.file, self.source, start.start, last.end))
    }

    /// The finding that something else was expected.
    pub(crate) fn expected(&self, what: &str) -> Diag {
        let found = match self.peek() {
            Token::Word(word) => format!("`{word}`"),
            Token::Value(name) => format!("`%{name}`"),
            Token::Number(number) => format!("`{number}`"),
            Token::Str(text) => format!("{text:?}"),
            Token::Arrow => "`->`".to_owned(),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end of the file".to_owned(),
        };
        self.place(Diag::new("T0002", format!("expected {what}, found {found}")))
    }

    fn advance(&mut self) {
        // The last token is the end, which is never passed.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// Reads the token if it is this one.
    fn eat(&mut self, token: &Token<'_>) -> bool {
        let found = self.peek() == token;
        if found {
            self.advance();
        }
        found
    }

    /// Reads a sign if it is next.
    pub(crate) fn eat_sign(&mut self, sign: char) -> bool {
        self.eat(&Token::Sign(sign))
    }

    /// Reads a word if it is next.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        self.eat(&Token::Word(word))
    }

    /// Reads `->` if it is next.
    pub(crate) fn eat_arrow(&mut self) -> bool {
        self.eat(&Token::Arrow)
    }

    /// Reads a sign.
    pub(crate) fn sign(&mut self, sign: char) -> DiagResult<()> {
        if self.eat_sign(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    /// Reads this word.
    pub(crate) fn keyword(&mut self, word: &str) -> DiagResult<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(&format!("`{word}`"))) }
    }

    /// Reads any word.
    pub(crate) fn word(&mut self, what: &str) -> DiagResult<&'a str> {
        let Token::Word(word) = *self.peek() else { return Err(self.expected(what)) };
        self.advance();
        Ok(word)
    }

    /// Reads a word of a list.
    pub(crate) fn choice<T: Copy>(&mut self, what: &str, choices: &[(&str, T)]) -> DiagResult<T> {
        let found = choices.iter().find(|(word, _)| *self.peek() == Token::Word(word));
        let Some(&(_, value)) = found else {
            let words: Vec<&str> = choices.iter().map(|c| c.0).collect();
            return Err(self.expected(&format!("{what} ({})", words.join(", "))));
        };
        self.advance();
        Ok(value)
    }

    /// Reads `%name`.
    pub(crate) fn value(&mut self) -> DiagResult<&'a str> {
        let Token::Value(name) = *self.peek() else { return Err(self.expected("a value")) };
        self.advance();
        Ok(name)
    }

    /// Reads a string.
    pub(crate) fn string(&mut self) -> DiagResult<String> {
        let Token::Str(text) = self.peek() else { return Err(self.expected("a string")) };
        let text = text.clone();
        self.advance();
        Ok(text)
    }

    /// Reads a number of any kind, as written.
    pub(crate) fn number(&mut self, what: &str) -> DiagResult<&'a str> {
        let text = match *self.peek() {
            Token::Number(text) | Token::Word(text @ "inf") => text,
            _ => return Err(self.expected(what)),
        };
        self.advance();
        Ok(text)
    }

    /// Reads a number with `parse`.
    fn parsed<T>(&mut self, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> DiagResult<T> {
        let start = self.at;
        let text = self.number(what)?;
        let bad = || self.place_from(start, Diag::new("T0001", format!("`{text}` is not {what} in range")));
        parse(text).ok_or_else(bad)
    }

    /// Reads a whole number.
    pub(crate) fn uint(&mut self) -> DiagResult<u64> {
        self.parsed("a whole number", |text| match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        })
    }

    /// Reads a whole number of 32 bits.
    pub(crate) fn uint32(&mut self) -> DiagResult<u32> {
        let start = self.at;
        let number = self.uint()?;
        u32::try_from(number).map_err(|_| {
            self.place_from(start, Diag::new("T0001", format!("{number} is more than 32 bits hold")))
        })
    }

    /// Reads a real number; `nan(0x..)` gives its bits.
    pub(crate) fn real(&mut self) -> DiagResult<f64> {
        if self.eat_word("nan") {
            self.sign('(')?;
            let bits = self.uint()?;
            return self.sign(')').map(|()| f64::from_bits(bits));
        }
        self.parsed("a number", |text| text.parse().ok())
    }

    /// Reads an f32, rounded once; `nan(0x..)` gives its bits.
    pub(crate) fn real32(&mut self) -> DiagResult<f32> {
        if self.eat_word("nan") {
            self.sign('(')?;
            let bits = self.uint32()?;
            return self.sign(')').map(|()| f32::from_bits(bits));
        }
        self.parsed("a number", |text| text.parse().ok())
    }

    /// Reads `true` or `false`.
    pub(crate) fn boolean(&mut self) -> DiagResult<bool> {
        self.choice("a truth value", &[("true", true), ("false", false)])
    }

    /// Reads an element type.
    pub(crate) fn dtype(&mut self) -> DiagResult<DType> {
        let start = self.at;
        let name = self.word("an element type")?;
        let unknown = || self.place_from(start, Diag::new("T0005", format!("unknown element type `{name}`")));
        DType::from_name(name).ok_or_else(|| unknown().help("f32, bf16 or i32"))
    }

    /// Reads `name =`.
    pub(crate) fn field(&mut self, name: &str) -> DiagResult<()> {
        self.keyword(name)?;
        self.sign('=')
    }

    /// Reads elements separated by commas up to `close`, which is read too; a comma may follow the last.
    pub(crate) fn list<T>(
        &mut self,
        close: char,
        mut element: impl FnMut(&mut Self) -> DiagResult<T>,
    ) -> DiagResult<Vec<T>> {
        let mut elements = Vec::new();
        while !self.eat_sign(close) {
            elements.push(element(self)?);
            if !self.eat_sign(',') {
                self.sign(close)?;
                break;
            }
        }
        Ok(elements)
    }

    /// Reads `[2, 3]`.
    pub(crate) fn dims(&mut self) -> DiagResult<Dims> {
        let start = self.at;
        self.sign('[')?;
        let dims: Dims = self.list(']', Self::uint)?.into();
        let num_elements = dims.iter().try_fold(1_u64, |n, &dim| n.checked_mul(dim.max(1)));
        if num_elements.is_none_or(|n| n > MAX_ELEMENTS) || dims.len() > 8 {
            let message = format!("dimensions {dims:?} are too many or too large");
            return Err(self.place_from(start, Diag::new("T0001", message)));
        }
        Ok(dims)
    }
}
