//! Errors of loading and running tests.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A test file that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct LoadError {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub message: String,
}

impl LoadError {
    pub(crate) fn new(path: &Path, message: &dyn Display) -> Self {
        Self { path: path.to_owned(), message: message.to_string() }
    }
}

/// The reason that a run could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The pattern that selects test cases is not a valid regular expression.
    #[error("--test {pattern}: {message}")]
    Filter {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        message: String,
    },
    /// A pattern of `ignoreFiles` is malformed.
    #[error("invalid ignore pattern {0:?}")]
    IgnorePattern(String),
    /// An object of `crdDir` or `manifestDirs` cannot be applied.
    #[error("{}: {message}", path.display())]
    Install {
        /// The file that it is in.
        path: PathBuf,
        /// The API server's message.
        message: String,
    },
    /// A command of the suite failed.
    #[error("{0}")]
    Command(String),
    /// The report cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Report {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
