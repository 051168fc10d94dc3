//! Lexer: template text to tokens.

use steersman_gostd::strconv;
use steersman_gostd::unicode;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Invalid input; [`Lexer::error`] has the message.
    Error,
    Bool,
    /// A character that is only valid as the comma of a range; otherwise it appears in error messages.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Kind {
    fn is_keyword(self) -> bool {
        matches!(
            self,
            Self::Block
                | Self::Break
                | Self::Continue
                | Self::Dot
                | Self::Define
                | Self::Else
                | Self::End
                | Self::If
                | Self::Nil
                | Self::Range
                | Self::Template
                | Self::With
        )
    }

    fn of_word(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"block" => Self::Block,
            b"break" => Self::Break,
            b"continue" => Self::Continue,
            b"define" => Self::Define,
            b"else" => Self::Else,
            b"end" => Self::End,
            b"if" => Self::If,
            b"nil" => Self::Nil,
            b"range" => Self::Range,
            b"template" => Self::Template,
            b"true" | b"false" => Self::Bool,
            b"with" => Self::With,
            _ => return None,
        })
    }
}

/// A token: kind, position, source text and line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) pos: usize,
    pub(super) text: &'a [u8],
    pub(super) line: usize,
}

impl Token<'_> {
    /// Formats the token for error messages.
    pub(super) fn describe(&self) -> String {
        match self.kind {
            Kind::Eof => "EOF".into(),
            kind if kind.is_keyword() => format!("<{}>", String::from_utf8_lossy(self.text)),
            _ if self.text.len() > 10 => {
                let end = unicode::chars(self.text).take(10).map(|(_, raw)| raw.len()).sum();
                format!("{}...", strconv::quote(self.text.get(..end).unwrap_or(self.text)))
            }
            _ => strconv::quote(self.text),
        }
    }
}

const LEFT_DELIM: &[u8] = b"{{";
const RIGHT_DELIM: &[u8] = b"}}";
const LEFT_COMMENT: &[u8] = b"/*";
const RIGHT_COMMENT: &[u8] = b"*/";

