//! The records of one file, read in order with bounded memory.

use super::codes;
use super::files::{DataFile, Format};
use serde::Deserialize;
use std::io::{BufRead, Read};
use titan_ir::{Diag, DiagResult};

/// Reads the records of one file one after the other.
pub struct Records {
    file: DataFile,
    input: Box<dyn BufRead + Send>,
    /// The bytes of the present record.
    raw: Vec<u8>,
    /// 1-based line of the present record.
    line: u64,
    ended: bool,
}

impl Records {
    /// Starts before the first record.
    ///
    /// # Errors
    /// Those of [`DataFile::open`].
    pub fn open(file: &DataFile) -> DiagResult<Self> {
        Ok(Self { file: file.clone(), input: file.open()?, raw: Vec::new(), line: 0, ended: false })
    }

    /// Moves to the next record; false at the end of the file.
    ///
    /// # Errors
    /// Reading fails, the compressed data is damaged or cut short, or the record is larger than 256 MiB.
    pub fn advance(&mut self) -> DiagResult<bool> {
        match self.file.format {
            Format::Text => self.advance_text(),
            Format::JsonLines => self.advance_line(),
        }
    }

    /// The text of the present record.
    ///
    /// # Errors
    /// The record is not UTF-8, not a JSON object, or has no string `text`; the message names file and line.
    pub fn text(&self) -> DiagResult<String> {
        let not_utf8 = |e: std::str::Utf8Error| {
            Diag::new(
                codes::NOT_UTF8,
                format!("the text is not UTF-8: byte {} of {}", e.valid_up_to() + 1, self.place()),
            )
            .at(self.place())
            .help("convert the file to UTF-8, for example with `iconv`")
        };
        let text = std::str::from_utf8(&self.raw).map_err(not_utf8)?;
        if self.file.format == Format::Text {
            return Ok(text.to_string());
        }
        let text = text.trim_ascii_end();
        if !text.trim_ascii_start().starts_with('{') {
            return Err(self.bad_record("it is not a JSON object", 1));
        }
        let record: Record = serde_json::from_str(text).map_err(|e| self.bad_json(&e))?;
        Ok(record.text)
    }

    /// The present record's place, as `FILE:LINE`, or the file for a file that is one record.
    pub fn place(&self) -> String {
        match self.file.format {
            Format::Text => self.file.name.clone(),
            Format::JsonLines => format!("{}:{}", self.file.name, self.line),
        }
    }

    fn advance_text(&mut self) -> DiagResult<bool> {
        if self.ended {
            return Ok(false);
        }
        self.ended = true;
        self.line = 1;
        let mut limited = (&mut self.input).take(MAX_RECORD_BYTES + 1);
        limited.read_to_end(&mut self.raw).map_err(|e| self.file.read_error(&e))?;
        self.check_size()?;
        strip_byte_order_mark(&mut self.raw);
        Ok(true)
    }

    fn advance_line(&mut self) -> DiagResult<bool> {
        while !self.ended {
            self.raw.clear();
            let mut limited = (&mut self.input).take(MAX_RECORD_BYTES + 1);
            let num_read = limited.read_until(b'\n', &mut self.raw).map_err(|e| self.file.read_error(&e))?;
            self.line += 1;
            self.check_size()?;
            self.ended = num_read == 0;
            if self.line == 1 {
                strip_byte_order_mark(&mut self.raw);
            }
            if !self.raw.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_size(&self) -> DiagResult<()> {
        if self.raw.len() as u64 <= MAX_RECORD_BYTES {
            return Ok(());
        }
        let message = format!("the record is larger than {} MiB", MAX_RECORD_BYTES >> 20);
        Err(Diag::new(codes::TOO_LARGE, message)
            .at(self.place())
            .help("split it into several records; JSON lines need a line end after every object"))
    }

    fn bad_json(&self, error: &serde_json::Error) -> Diag {
        // The reader sees one line, so of serde_json's own place only the column means something.
        let reason = error.to_string();
        self.bad_record(reason.split(" at line ").next().unwrap_or_default(), error.column())
    }

    fn bad_record(&self, reason: &str, column: usize) -> Diag {
        let message = format!("line {} of `{}` is not a record: {reason}", self.line, self.file.name);
        Diag::new(codes::BAD_RECORD, message)
            .at(format!("{}:{}:{column}", self.file.name, self.line))
            .help("every line must be one JSON object with a string field `text`")
    }
}

#[derive(Deserialize)]
struct Record {
    text: String,
}

const MAX_RECORD_BYTES: u64 = 256 << 20;

fn strip_byte_order_mark(raw: &mut Vec<u8>) {
    if raw.starts_with(b"\xef\xbb\xbf") {
        raw.drain(..3);
    }
}
