//! What can be wrong with a package.

use std::fmt;

/// A fault of a package: which file, which line, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, relative to the package.
    pub file: String,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// What is wrong.
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

/// Why a package, or what is made of it, is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A package has faults: all of them at once.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
    /// A file or archive could not be read.
    #[error("{path}: {reason}")]
    Read {
        /// Which one.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A parameter's value does not fit, or is missing.
    #[error("{0}")]
    Parameter(String),
    /// A change of an instance is denied.
    #[error("{0}")]
    Denied(String),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