/// Splits template text into tokens, one at a time.
pub(super) struct Lexer<'a> {
    /// The complete input.
    source: &'a [u8],
    /// The same, or empty after an error.
    input: &'a [u8],
    pos: usize,
    /// Position where the current token begins, and the line.
    start: usize,
    line: usize,
    paren_depth: usize,
    inside_action: bool,
    /// Whether `break` and `continue` are keywords: false if functions have these names.
    pub(super) break_ok: bool,
    pub(super) continue_ok: bool,
    /// Message of the last [`Kind::Error`] token.
    pub(super) error: String,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(input: &'a [u8], break_ok: bool, continue_ok: bool) -> Self {
        Self {
            source: input,
            input,
            pos: 0,
            start: 0,
            line: 1,
            paren_depth: 0,
            inside_action: false,
            break_ok,
            continue_ok,
            error: String::new(),
        }
    }

    /// Returns a range of the input.
    pub(super) fn slice(&self, range: std::ops::Range<usize>) -> &'a [u8] {
        self.source.get(range).unwrap_or_default()
    }

    pub(super) fn next_token(&mut self) -> Token<'a> {
        if self.inside_action { self.inside_action() } else { self.text() }
    }

    fn rest(&self) -> &'a [u8] {
        self.input.get(self.pos..).unwrap_or_default()
    }

    /// Returns the next character and its width; `None` at the end.
    fn peek(&self) -> Option<(char, usize)> {
        unicode::decode(self.rest())
    }

    fn next(&mut self) -> Option<char> {
        let (c, width) = self.peek()?;
        self.pos += width;
        Some(c)
    }

    fn current(&self) -> &'a [u8] {
        self.input.get(self.start..self.pos).unwrap_or_default()
    }

    fn skip(&mut self) {
        self.line += self.current().iter().filter(|&&b| b == b'\n').count();
        self.start = self.pos;
    }

    fn emit(&mut self, kind: Kind) -> Token<'a> {
        let token = Token { kind, pos: self.start, text: self.current(), line: self.line };
        self.skip();
        token
    }

    fn fail(&mut self, message: impl Into<String>) -> Token<'a> {
        self.error = message.into();
        let token = Token { kind: Kind::Error, pos: self.start, text: b"", line: self.line };
        self.input = &[];
        (self.pos, self.start) = (0, 0);
        token
    }

    /// Lexes text up to the next action, skipping comments.
    fn text(&mut self) -> Token<'a> {
        loop {
            let rest = self.rest();
            let Some(before) = find(rest, LEFT_DELIM) else {
                self.pos = self.input.len();
                let kind = if self.pos > self.start { Kind::Text } else { Kind::Eof };
                return self.emit(kind);
            };
            let after = rest.get(before + LEFT_DELIM.len()..).unwrap_or_default();
            let text = rest.get(..before).unwrap_or_default();
            let kept = if has_left_trim(after) { trimmed_len(text) } else { before };
            self.pos += kept;
            if kept > 0 {
                let token = self.emit(Kind::Text);
                self.pos += before - kept;
                self.skip();
                return token;
            }
            self.pos += before;
            self.skip();
            if let Some(token) = self.left_delim() {
                return token;
            }
        }
    }

    /// Lexes the opening of an action; `None` if it was a comment, which is skipped.
    fn left_delim(&mut self) -> Option<Token<'a>> {
        self.pos += LEFT_DELIM.len();
        let marker = if has_left_trim(self.rest()) { 2 } else { 0 };
        if self.rest().get(marker..).unwrap_or_default().starts_with(LEFT_COMMENT) {
            self.pos += marker;
            self.skip();
            return self.comment();
        }
        let token = self.emit(Kind::LeftDelim);
        self.inside_action = true;
        self.pos += marker;
        self.skip();
        self.paren_depth = 0;
        Some(token)
    }

    fn comment(&mut self) -> Option<Token<'a>> {
        self.pos += LEFT_COMMENT.len();
        let Some(len) = find(self.rest(), RIGHT_COMMENT) else { return Some(self.fail("unclosed comment")) };
        self.pos += len + RIGHT_COMMENT.len();
        let Some(trim) = right_delim(self.rest()) else {
            return Some(self.fail("comment ends before closing delimiter"));
        };
        self.close(trim);
        self.skip();
        None
    }

    /// Skips a closing delimiter and the white space that it trims.
    fn close(&mut self, trim: bool) {
        self.pos += RIGHT_DELIM.len() + if trim { 2 } else { 0 };
        if trim {
            let rest = self.rest();
            self.pos += rest.iter().take_while(|b| is_space(**b)).count();
        }
    }

    fn inside_action(&mut self) -> Token<'a> {
        if let Some(trim) = right_delim(self.rest()) {
            return if self.paren_depth == 0 {
                self.right_delim(trim)
            } else {
                self.fail("unclosed left paren")
            };
        }
        let Some(c) = self.next() else { return self.fail("unclosed action") };
        match c {
            ' ' | '\t' | '\r' | '\n' => self.space(),
            '=' => self.emit(Kind::Assign),
            ':' if self.next() == Some('=') => self.emit(Kind::Declare),
            ':' => self.fail("expected :="),
            '|' => self.emit(Kind::Pipe),
            '"' => self.quoted('"', Kind::String, "unterminated quoted string"),
            '\'' => self.quoted('\'', Kind::CharConstant, "unterminated character constant"),
            '`' => match find(self.rest(), b"`") {
                Some(len) => {
                    self.pos += len + 1;
                    self.emit(Kind::RawString)
                }
                None => self.fail("unterminated raw quoted string"),
            },
            '$' => self.field_or_variable(Kind::Variable),
            '.' if self.rest().first().is_some_and(|b| !b.is_ascii_digit()) => {
                self.field_or_variable(Kind::Field)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.pos = self.start;
                self.number()
            }
            '_' => self.identifier(),
            '(' => {
                self.paren_depth += 1;
                self.emit(Kind::LeftParen)
            }
            ')' => match self.paren_depth.checked_sub(1) {
                Some(depth) => {
                    self.paren_depth = depth;
                    self.emit(Kind::RightParen)
                }
                None => self.fail("unexpected right paren"),
            },
            c if is_alphanumeric(c) => self.identifier(),
            ' '..='~' => self.emit(Kind::Char),
            c => {
                let shown = show(c);
                self.fail(format!("unrecognized character in action: {shown}"))
            }
        }
    }

    fn right_delim(&mut self, trim: bool) -> Token<'a> {
        if trim {
            self.pos += 2;
            self.skip();
        }
        self.pos += RIGHT_DELIM.len();
        let token = self.emit(Kind::RightDelim);
        if trim {
            let rest = self.rest();
            self.pos += rest.iter().take_while(|b| is_space(**b)).count();
            self.skip();
        }
        self.inside_action = false;
        token
    }

    /// Lexes a run of spaces, except one that belongs to a trimming closing delimiter.
    fn space(&mut self) -> Token<'a> {
        let rest = self.rest();
        self.pos += rest.iter().take_while(|b| is_space(**b)).count();
        let last = self.pos - 1;
        if self.input.get(last..).is_some_and(|rest| right_delim(rest) == Some(true)) {
            self.pos = last;
            if self.pos == self.start {
                return self.right_delim(true);
            }
        }
        self.emit(Kind::Space)
    }

    fn quoted(&mut self, quote: char, kind: Kind, unterminated: &str) -> Token<'a> {
        loop {
            match self.next() {
                Some('\\') if !matches!(self.peek(), None | Some(('\n', _))) => {
                    self.next();
                }
                None | Some('\n' | '\\') => return self.fail(unterminated),
                Some(c) if c == quote => return self.emit(kind),
                Some(_) => {}
            }
        }
    }

    fn pass_alphanumeric(&mut self) {
        while let Some((c, width)) = self.peek() {
            if !is_alphanumeric(c) {
                break;
            }
            self.pos += width;
        }
    }

    fn bad_character(&mut self) -> Token<'a> {
        let shown = self.peek().map(|(c, _)| show(c)).unwrap_or_default();
        self.fail(format!("bad character {shown}"))
    }

    fn identifier(&mut self) -> Token<'a> {
        self.pass_alphanumeric();
        if !self.at_terminator() {
            return self.bad_character();
        }
        let kind = match Kind::of_word(self.current()) {
            Some(Kind::Break) if !self.break_ok => None,
            Some(Kind::Continue) if !self.continue_ok => None,
            kind => kind,
        };
        self.emit(kind.unwrap_or(Kind::Identifier))
    }

    fn field_or_variable(&mut self, kind: Kind) -> Token<'a> {
        if self.at_terminator() {
            let kind = if kind == Kind::Field { Kind::Dot } else { kind };
            return self.emit(kind);
        }
        self.pass_alphanumeric();
        if self.at_terminator() { self.emit(kind) } else { self.bad_character() }
    }

    /// Whether the next character may follow an identifier: `$x+2` is rejected.
    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some((' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(', _)) => true,
            _ => self.rest().starts_with(RIGHT_DELIM),
        }
    }

    fn number(&mut self) -> Token<'a> {
        let ok = self.scan_number();
        let complex = ok && matches!(self.peek(), Some(('+' | '-', _)));
        // A complex constant such as 1+2i has no spaces and ends in i.
        let ok = ok && (!complex || (self.scan_number() && self.current().ends_with(b"i")));
        if !ok {
            let message = format!("bad number syntax: {}", strconv::quote(self.current()));
            return self.fail(message);
        }
        self.emit(if complex { Kind::Complex } else { Kind::Number })
    }

    fn accept(&mut self, valid: &[u8]) -> bool {
        let found = self.rest().first().is_some_and(|b| valid.contains(b));
        self.pos += usize::from(found);
        found
    }

    fn accept_run(&mut self, valid: impl Fn(u8) -> bool) {
        let rest = self.rest();
        self.pos += rest.iter().take_while(|b| valid(**b)).count();
    }

    /// Scans roughly a number; strconv later rejects what is not one.
    fn scan_number(&mut self) -> bool {
        self.accept(b"+-");
        let mut base = 10;
        if self.accept(b"0") {
            base = match () {
                () if self.accept(b"xX") => 16,
                () if self.accept(b"oO") => 8,
                () if self.accept(b"bB") => 2,
                () => 10,
            };
        }
        let digit = |b: u8| b == b'_' || char::from(b).is_digit(base);
        let decimal = |b: u8| b == b'_' || b.is_ascii_digit();
        self.accept_run(digit);
        if self.accept(b".") {
            self.accept_run(digit);
        }
        if (base == 10 && self.accept(b"eE")) || (base == 16 && self.accept(b"pP")) {
            self.accept(b"+-");
            self.accept_run(decimal);
        }
        self.accept(b"i");
        match self.peek() {
            Some((c, width)) if is_alphanumeric(c) => {
                self.pos += width;
                false
            }
            _ => true,
        }
    }
}

/// Formats a character as `%#U` does.
fn show(c: char) -> String {
    let code = u32::from(c);
    if unicode::is_print(c) { format!("U+{code:04X} '{c}'") } else { format!("U+{code:04X}") }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || unicode::is_letter(c) || unicode::is_digit(c)
}

/// Whether `{{` is followed by a minus and a space.
fn has_left_trim(after: &[u8]) -> bool {
    matches!(after, [b'-', space, ..] if is_space(*space))
}

/// Returns whether a closing delimiter trims; `None` if there is none here.
fn right_delim(rest: &[u8]) -> Option<bool> {
    match rest {
        [b'}', b'}', ..] => Some(false),
        [space, b'-', b'}', b'}', ..] if is_space(*space) => Some(true),
        _ => None,
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, wanted)
}

/// Returns the length without trailing spaces, tabs and line breaks. `trim_ascii_end` would drop form feeds too.
fn trimmed_len(text: &[u8]) -> usize {
    text.iter().rposition(|b| !is_space(*b)).map_or(0, |last| last + 1)
}
