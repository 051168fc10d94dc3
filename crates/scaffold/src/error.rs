//! Errors of scaffolding.

use std::io;
use std::path::{Path, PathBuf};

/// The result of scaffolding.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of scaffolding. Nothing was written, unless it is [`Error::Io`] and occurred while writing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name is not valid.
    #[error("{flag} {value:?} is not valid: {reason}")]
    Name {
        /// The flag that sets it.
        flag: &'static str,
        /// The name.
        value: String,
        /// The rule that it violates.
        reason: String,
    },
    /// A required flag is missing.
    #[error("{0} is required")]
    Missing(&'static str),
    /// Flags contradict each other, or do not apply to the project.
    #[error("{message}")]
    Usage {
        /// The contradiction.
        message: String,
        /// What to do instead.
        help: String,
    },
    /// The plugin does not exist.
    #[error("unknown plugin {0:?}")]
    UnknownPlugin(String),
    /// The directory of a new project is not empty.
    #[error("{} is not empty: it has {}", .directory.display(), .files.join(", "))]
    NotEmpty {
        /// The directory.
        directory: PathBuf,
        /// Some of the files.
        files: Vec<String>,
    },
    /// A directory has no PROJECT file.
    #[error("{} has no PROJECT file", .0.display())]
    NotAProject(PathBuf),
    /// A file of the project is missing or malformed.
    #[error("{}: {reason}", .path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Files of the project have unresolved conflict markers from an earlier merge.
    #[error("unresolved conflicts in {}", .0.join(", "))]
    Unresolved(Vec<String>),
    /// The chart does not load or render.
    #[error(transparent)]
    Chart(#[from] steersman_chart::Error),
    /// A built-in template does not render, which is a bug in this program.
    #[error("template {name}: {reason}")]
    Template {
        /// The template.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: help.into() }
    }

    /// Returns a one-line suggestion of how to fix the error, if there is one.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Usage { help, .. } => help.clone(),
            Self::UnknownPlugin(_) => "the plugins are helm, rust and ansible".to_owned(),
            Self::NotEmpty { .. } => {
                "run it in an empty directory: mkdir my-operator && cd my-operator".to_owned()
            }
            Self::Unresolved(_) => {
                "decide between the lines of <<<<<<< and >>>>>>>, remove the markers, and run it again"
                    .to_owned()
            }
            Self::NotAProject(_) => "`steer init` makes a project; run this in its directory".to_owned(),
            Self::Name { flag: "--project-name", .. } => {
                "the default is the directory's name; --project-name gives another one".to_owned()
            }
            _ => return None,
        })
    }
}
