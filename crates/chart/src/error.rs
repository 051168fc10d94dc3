//! Errors of loading and rendering charts, with Helm's messages and the position.

use steersman_gotemplate::Exceeded;

use crate::rendered_files::RenderedFiles;

/// Why a chart could not be loaded or rendered, or its values be computed.
///
/// The message is Helm's, without the leading `Error: `.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The files are not a chart.
    #[error("{0}")]
    Load(String),
    /// A file or directory could not be read.
    #[error("{message}")]
    Io {
        /// Operation, path and reason, in Go's words.
        message: String,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// An archive is not in gzip format.
    #[error("gzip: invalid header")]
    NotGzip,
    /// A part of the chart, such as a subchart, could not be loaded.
    #[error("{context}: {source}")]
    Nested {
        /// What could not be loaded.
        context: String,
        /// The reason.
        #[source]
        source: Box<Error>,
    },
    /// A values file or `--set` flag does not parse, or values have contradictory types.
    #[error("{0}")]
    Values(String),
    /// Dependencies of Chart.yaml are missing, or the chart is not installable.
    #[error("{0}")]
    Dependencies(String),
    /// The values are invalid against a values.schema.json.
    #[error("{0}")]
    Schema(String),
    /// The chart does not support this Kubernetes version.
    #[error("{0}")]
    Incompatible(String),
    /// A template does not parse, or its execution failed.
    #[error(transparent)]
    Template(Box<TemplateError>),
    /// A rendered document is not a manifest.
    #[error("{message}")]
    Manifest {
        /// Message in Helm's words.
        message: String,
        /// The rendered files, to print for debugging.
        files: RenderedFiles,
    },
    /// A template that was requested is not in the output.
    #[error("{0}")]
    Output(String),
}

impl Error {
    /// Returns where and why a template failed, if that is the cause.
    pub fn diagnostic(&self) -> Option<&Diagnostic> {
        match self {
            Self::Template(error) => error.diagnostic.as_ref(),
            _ => None,
        }
    }

    /// Returns the limit that ended the render, if that is the cause.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            Self::Template(error) => error.exceeded.as_ref(),
            _ => None,
        }
    }

    /// Whether rendering failed after the values were accepted.
    ///
    /// `helm template` then prints a hint to use `--debug`.
    pub fn is_render(&self) -> bool {
        matches!(self, Self::Incompatible(_) | Self::Template(_) | Self::Manifest { .. })
    }

    /// Returns what `helm template` prints to standard error, without the final newline.
    pub fn helm_text(&self) -> String {
        let hint = if self.is_render() { "\n\nUse --debug flag to render out invalid YAML" } else { "" };
        format!("Error: {self}{hint}")
    }
}

/// Error of a template that does not parse, or failed to execute.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// Message in Helm's words.
    pub message: String,
    /// Position and suggestion, if known.
    pub diagnostic: Option<Diagnostic>,
    /// The exceeded limit of [`RenderOptions::limits`](crate::RenderOptions::limits), or the interrupt.
    pub exceeded: Option<Exceeded>,
}

/// A position in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// File of the template, with the chart's name in front.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Column in bytes, from 0 as in Go; `None` if only the line is known.
    pub column: Option<usize>,
}

/// Data for displaying an error in a template: position, message and suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Innermost message, without positions.
    pub message: String,
    /// Position of the error.
    pub location: Location,
    /// Source line at that position.
    pub source: Option<String>,
    /// Bytes of [`Diagnostic::source`] to underline.
    pub span: std::ops::Range<usize>,
    /// Label for the underlined bytes; empty if the message is sufficient.
    pub label: String,
    /// Templates that included the failed one, innermost first.
    pub chain: Vec<Location>,
    /// Suggested fix, if known.
    pub help: Option<String>,
}
