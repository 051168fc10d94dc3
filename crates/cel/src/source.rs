//! Source text of an expression, and errors with positions in it.

use std::fmt;

/// Maximum length of a snippet in an error; longer ones are omitted.
const MAX_SNIPPET: usize = 16_384;

/// Source text as characters, for offsets in characters.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) chars: Vec<char>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        Self { chars: text.chars().collect() }
    }

    /// Returns the line (from 1) and column (from 0) of an offset.
    fn location(&self, offset: usize) -> (usize, usize) {
        let before = &self.chars[..offset.min(self.chars.len())];
        let line = before.iter().filter(|c| **c == '\n').count();
        let column = before.iter().rev().take_while(|c| **c != '\n').count();
        (line + 1, column)
    }

    fn line(&self, line: usize) -> String {
        let text: String = self.chars.iter().collect();
        text.split('\n').nth(line.saturating_sub(1)).unwrap_or_default().to_owned()
    }

    /// Creates an error with its position and source line.
    pub(crate) fn error(&self, offset: usize, message: impl Into<String>) -> Issue {
        let (line, column) = self.location(offset);
        Issue { line, column, message: message.into(), snippet: self.line(line) }
    }
}

/// A compile error. Displayed with its source line and a caret under the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 0.
    pub column: usize,
    /// The message.
    pub message: String,
    snippet: String,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, message, snippet } = self;
        write!(f, "ERROR: <input>:{line}:{}: {message}", column + 1)?;
        if snippet.len() > MAX_SNIPPET {
            return Ok(());
        }
        let snippet = snippet.replace('\t', " ");
        write!(f, "\n | {snippet}\n | ")?;
        let mut rest = snippet.chars();
        for c in rest.by_ref().take(*column) {
            f.write_str(if c.is_ascii() { "." } else { "\u{ff0e}" })?;
        }
        f.write_str(if rest.next().is_none_or(|c| c.is_ascii()) { "^" } else { "\u{ff3e}" })
    }
}
