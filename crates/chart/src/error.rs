//! Why a chart could not be loaded, valued or rendered: Helm's words, and where that is.

use steersman_gotemplate::Exceeded;

use crate::rendered_files::RenderedFiles;

/// Why a chart could not be loaded, valued or rendered. The text is Helm's, without its `Error: ` before it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The files do not make a chart.
    #[error("{0}")]
    Load(String),
    /// A file or directory cannot be read.
    #[error("{message}")]
    Io {
        /// Operation, path and reason, in Go's words.
        message: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// An archive is not compressed with gzip.
    #[error("gzip: invalid header")]
    NotGzip,
    /// Something within the chart does not load, such as a subchart.
    #[error("{context}: {source}")]
    Nested {
        /// What does not load.
        context: String,
        /// Why it does not.
        #[source]
        source: Box<Error>,
    },
    /// A values file or one of the `--set` family does not parse, or values contradict each other's shape.
    #[error("{0}")]
    Values(String),
    /// Dependencies that Chart.yaml names are not there, or the chart is not one that can be installed.
    #[error("{0}")]
    Dependencies(String),
    /// The values do not meet a values.schema.json.
    #[error("{0}")]
    Schema(String),
    /// The chart does not allow this version of Kubernetes.
    #[error("{0}")]
    Incompatible(String),
    /// A template does not parse or failed.
    #[error(transparent)]
    Template(Box<TemplateError>),
    /// A rendered document is not a manifest.
    #[error("{message}")]
    Manifest {
        /// Helm's text.
        message: String,
        /// What had been rendered, to be shown while debugging.
        files: RenderedFiles,
    },
    /// What was asked to be shown is not in the output.
    #[error("{0}")]
    Output(String),
}

impl Error {
    /// Where and why a template failed, if one did.
    pub fn diagnostic(&self) -> Option<&Diagnostic> {
        match self {
            Self::Template(error) => error.diagnostic.as_ref(),
            _ => None,
        }
    }

    /// The limit that ended the render, if one did.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            Self::Template(error) => error.exceeded.as_ref(),
            _ => None,
        }
    }

    /// Whether the values were accepted and the failure came from rendering: `helm template` then adds a hint to use
    /// `--debug`.
    pub fn is_render(&self) -> bool {
        matches!(self, Self::Incompatible(_) | Self::Template(_) | Self::Manifest { .. })
    }

    /// What `helm template` prints on standard error, without the final newline.
    pub fn helm_text(&self) -> String {
        let hint = if self.is_render() { "\n\nUse --debug flag to render out invalid YAML" } else { "" };
        format!("Error: {self}{hint}")
    }
}

/// A template that does not parse or failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// Helm's text.
    pub message: String,
    /// Where it happened and what would help, if that is known.
    pub diagnostic: Option<Diagnostic>,
    /// The limit of [`RenderOptions::limits`](crate::RenderOptions::limits) that was met, or the interrupt.
    pub exceeded: Option<Exceeded>,
}

/// A place in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The template's file, with the chart's name before it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 0 as Go counts it; `None` if only the line is known.
    pub column: Option<usize>,
}

/// All that is needed to show an error in a template: where, what and what now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The innermost message, without positions.
    pub message: String,
    /// Where it happened.
    pub location: Location,
    /// The text of that line.
    pub source: Option<String>,
    /// The bytes of [`Diagnostic::source`] to underline.
    pub span: std::ops::Range<usize>,
    /// What to write beside the underlined bytes; empty if the message says it all.
    pub label: String,
    /// The templates that included the one that failed, innermost first.
    pub chain: Vec<Location>,
    /// What would fix it, if that is known.
    pub help: Option<String>,
}
