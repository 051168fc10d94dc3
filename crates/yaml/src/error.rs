use std::fmt;

/// A place in a document, both numbers counted from 1.
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

/// An error on its way out of the reader: small, since nearly every step there may fail.
pub(crate) type Fault = Box<Error>;

/// Why a document could not be read or written. The `Display` text is word for word what Go's packages say,
/// line numbers included, which for some problems are one less than the line at fault; [`Error::position`] is exact.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not text that YAML allows: bad UTF-8 or UTF-16, or a control character.
    #[error("yaml: {problem}")]
    Encoding {
        /// What is wrong with the bytes.
        problem: &'static str,
    },

    /// The text breaks YAML's grammar.
    #[error("yaml: {}{problem}", line_prefix(*.line))]
    Syntax {
        /// What is wrong.
        problem: String,
        /// The line as Go's message counts it, absent where Go names none.
        line: Option<usize>,
        /// Where it really is.
        position: Position,
    },

    /// The text is YAML but has no value: an unknown anchor, a tag that does not fit, a collection as a key.
    #[error("yaml: {problem}")]
    Decode {
        /// What is wrong.
        problem: String,
        /// Where the node at fault begins.
        position: Option<Position>,
    },

    /// Keys that occur twice in one mapping, which strict reading refuses.
    #[error("yaml: unmarshal errors:\n  {}", problems.join("\n  "))]
    Duplicate {
        /// One line for each repeated key.
        problems: Vec<String>,
        /// Where the first repeated key's value begins.
        position: Option<Position>,
    },

    /// The YAML value has no JSON counterpart: an infinity, a NaN, or a null key.
    #[error("{0}")]
    NotJson(String),

    /// The text would be longer than the caller allows.
    #[error("the text is longer than {limit} bytes")]
    TooLarge {
        /// The most that is allowed.
        limit: usize,
    },

    /// The text is not JSON.
    #[error("{problem}")]
    Json {
        /// What Go's decoder says.
        problem: String,
        /// How many bytes were read when the problem showed.
        offset: usize,
    },

    /// The value does not fit the type asked for.
    #[error("{0}")]
    Type(String),

    /// YAML could not be turned into JSON on the way to a typed value.
    #[error("error converting YAML to JSON: {0}")]
    Convert(#[source] Box<Error>),

    /// The JSON form of the document does not fit the type asked for.
    #[error("error unmarshaling JSON: while decoding JSON: {0}")]
    Unmarshal(#[source] Box<Error>),
}

impl Error {
    /// Where in the document the problem is, when that is known.
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
