//! Diagnostics: what a user did wrong, in the user's own words.

use std::fmt;
use std::sync::Arc;

/// A place in a text file the user wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// File name as the user gave it.
    pub file: Arc<str>,
    /// 1-based line.
    pub line: u32,
    /// 1-based column, in characters.
    pub column: u32,
    /// Number of characters to underline, at least 1.
    pub len: u32,
    /// The text of that line, without its line end.
    pub text: Arc<str>,
}

impl Span {
    /// The span of bytes `start..end` of `source`.
    pub fn of_range(file: &str, source: &str, start: usize, end: usize) -> Self {
        let start = start.min(source.len());
        let line_start = source[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |i| start + i);
        let end = end.clamp(start, line_end);
        let chars = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        Self {
            file: file.into(),
            line: u32::try_from(source[..start].matches('\n').count()).unwrap_or(u32::MAX - 1) + 1,
            column: chars(&source[line_start..start]) + 1,
            len: chars(&source[start..end]).max(1),
            text: source[line_start..line_end].trim_end_matches('\r').into(),
        }
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The command fails.
    Error,
    /// The command goes on.
    Warning,
}

/// One finding. Errors are a user's; a fault of ours is an [`ice!`](crate::ice).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diag {
    /// Stable code, listed in `codes`.
    pub code: &'static str,
    /// Error or warning.
    pub severity: Severity,
    /// What was found and what was expected, without a full stop.
    pub message: String,
    /// Where in a text file.
    pub span: Option<Span>,
    /// Where in the user's model (module path) or in an artifact (section).
    pub path: Option<String>,
    /// More facts.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Diag {
    /// An error.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            span: None,
            path: None,
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::new(code, message) }
    }

    /// Adds a place in a text file.
    pub fn span(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Adds a place in the model.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Adds a fact.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds the fix.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Diag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}[{}]: {}", self.code, self.message)?;
        if let Some(span) = &self.span {
            let gutter = span.line.to_string().len();
            let pad = " ".repeat(gutter);
            write!(f, "\n{pad}--> {}:{}:{}", span.file, span.line, span.column)?;
            write!(f, "\n{pad} |\n{} | {}\n{pad} | ", span.line, span.text)?;
            let before = span.text.chars().take(span.column as usize - 1);
            f.write_str(&before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect::<String>())?;
            f.write_str(&"^".repeat(span.len as usize))?;
        }
        if let Some(path) = &self.path {
            write!(f, "\n  at: {path}")?;
        }
        for note in &self.notes {
            write!(f, "\n  note: {note}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diag {}

/// A result with one finding.
pub type DiagResult<T> = Result<T, Diag>;

/// All findings of a command, in the order found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diags(pub Vec<Diag>);

impl Diags {
    /// Whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }

    /// Adds a finding.
    pub fn push(&mut self, diag: Diag) {
        self.0.push(diag);
    }
}

/// Findings shown at once: nobody mends more in one go.
const MOST_SHOWN: usize = 100;

impl From<Diag> for Diags {
    fn from(diag: Diag) -> Self {
        Self(vec![diag])
    }
}

impl fmt::Display for Diags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diag) in self.0.iter().take(MOST_SHOWN).enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            diag.fmt(f)?;
        }
        match self.0.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n\n... and {more} more"),
        }
    }
}

impl std::error::Error for Diags {}

/// Stops with a message for a fault that is ours, never a user's. Exit code 101.
#[macro_export]
macro_rules! ice {
    ($($arg:tt)*) => { panic!("internal error, please report it: {}", format_args!($($arg)*)) };
}
