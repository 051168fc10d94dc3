//! Scanning scalars of all five styles.

use std::borrow::Cow;

use super::{
    Scanner,
    cursor::{Break, stops},
};
use crate::error::Fault;

/// Bytes at which a plain scalar needs a closer look, outside and inside brackets.
const PLAIN_STOPS: [[bool; 256]; 2] = [stops(b" \t\r\n:"), stops(b" \t\r\n:,?[]{}")];

/// Bytes at which quoted text needs a closer look.
const QUOTED_STOPS: [bool; 256] = stops(b" \t\r\n'\"\\");

/// Line breaks between two parts of a scalar: one alone folds into a space.
#[derive(Default)]
struct Fold {
    first: Option<Break>,
    rest: String,
}

impl Fold {
    fn add(&mut self, line_break: Break) {
        match self.first {
            None => self.first = Some(line_break),
            Some(_) => self.rest.push_str(line_break.text()),
        }
    }

    fn finish(&mut self, out: &mut String) {
        match self.first.take() {
            Some(Break::Newline) if self.rest.is_empty() => out.push(' '),
            Some(Break::Newline) | None => out.push_str(&self.rest),
            Some(separator) => {
                out.push_str(separator.text());
                out.push_str(&self.rest);
            }
        }
        self.rest.clear();
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn scan_plain_scalar(&mut self) -> Result<Cow<'a, str>, Fault> {
        let in_flow = self.flow_level > 0;
        let stops = &PLAIN_STOPS[usize::from(in_flow)];
        let indent = self.indent + 1;
        let mut folded = String::new();
        let mut fold = Fold::default();
        let mut new_line = false;
        // Part of the current line that belongs to the value.
        let (mut start, mut end) = (self.cursor.pos(), self.cursor.pos());

        'lines: loop {
            self.cursor.ensure(4)?;
            if self.cursor.column() == 0 && self.cursor.document_indicator().is_some()
                || self.cursor.current() == Some(b'#')
            {
                break;
            }

            let word = self.cursor.pos();
            self.skip_plain_word(stops);
            if self.cursor.pos() > word {
                if new_line {
                    fold.finish(&mut folded);
                    start = word;
                    new_line = false;
                }
                end = self.cursor.pos();
            }
            self.cursor.ensure(1)?;

            let mut moved = false;
            loop {
                if self.cursor.is_blank() {
                    if new_line && self.cursor.at(0) == b'\t' && i64::from(self.cursor.column()) < indent {
                        return Err(self.error("found a tab character that violates indentation"));
                    }
                    self.cursor.skip_ascii(1);
                } else if let Some(line_break) = self.cursor.take_break()? {
                    if !new_line {
                        folded.push_str(self.cursor.slice(start, end));
                        start = end;
                        new_line = true;
                    }
                    fold.add(line_break);
                } else {
                    break;
                }
                moved = true;
                self.cursor.ensure(1)?;
            }
            if !moved {
                break 'lines;
            }
            if !in_flow && i64::from(self.cursor.column()) < indent {
                break;
            }
        }

