//! What can go wrong between this crate and CANN.

use crate::library::Since;
use std::fmt;

/// A library, a function or a call that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// T0740: no file of the library was found, or none loads.
    #[error("CANN's library is not found: looked for {names} in {places}{}", after(faults))]
    LibraryNotFound {
        /// File names, in order.
        names: String,
        /// Folders, in order, and why each.
        places: String,
        /// What the dynamic loader said of files that exist.
        faults: Vec<String>,
    },
    /// T0741: this version of CANN lacks a function.
    #[error("{symbol} is not in {files}: {since}")]
    SymbolMissing {
        /// The function.
        symbol: &'static str,
        /// The opened files.
        files: String,
        /// The versions that have it.
        since: Since,
    },
    /// T0742: a function returned an error.
    #[error("{function} returned {status} ({}){}", name.unwrap_or("a status without a name"), message.as_ref().map_or(String::new(), |m| format!(": {m}")))]
    Call {
        /// The function.
        function: &'static str,
        /// What it returned.
        status: i32,
        /// The name of that, if it has one.
        name: Option<&'static str>,
        /// What `aclGetRecentErrMsg` said on this thread just afterwards.
        message: Option<String>,
    },
    /// T0750: the arguments are not those of the operator.
    #[error("{operator} {fault}")]
    Arguments {
        /// The operator.
        operator: &'static str,
        /// What is wrong.
        fault: String,
    },
    /// T0751: the table has no such operator.
    #[error("no operator is called {0}")]
    UnknownOperator(String),
}

impl Error {
    /// The diagnostic code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::LibraryNotFound { .. } => "T0740",
            Self::SymbolMissing { .. } => "T0741",
            Self::Call { .. } => "T0742",
            Self::Arguments { .. } => "T0750",
            Self::UnknownOperator(_) => "T0751",
        }
    }
}

fn after(faults: &[String]) -> String {
    faults.iter().map(|fault| format!("; {fault}")).collect()
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V8_5 => "CANN 8.5 has it",
            Self::V9_1 => "CANN 9.1 has it, older versions may not",
            Self::Next => "it needs a CANN newer than 9.1",
            Self::Unknown => {
                "CANN's sources of August 2026 have it, which version was the first is not known"
            }
        })
    }
}
