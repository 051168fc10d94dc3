//! Tokens of TOML: keys, strings, numbers, and the blanks between them.

use steersman_gostd::strconv::quote;
use steersman_gotemplate::Str;

use super::decode::strconv_rune;
use crate::functions::unicode;

/// Error message for an invalid document, with its line.
pub(super) struct Failure {
    pub(super) line: usize,
    pub(super) message: String,
}

/// A value that is not a string, array or table, before it is parsed.
pub(super) enum Number<'a> {
    Bool(bool),
    Integer(&'a [u8]),
    Float(&'a [u8]),
    Datetime(&'a [u8]),
}

/// Reads TOML character by character.
pub(super) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// Line of the next character, from 1.
    pub(super) line: usize,
}

impl Default for Scanner<'_> {
    fn default() -> Self {
        Self { text: &[], at: 0, line: 1 }
    }
}

type Scan<T> = Result<T, Failure>;

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, ..Self::default() }
    }

    /// Builds an error at the current line, or at the line before if the text ended with a line break.
    pub(super) fn fail<T>(&self, message: String) -> Scan<T> {
        let ended = self.at >= self.text.len() && self.text.ends_with(b"\n");
        Err(Failure { line: self.line - usize::from(ended && self.line > 1), message })
    }

    /// Builds an error at a character that was peeked but not consumed.
    fn fail_ahead<T>(&self, message: &str) -> Scan<T> {
        Err(Failure { line: self.line, message: message.into() })
    }

    /// Builds an error on the line just left.
    fn fail_previous<T>(&self, message: &str) -> Scan<T> {
        Err(Failure { line: self.line.saturating_sub(1), message: message.into() })
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Scan<Option<char>> {
        let rest = self.rest();
        let Some((c, len)) = unicode::decode(rest) else { return Ok(None) };
        let here = self.line + usize::from(c == '\n');
        let err = |message: String| Err(Failure { line: here, message });
        if c == char::REPLACEMENT_CHARACTER && len == 1 {
            return err(format!("invalid UTF-8 byte: 0x{:02x}", rest.first().copied().unwrap_or_default()));
        }
        let lone_return = c == '\r' && rest.get(1) != Some(&b'\n');
        if lone_return || (c.is_ascii_control() && !matches!(c, '\t' | '\r' | '\n')) {
            return err(format!("TOML files cannot contain control characters: '0x{:02x}'", u32::from(c)));
        }
        Ok(Some(c))
    }

    pub(super) fn next(&mut self) -> Scan<Option<char>> {
        let c = self.peek()?;
        if let Some(c) = c {
            self.at += c.len_utf8();
            self.line += usize::from(c == '\n');
        }
        Ok(c)
    }

    pub(super) fn accept(&mut self, wanted: char) -> Scan<bool> {
        let found = self.peek()? == Some(wanted);
        if found {
            self.next()?;
        }
        Ok(found)
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> Scan<&'a [u8]> {
        let start = self.at;
        while self.peek()?.is_some_and(&accept) {
            self.next()?;
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    /// Skips spaces and tabs, and line breaks too if `lines`.
    pub(super) fn skip_blank(&mut self, lines: bool) -> Scan<()> {
        self.take_while(|c| matches!(c, ' ' | '\t') || (lines && matches!(c, '\n' | '\r')))?;
        Ok(())
    }

    /// Skips blanks, line ends and comments.
    pub(super) fn skip_lines(&mut self) -> Scan<()> {
        loop {
            self.skip_blank(true)?;
            if self.peek()? != Some('#') {
                return Ok(());
            }
            self.comment()?;
        }
    }

    pub(super) fn comment(&mut self) -> Scan<()> {
        self.take_while(|c| !matches!(c, '\n' | '\r'))?;
        Ok(())
    }

    /// Fails if anything but a comment follows on the line.
    pub(super) fn end_of_line(&mut self) -> Scan<()> {
        self.skip_blank(false)?;
        match self.next()? {
            None | Some('\n' | '\r') => Ok(()),
            Some('#') => self.comment(),
            other => {
                let got = strconv_rune(other);
                self.fail(format!(
                    "expected a top-level item to end with a newline, comment, or EOF, but got {got} instead"
                ))
            }
        }
    }

    /// Reads one part of a key.
    fn name(&mut self) -> Scan<Str> {
        match self.peek()? {
            Some(mark @ ('"' | '\'')) => {
                self.next()?;
                self.string(mark).map(Str::from)
            }
            _ => self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).map(Str::from),
        }
    }

    /// Reads the name of a table up to its `]`.
    pub(super) fn table_name(&mut self) -> Scan<Vec<Str>> {
        let mut key = Vec::new();
        loop {
            self.skip_blank(false)?;
            match self.peek()? {
                None | Some(']') => {
                    return self.fail_ahead("unexpected end of table name (table names cannot be empty)");
                }
                Some('.') => {
                    return self.fail_ahead("unexpected table separator (table names cannot be empty)");
                }
                Some(_) => key.push(self.name()?),
            }
            self.skip_blank(false)?;
            match self.next()? {
                Some('.') => {}
                Some(']') => return Ok(key),
                other => {
                    let got = strconv_rune(other);
                    return self
                        .fail(format!("expected '.' or ']' to end table name, but got {got} instead"));
                }
            }
        }
    }

    /// Reads a key up to its `=`, and returns it with the line it began on.
    pub(super) fn key(&mut self) -> Scan<(Vec<Str>, usize)> {
        self.skip_blank(false)?;
        match self.peek()? {
            None | Some('=') => return self.fail_ahead("unexpected '=': key name appears blank"),
            Some('.') => return self.fail_ahead("unexpected '.': keys cannot start with a '.'"),
            Some(_) => {}
        }
        let line = self.line;
        let mut key = vec![self.name()?];
        loop {
            self.skip_blank(false)?;
            match self.next()? {
                Some('.') => {
                    self.skip_blank(false)?;
                    match self.peek()? {
                        None | Some('=') => return self.fail_ahead("unexpected '='"),
                        Some('.') => return self.fail_ahead("unexpected '.'"),
                        Some(_) => key.push(self.name()?),
                    }
                }
                Some('=') => return Ok((key, line)),
                None => return self.fail("unexpected EOF; expected key separator '='".into()),
                Some('\n') => return self.fail_previous(r"expected '.' or '=', but got '\n' instead"),
                other => {
                    let got = strconv_rune(other);
                    return self.fail(format!("expected '.' or '=', but got {got} instead"));
                }
            }
        }
    }

    /// Reads a string of any of the four kinds.
    pub(super) fn string_value(&mut self) -> Scan<Vec<u8>> {
        let Some(mark) = self.next()? else { return self.fail("unexpected EOF; expected value".into()) };
        let triple = [mark as u8; 2];
        if !self.rest().starts_with(&triple) {
            return self.string(mark);
        }
        self.at += 2;
        self.multiline(mark)
    }

    /// Reads the rest of a single-line string.
    fn string(&mut self, mark: char) -> Scan<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            match self.next()? {
                None => {
                    let mark = if mark == '"' { "'\"'" } else { "\"'\"" };
                    return self.fail(format!("unexpected EOF; expected {mark}"));
                }
                Some('\n' | '\r') => return self.fail_previous("strings cannot contain newlines"),
                Some(c) if c == mark => return Ok(out),
                Some('\\') if mark == '"' => self.escape(&mut out)?,
                Some(c) => unicode::push(&mut out, c),
            }
        }
    }

    /// Reads the rest of a multi-line string.
    fn multiline(&mut self, mark: char) -> Scan<Vec<u8>> {
        if self.rest().starts_with(b"\r\n") {
            self.next()?;
        }
        self.accept('\n')?;
        let mut out = Vec::new();
        loop {
            match self.next()? {
                None => {
                    let mark = if mark == '"' { "'\"\"\"'" } else { "\"'''\"" };
                    return self.fail(format!("unexpected EOF; expected {mark}"));
                }
                Some(c) if c == mark => {
                    let marks = 1 + self.rest().iter().take_while(|b| **b == mark as u8).count();
                    if marks < 3 {
                        out.push(mark as u8);
                        continue;
                    }
                    if marks > 5 {
                        let marks = mark.to_string().repeat(6);
                        let shown = if mark == '"' { format!("'{marks}'") } else { format!("\"{marks}\"") };
                        return self.fail(format!("unexpected {shown}"));
                    }
                    // Up to two of the quotes belong to the string.
                    out.extend(std::iter::repeat_n(mark as u8, marks - 3));
                    self.at += marks - 1;
                    return Ok(out);
                }
                Some('\\') if mark == '"' => {
                    // A backslash at the end of a line skips all blanks up to the next text.
                    let blank = self.rest().iter().take_while(|b| b" \t\r\n".contains(b)).count();
                    if self.rest().iter().take(blank).any(|b| *b == b'\n') {
                        self.skip_blank(true)?;
                    } else {
                        self.escape(&mut out)?;
                    }
                }
                Some(c) => unicode::push(&mut out, c),
            }
        }
    }

    /// Reads the escape after a backslash.
    fn escape(&mut self, out: &mut Vec<u8>) -> Scan<()> {
        let start = self.at - 1;
        let c = self.next()?;
        let plain = match c {
            Some('b') => Some(0x08),
            Some('t') => Some(b'\t'),
            Some('n') => Some(b'\n'),
            Some('f') => Some(0x0C),
            Some('r') => Some(b'\r'),
            Some('e') => Some(0x1B),
            Some('"') => Some(b'"'),
            Some('\\') => Some(b'\\'),
            _ => None,
        };
        if let Some(byte) = plain {
            out.push(byte);
            return Ok(());
        }
        let (name, digits) = match c {
            Some(c @ (' ' | '\t')) => return self.fail(format!(r"invalid escape: '\{c}'")),
            Some('x') => ("two", 2),
            Some('u') => ("four", 4),
            Some('U') => ("eight", 8),
            other => {
                let shown = other.map(String::from).unwrap_or_default();
                return self.fail(format!(r"invalid escape in string '\{shown}'"));
            }
        };
        let first_digit = self.at;
        for _ in 0..digits {
            if !self.next()?.is_some_and(|c| c.is_ascii_hexdigit()) {
                let mark = c.unwrap_or('u');
                let read = quote(self.text.get(start..self.at).unwrap_or_default());
                return self.fail(format!(
                    r"expected {name} hexadecimal digits after '\{mark}', but got {read} instead"
                ));
            }
        }
        let hex =
            String::from_utf8_lossy(self.text.get(first_digit..self.at).unwrap_or_default()).into_owned();
        match u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32) {
            Some(c) => {
                unicode::push(out, c);
                Ok(())
            }
            None => self.fail(format!(r"Escaped character '\u{hex}' is not valid UTF-8.")),
        }
    }

    /// Reads a boolean, a number or a time.
    pub(super) fn scalar(&mut self) -> Scan<Number<'a>> {
        let start = self.at;
        let first = self.next()?;
        let so_far = |scanner: &Self| scanner.text.get(start..scanner.at).unwrap_or_default();
        match first {
            Some('0'..='9') => self.number(start, first == Some('0')),
            Some('-' | '+') => self.signed(start),
            Some('.') => self.fail("floats must start with a digit, not '.'".into()),
            Some('i') if self.rest().starts_with(b"nf") => {
                self.at += 2;
                Ok(Number::Float(so_far(self)))
            }
            Some('n') if self.rest().starts_with(b"an") => {
                self.at += 2;
                Ok(Number::Float(so_far(self)))
            }
            Some(c) if unicode::is_letter(c) => {
                // A word that begins like `inf` or `nan` is reported without its first letter, as in Go.
                let half = (c == 'i' && self.rest().starts_with(b"n"))
                    || (c == 'n' && self.rest().starts_with(b"a"));
                self.take_while(unicode::is_letter)?;
                match so_far(self).get(usize::from(half)..).unwrap_or_default() {
                    b"true" => Ok(Number::Bool(true)),
                    b"false" => Ok(Number::Bool(false)),
                    word => self.fail(format!("expected value but found {} instead", quote(word))),
                }
            }
            None => self.fail("unexpected EOF; expected value".into()),
            Some('\n') => self.fail_previous(r"expected value but found '\n' instead"),
            other => {
                let got = strconv_rune(other);
                self.fail(format!("expected value but found {got} instead"))
            }
        }
    }

    /// Reads a number after its sign.
    fn signed(&mut self, start: usize) -> Scan<Number<'a>> {
        let so_far = |scanner: &Self| scanner.text.get(start..scanner.at).unwrap_or_default();
        let shown = |scanner: &Self| String::from_utf8_lossy(so_far(scanner)).into_owned();
        match self.next()? {
            Some(c @ ('i' | 'n')) => {
                let (second, third) = if c == 'i' { ('n', 'f') } else { ('a', 'n') };
                if self.accept(second)? && self.accept(third)? {
                    return Ok(Number::Float(so_far(self)));
                }
                let shown = shown(self);
                self.fail(format!("invalid float: '{shown}'"))
            }
            Some('0') if matches!(self.peek()?, Some('b' | 'o' | 'x')) => {
                let (shown, base) = (shown(self), self.peek()?.unwrap_or('x'));
                self.fail(format!("cannot use sign with non-decimal numbers: '{shown}{base}'"))
            }
            Some('.') => self.fail("floats must start with a digit, not '.'".into()),
            Some('0'..='9') => self.decimal(start),
            other => {
                let got = strconv_rune(other);
                self.fail(format!("expected a digit but got {got}"))
            }
        }
    }

    /// Reads a decimal number after its first digit, where no time is possible.
    fn decimal(&mut self, start: usize) -> Scan<Number<'a>> {
        self.take_while(|c| c.is_ascii_digit() || c == '_')?;
        if matches!(self.peek()?, Some('.' | 'e' | 'E')) {
            return self.float(start);
        }
        Ok(Number::Integer(self.text.get(start..self.at).unwrap_or_default()))
    }

    fn float(&mut self, start: usize) -> Scan<Number<'a>> {
        self.take_while(|c| c.is_ascii_digit() || matches!(c, '_' | '.' | '-' | '+' | 'e' | 'E'))?;
        Ok(Number::Float(self.text.get(start..self.at).unwrap_or_default()))
    }

    /// Reads a number or a time after its first digit.
    fn number(&mut self, start: usize, zero: bool) -> Scan<Number<'a>> {
        let base = self.peek()?;
        if zero && let Some(base @ ('b' | 'o' | 'x')) = base {
            self.next()?;
            let (radix, name) = match base {
                'b' => (2, "a binary"),
                'o' => (8, "an octal"),
                _ => (16, "a hexadecimal"),
            };
            let next = self.peek()?;
            if !next.is_some_and(|c| c.is_digit(radix)) {
                let shown =
                    String::from_utf8_lossy(self.text.get(start..self.at).unwrap_or_default()).into_owned();
                return self.fail(format!("not {name} number: '{shown}{}'", next.unwrap_or('\0')));
            }
            self.take_while(|c| c.is_digit(radix) || c == '_')?;
            return Ok(Number::Integer(self.text.get(start..self.at).unwrap_or_default()));
        }
        if !zero || base.is_some_and(|c| c.is_ascii_digit()) {
            self.take_while(|c| c.is_ascii_digit())?;
            if matches!(self.peek()?, Some('-' | ':')) {
                let accept = |c: char| c.is_ascii_digit() || "-:Tt .Zz+".contains(c);
                self.take_while(accept)?;
                return Ok(Number::Datetime(self.text.get(start..self.at).unwrap_or_default().trim_ascii()));
            }
        }
        match self.peek()? {
            Some('_') => self.decimal(start),
            Some('.' | 'e' | 'E') => self.float(start),
            _ => Ok(Number::Integer(self.text.get(start..self.at).unwrap_or_default())),
        }
    }
}
