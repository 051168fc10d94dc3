//! The errors of a package.

use std::fmt;

/// A problem in a package: file, line, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, relative to the package.
    pub file: String,
    /// The line number, starting at 1, if known.
    pub line: Option<usize>,
    /// The error message.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// The reason why a package or an instance is rejected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A package is invalid; has all of its problems.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
    /// A file or archive could not be read.
    #[error("{path}: {reason}")]
    Read {
        /// Its path.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A parameter's value is invalid or missing.
    #[error("{0}")]
    Parameter(String),
    /// An update of an instance is denied.
    #[error("{0}")]
    Denied(String),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
