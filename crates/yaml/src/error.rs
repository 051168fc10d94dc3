use std::fmt;

/// A position in a document; both numbers are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// An error inside the reader: boxed to keep results small, since nearly every step can fail.
pub(crate) type Fault = Box<Error>;

/// Why a document could not be read or written.
///
/// The `Display` text is that of Go's packages verbatim, including line numbers, which for some errors are one less
/// than the line at fault; [`Error::position`] is exact.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not text that YAML allows: bad UTF-8 or UTF-16, or a control character.
    #[error("yaml: {problem}")]
    Encoding {
        /// What is wrong with the bytes.
        problem: &'static str,
    },

    /// The input violates YAML's grammar.
    #[error("yaml: {}{problem}", line_prefix(*.line))]
    Syntax {
        /// What is wrong.
        problem: String,
        /// Line as counted in Go's message, `None` where Go reports none.
        line: Option<usize>,
        /// The actual position.
        position: Position,
    },

    /// The YAML has no value: an unknown anchor, a tag that does not fit, a collection as a key.
    #[error("yaml: {problem}")]
    Decode {
        /// What is wrong.
        problem: String,
        /// Start of the node at fault.
        position: Option<Position>,
    },

    /// Keys are repeated in one mapping, which strict reading rejects.
    #[error("yaml: unmarshal errors:\n  {}", problems.join("\n  "))]
    Duplicate {
        /// One line for each repeated key.
        problems: Vec<String>,
        /// Start of the first repeated key's value.
        position: Option<Position>,
    },

    /// The YAML value has no JSON counterpart: an infinity, a NaN, or a null key.
    #[error("{0}")]
    NotJson(String),

    /// The output would be longer than the caller allows.
    #[error("output exceeds the limit of {limit} bytes")]
    TooLarge {
        /// Maximum size in bytes.
        limit: usize,
    },

    /// The input is not JSON.
    #[error("{problem}")]
    Json {
        /// Message of Go's decoder.
        problem: String,
        /// Number of bytes read when the error was detected.
        offset: usize,
    },

    /// The value does not match the requested type.
    #[error("{0}")]
    Type(String),

    /// YAML could not be turned into JSON on the way to a typed value.
    #[error("error converting YAML to JSON: {0}")]
    Convert(#[source] Box<Error>),

    /// The JSON form of the document does not match the requested type.
    #[error("error unmarshaling JSON: while decoding JSON: {0}")]
    Unmarshal(#[source] Box<Error>),
}

impl Error {
    /// Returns the position of the error in the document, if known.
    pub fn position(&self) -> Option<Position> {
        match self {
            Error::Syntax { position, .. } => Some(*position),
            Error::Decode { position, .. } | Error::Duplicate { position, .. } => *position,
            Error::Convert(inner) | Error::Unmarshal(inner) => inner.position(),
            Error::Encoding { .. }
            | Error::NotJson(_)
            | Error::TooLarge { .. }
            | Error::Json { .. }
            | Error::Type(_) => None,
        }
    }
}

fn line_prefix(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: "))
}

impl serde::ser::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Error::Type(message.to_string())
    }
}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Error::Type(message.to_string())
    }
}