        if new_line {
            self.simple_key_allowed = true;
        }
        let last = self.cursor.slice(start, end);
        if folded.is_empty() {
            return Ok(Cow::Borrowed(last));
        }
        folded.push_str(last);
        Ok(Cow::Owned(folded))
    }

    /// Skips characters of a plain scalar up to a blank, a line break, the end or an indicator.
    #[inline]
    fn skip_plain_word(&mut self, stops: &[bool; 256]) {
        loop {
            match self.cursor.skip_run(stops) {
                Some(b':') if !self.cursor.is_blank_or_end(1) => self.cursor.skip_ascii(1),
                Some(0x80..) if !self.cursor.is_break() => self.cursor.skip_char(),
                _ => return,
            }
        }
    }

    pub(super) fn scan_single_quoted(&mut self) -> Result<Cow<'a, str>, Fault> {
        self.cursor.skip_ascii(1);
        let mut folded = String::new();
        let mut borrowed = true;
        let mut start = self.cursor.pos();
        loop {
            self.quoted_line_start()?;
            loop {
                self.cursor.skip_run(&QUOTED_STOPS);
                self.cursor.ensure(2)?;
                if self.cursor.is_blank_or_end(0) {
                    break;
                }
                if self.cursor.at(0) != b'\'' {
                    self.cursor.skip_char();
                } else if self.cursor.at(1) == b'\'' {
                    self.cursor.skip_ascii(1);
                    folded.push_str(self.cursor.slice(start, self.cursor.pos()));
                    borrowed = false;
                    self.cursor.skip_ascii(1);
                    start = self.cursor.pos();
                } else {
                    break;
                }
            }
            if self.cursor.current() == Some(b'\'') {
                break;
            }
            if self.fold_quoted(&mut folded, &mut start, false)? {
                borrowed = false;
            }
        }
        let last = self.cursor.slice(start, self.cursor.pos());
        self.cursor.skip_ascii(1);
        if borrowed {
            return Ok(Cow::Borrowed(last));
        }
        folded.push_str(last);
        Ok(Cow::Owned(folded))
    }

    pub(super) fn scan_double_quoted(&mut self) -> Result<Cow<'a, str>, Fault> {
        self.cursor.skip_ascii(1);
        let mut folded = String::new();
        let mut borrowed = true;
        let mut start = self.cursor.pos();
        loop {
            self.quoted_line_start()?;
            let mut escaped_break = false;
            loop {
                self.cursor.skip_run(&QUOTED_STOPS);
                self.cursor.ensure(2)?;
                if self.cursor.is_blank_or_end(0) {
                    break;
                }
                match self.cursor.at(0) {
                    b'"' => break,
                    b'\\' => {
                        folded.push_str(self.cursor.slice(start, self.cursor.pos()));
                        borrowed = false;
                        escaped_break = self.scan_escape(&mut folded)?;
                        start = self.cursor.pos();
                        if escaped_break {
                            break;
                        }
                    }
                    _ => self.cursor.skip_char(),
                }
            }
            if self.cursor.current() == Some(b'"') {
                break;
            }
            if self.fold_quoted(&mut folded, &mut start, escaped_break)? {
                borrowed = false;
            }
        }
        let last = self.cursor.slice(start, self.cursor.pos());
        self.cursor.skip_ascii(1);
        if borrowed {
            return Ok(Cow::Borrowed(last));
        }
        folded.push_str(last);
        Ok(Cow::Owned(folded))
    }

    /// Fails at the end of the input, or at a document indicator at the start of a line.
    #[inline]
    fn quoted_line_start(&self) -> Result<(), Fault> {
        self.cursor.ensure(4)?;
        if self.cursor.column() == 0 && self.cursor.document_indicator().is_some() {
            return Err(self.error("found unexpected document indicator"));
        }
        if self.cursor.current().is_none() {
            return Err(self.error("found unexpected end of stream"));
        }
        Ok(())
    }

    /// Skips blanks and line breaks inside quotes.
    ///
    /// Blanks within a line stay part of the text that begins at `start`; around line breaks they are dropped. Returns
    /// true if the text so far has been moved to `out`.
    fn fold_quoted(
        &mut self,
        out: &mut String,
        start: &mut usize,
        escaped_break: bool,
    ) -> Result<bool, Fault> {
        let mut new_line = escaped_break;
        let mut fold = Fold::default();
        let text_end = self.cursor.pos();
        loop {
            if self.cursor.is_blank() {
                self.cursor.skip_ascii(1);
            } else if let Some(line_break) = self.cursor.take_break()? {
                if new_line && fold.first.is_none() {
                    fold.rest.push_str(line_break.text());
                } else {
                    fold.add(line_break);
                }
                new_line = true;
            } else {
                break;
            }
            self.cursor.ensure(1)?;
        }
        if !new_line {
            return Ok(false);
        }
        out.push_str(self.cursor.slice(*start, text_end));
        fold.finish(out);
        *start = self.cursor.pos();
        Ok(true)
    }

    /// Scans an escape. Returns true for an escaped line break, which adds nothing.
    fn scan_escape(&mut self, out: &mut String) -> Result<bool, Fault> {
        let escape = self.cursor.at(1);
        let digits = match escape {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            _ => 0,
        };
        if digits == 0 {
            let character = match escape {
                b'0' => '\0',
                b'a' => '\x07',
                b'b' => '\x08',
                b't' | b'\t' => '\t',
                b'n' => '\n',
                b'v' => '\x0B',
                b'f' => '\x0C',
                b'r' => '\r',
                b'e' => '\x1B',
                b' ' | b'"' | b'\'' | b'\\' => char::from(escape),
                b'N' => '\u{85}',
                b'_' => '\u{A0}',
                b'L' => '\u{2028}',
                b'P' => '\u{2029}',
                _ => {
                    let start = self.cursor.mark();
                    self.cursor.skip_ascii(1);
                    if self.cursor.is_break() {
                        self.cursor.ensure(2)?;
                        self.cursor.skip_break()?;
                        return Ok(true);
                    }
                    return Err(self.error_at("found unknown escape character", start));
                }
            };
            self.cursor.skip_ascii(2);
            out.push(character);
            return Ok(false);
        }
        self.cursor.skip_ascii(2);
        self.cursor.ensure(digits)?;
        let mut value: u32 = 0;
        for ahead in 0..digits {
            let Some(digit) = char::from(self.cursor.at(ahead)).to_digit(16) else {
                return Err(self.error("did not find expected hexdecimal number"));
            };
            value = (value << 4) | digit;
        }
        let Some(character) = char::from_u32(value) else {
            return Err(self.error("found invalid Unicode character escape code"));
        };
        out.push(character);
        self.cursor.skip_ascii(digits);
        Ok(false)
    }

    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<String, Fault> {
        self.cursor.skip_ascii(1);
        let (keep, mut indent) = self.scan_block_header()?;

        let mut out = String::new();
        let mut last_break: Option<Break> = None;
        let mut empty_lines = String::new();
        let mut last_indented = false;
        self.scan_block_indent(&mut indent, &mut empty_lines)?;
        self.cursor.ensure(1)?;
        while i64::from(self.cursor.column()) == indent && self.cursor.current().is_some() {
            let indented = self.cursor.is_blank();
            let folds = !literal && !last_indented && !indented && last_break == Some(Break::Newline);
            if !folds {
                out.push_str(last_break.map_or("", Break::text));
            } else if empty_lines.is_empty() {
                out.push(' ');
            }
            out.push_str(&empty_lines);
            empty_lines.clear();
            last_indented = indented;

            let start = self.cursor.pos();
            self.cursor.skip_to_break();
            out.push_str(self.cursor.slice(start, self.cursor.pos()));
            self.cursor.ensure(2)?;
            last_break = self.cursor.take_break()?;
            self.scan_block_indent(&mut indent, &mut empty_lines)?;
        }

        if keep != Some(false) {
            out.push_str(last_break.map_or("", Break::text));
        }
        if keep == Some(true) {
            out.push_str(&empty_lines);
        }
        Ok(out)
    }

    /// Scans the chomping and indentation indicators and the rest of the first line.
    ///
    /// Returns whether to keep (`+`) or strip (`-`) final line breaks, and the indentation if given, otherwise 0.
    fn scan_block_header(&mut self) -> Result<(Option<bool>, i64), Fault> {
        self.cursor.ensure(1)?;
        let mut keep = self.scan_chomping();
        self.cursor.ensure(1)?;
        let mut increment = 0;
        let digit = self.cursor.at(0);
        if digit.is_ascii_digit() {
            if digit == b'0' {
                return Err(self.error("found an indentation indicator equal to 0"));
            }
            increment = i64::from(digit - b'0');
            self.cursor.skip_ascii(1);
            self.cursor.ensure(1)?;
            if keep.is_none() {
                keep = self.scan_chomping();
            }
        }
        self.skip_rest_of_line()?;
        let indent = if increment > 0 { self.indent.max(0) + increment } else { 0 };
        Ok((keep, indent))
    }

    fn scan_chomping(&mut self) -> Option<bool> {
        let sign = self.cursor.at(0);
        if !matches!(sign, b'+' | b'-') {
            return None;
        }
        self.cursor.skip_ascii(1);
        Some(sign == b'+')
    }

    /// Skips blanks, a comment and the line break; anything else is an error.
    pub(super) fn skip_rest_of_line(&mut self) -> Result<(), Fault> {
        self.cursor.skip_blanks(true);
        if self.cursor.current() == Some(b'#') {
            self.cursor.skip_to_break();
        }
        self.cursor.ensure(1)?;
        if !self.cursor.is_break_or_end() {
            return Err(self.error("did not find expected comment or line break"));
        }
        self.cursor.skip_break()?;
        Ok(())
    }

    /// Skips the indentation of a block scalar's next line, and empty lines.
    ///
    /// Determines the indentation if it is not known yet: that of the first line with text, or of the longest line
    /// before it.
    fn scan_block_indent(&mut self, indent: &mut i64, empty_lines: &mut String) -> Result<(), Fault> {
        let mut longest = 0;
        loop {
            while (*indent == 0 || i64::from(self.cursor.column()) < *indent) && self.cursor.at(0) == b' ' {
                self.cursor.skip_ascii(1);
            }
            self.cursor.ensure(1)?;
            let column = i64::from(self.cursor.column());
            longest = longest.max(column);
            if (*indent == 0 || column < *indent) && self.cursor.at(0) == b'\t' {
                return Err(self.error("found a tab character where an indentation space is expected"));
            }
            match self.cursor.take_break()? {
                Some(line_break) => empty_lines.push_str(line_break.text()),
                None => break,
            }
        }
        if *indent == 0 {
            *indent = longest.max(self.indent + 1).max(1);
        }
        Ok(())
    }
}
