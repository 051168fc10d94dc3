//! Buffered standard output, written once at the end of a command.

use std::fmt;
use std::io::{self, Write};

use crate::Failure;

/// The text for standard output when the command is done.
#[derive(Debug, Default)]
pub(crate) struct Output {
    text: String,
}

impl Output {
    /// Adds text verbatim.
    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) {
        use fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// Writes everything to standard output.
    pub(crate) fn flush(self) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let result = stdout.write_all(self.text.as_bytes()).and_then(|()| stdout.flush());
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::broken_pipe()),
            other => other.map_err(|error| Failure::new(format!("cannot write to standard output: {error}"))),
        }
    }
}
