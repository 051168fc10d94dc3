//! Cursor: a position in the text, with its line and column, and the steps that advance it.

use super::Mark;
use crate::{Error, error::Fault};

/// Builds a lookup table of the given bytes and all non-ASCII ones.
pub(super) const fn stops(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    let mut byte = 0x80;
    while byte < 256 {
        table[byte] = true;
        byte += 1;
    }
    table
}

const LINE_STOPS: [bool; 256] = stops(b"\r\n");

pub(super) struct Cursor<'a> {
    text: &'a str,
    problem: Option<Error>,
    pos: usize,
    line: u32,
    /// `pos - line_base` is the column: the start of the line, plus one for each continuation byte passed.
    line_base: usize,
    /// Continuation bytes passed in total: `pos - wide` is the number of characters.
    wide: usize,
}

/// A line break. Every kind is read as a newline, except the two Unicode separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Break {
    Newline,
    LineSeparator,
    ParagraphSeparator,
}

impl Break {
    pub(super) fn text(self) -> &'static str {
        match self {
            Break::Newline => "\n",
            Break::LineSeparator => "\u{2028}",
            Break::ParagraphSeparator => "\u{2029}",
        }
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str, problem: Option<Error>) -> Self {
        Cursor { text, problem, pos: 0, line: 0, line_base: 0, wide: 0 }
    }

    /// Fails if fewer than this many characters are readable because the input is invalid after them.
    #[inline]
    pub(super) fn ensure(&self, characters: usize) -> Result<(), Fault> {
        match &self.problem {
            None => Ok(()),
            Some(problem) => self.ensure_before(problem, characters),
        }
    }

    #[cold]
    fn ensure_before(&self, problem: &Error, characters: usize) -> Result<(), Fault> {
        if self.rest().chars().take(characters).count() < characters {
            return Err(Box::new(problem.clone()));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn is_cut_short(&self) -> bool {
        self.problem.is_some()
    }

    #[inline]
    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    #[inline]
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    #[inline]
    pub(super) fn column(&self) -> u32 {
        (self.pos - self.line_base) as u32
    }

    /// Returns the number of characters passed.
    #[inline]
    pub(super) fn index(&self) -> usize {
        self.pos - self.wide
    }

    #[inline]
    pub(super) fn mark(&self) -> Mark {
        Mark { line: self.line, column: self.column() }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.pos..).unwrap_or_default()
    }

    /// Returns the text between two earlier positions of the cursor.
    #[inline]
    pub(super) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the current byte; `None` at the end.
    #[inline]
    pub(super) fn current(&self) -> Option<u8> {
        self.bytes().get(self.pos).copied()
    }

    /// Returns the byte `ahead` positions on, NUL after the end. YAML text contains no NUL.
    #[inline]
    pub(super) fn at(&self, ahead: usize) -> u8 {
        self.bytes().get(self.pos + ahead).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.at(0), b' ' | b'\t')
    }

    #[inline]
    pub(super) fn is_break(&self) -> bool {
        self.break_at(self.pos).is_some()
    }

    #[inline]
    pub(super) fn is_break_or_end(&self) -> bool {
        self.pos >= self.text.len() || self.is_break()
    }

    /// Whether a blank, a line break or the end is `ahead` positions on.
    #[inline]
    pub(super) fn is_blank_or_end(&self, ahead: usize) -> bool {
        match self.at(ahead) {
            0 | b' ' | b'\t' => true,
            _ => self.break_at(self.pos + ahead).is_some(),
        }
    }

    /// Returns `-` or `.` if the cursor is at a `---` or `...` followed by a blank or the end.
    pub(super) fn document_indicator(&self) -> Option<u8> {
        let byte = self.at(0);
        let stands = matches!(byte, b'-' | b'.')
            && self.at(1) == byte
            && self.at(2) == byte
            && self.is_blank_or_end(3);
        stands.then_some(byte)
    }

    /// Returns the line break at a position, and its length in bytes.
    #[inline]
    fn break_at(&self, at: usize) -> Option<(Break, usize)> {
        let bytes = self.bytes();
        match *bytes.get(at)? {
            b'\n' => Some((Break::Newline, 1)),
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => Some((Break::Newline, 2)),
            b'\r' => Some((Break::Newline, 1)),
            0xC2 if bytes.get(at + 1) == Some(&0x85) => Some((Break::Newline, 2)),
            0xE2 if bytes.get(at + 1) == Some(&0x80) => match bytes.get(at + 2) {
                Some(0xA8) => Some((Break::LineSeparator, 3)),
                Some(0xA9) => Some((Break::ParagraphSeparator, 3)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Consumes a line break, if there is one.
    #[inline]
    pub(super) fn take_break(&mut self) -> Result<Option<Break>, Fault> {
        let Some((kind, length)) = self.break_at(self.pos) else {
            return Ok(None);
        };
        self.ensure(2)?;
        self.wide += match self.at(0) {
            b'\n' | b'\r' => 0,
            _ => length - 1,
        };
        self.pos += length;
        self.line += 1;
        self.line_base = self.pos;
        Ok(Some(kind))
    }

    #[inline]
    pub(super) fn skip_break(&mut self) -> Result<bool, Fault> {
        Ok(self.take_break()?.is_some())
    }

    /// Skips ASCII characters.
    #[inline]
    pub(super) fn skip_ascii(&mut self, count: usize) {
        self.pos = (self.pos + count).min(self.text.len());
    }

    /// Skips one character that is not a line break.
    #[inline]
    pub(super) fn skip_char(&mut self) {
        let width = match self.at(0) {
            0x00..=0x7F => 1,
            0x80..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        };
        self.pos = (self.pos + width).min(self.text.len());
        self.line_base += width - 1;
        self.wide += width - 1;
    }

    /// Skips spaces, and tabs where they separate rather than indent.
    #[inline]
    pub(super) fn skip_blanks(&mut self, tabs: bool) {
        let bytes = self.bytes();
        while let Some(&byte) = bytes.get(self.pos) {
            if byte != b' ' && !(tabs && byte == b'\t') {
                return;
            }
            self.pos += 1;
        }
    }

    /// Skips bytes that are not stops, all of which must be ASCII, and returns the stop reached.
    #[inline]
    pub(super) fn skip_run(&mut self, stops: &[bool; 256]) -> Option<u8> {
        let rest = self.bytes().get(self.pos..).unwrap_or_default();
        let run = rest.iter().position(|&byte| stops[usize::from(byte)]).unwrap_or(rest.len());
        self.pos += run;
        rest.get(run).copied()
    }

    /// Skips to the next line break or the end.
    #[inline]
    pub(super) fn skip_to_break(&mut self) {
        while let Some(0x80..) = self.skip_run(&LINE_STOPS) {
            if self.is_break() {
                return;
            }
            self.skip_char();
        }
    }

    /// Treats the end of the stream as a new line, unless the last line was ended.
    pub(super) fn end_line(&mut self) {
        if self.column() != 0 {
            self.line += 1;
            self.line_base = self.pos;
        }
    }
}
