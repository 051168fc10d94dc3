//! What an oracle, or we, answer to a question.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::client::ClientError;

/// An answer to one question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// It worked, with this result.
    Ok(Json),
    /// It failed with this text, at this stage.
    Err {
        /// The error's text, or `{"$b64": …}`.
        text: Json,
        /// The stage, such as `parse` or `exec`.
        kind: String,
    },
    /// Go panicked where Helm does not catch it; the text is for people alone.
    Panic(String),
    /// The process ended while answering.
    Died,
}

impl Answer {
    /// A failure with this text at this stage.
    pub fn err(kind: &str, text: impl ToString) -> Self {
        Self::Err { text: Json::String(text.to_string()), kind: kind.into() }
    }

    /// Reads one line of an oracle.
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

    /// Whether ours says the same as the oracle's. Where Go panics or dies, any error of ours is right.
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
