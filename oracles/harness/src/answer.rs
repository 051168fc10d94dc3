//! The answer of an oracle, or of our crates, to a request.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::client::ClientError;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// Success, with the result.
    Ok(Json),
    /// Failure, with the error and the stage at which it occurred.
    Err {
        /// The error message, or `{"$b64": …}`.
        text: Json,
        /// The stage, such as `parse` or `exec`.
        kind: String,
    },
    /// Go panicked where Helm does not recover; the message is informational only.
    Panic(String),
    /// The process exited before it had answered.
    Died,
}

impl Answer {
    /// Creates a failure with a message, at a stage.
    pub fn err(kind: &str, text: impl ToString) -> Self {
        Self::Err { text: Json::String(text.to_string()), kind: kind.into() }
    }

    /// Parses one line of an oracle's output.
    pub(crate) fn parse(line: &str) -> Result<Self, ClientError> {
        let bad = |reason: &str| ClientError::Answer { line: line.into(), reason: reason.into() };
        let mut fields: Map<String, Json> = serde_json::from_str(line).map_err(|e| bad(&e.to_string()))?;
        if let Some(text) = fields.remove("err") {
            let kind = fields.get("kind").and_then(Json::as_str).unwrap_or_default().to_owned();
            if kind == "request" {
                return Err(bad("the request was not understood"));
            }
            return Ok(Self::Err { text, kind });
        }
        if let Some(text) = fields.remove("panic") {
            return Ok(Self::Panic(text.as_str().unwrap_or_default().into()));
        }
        Ok(Self::Ok(fields.remove("ok").unwrap_or(Json::Null)))
    }

    /// Whether our answer matches the oracle's. Where Go panics or dies, any error of ours matches.
    pub fn agrees(&self, ours: &Self) -> bool {
        match self {
            Self::Panic(_) | Self::Died => matches!(ours, Self::Err { .. }),
            Self::Ok(theirs) => matches!(ours, Self::Ok(result) if result == theirs),
            Self::Err { text, .. } => matches!(ours, Self::Err { text: mine, .. } if mine == text),
        }
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ok(result) => write!(f, "ok {result}"),
            Self::Err { text, kind } => write!(f, "err [{kind}] {text}"),
            Self::Panic(text) => write!(f, "panic {text}"),
            Self::Died => f.write_str("died"),
        }
    }
}
