//! Scanner: text to tokens.
//!
//! YAML's grammar relies on the scanner: it turns indentation into begin and end tokens, and learns only at a `:` that
//! the preceding scalar was a key.

mod cursor;
mod directive;
mod scalar;

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::{Error, Position, error::Fault};
use cursor::Cursor;

/// goyaml's limit on nested brackets and on nested indentation.
const MAX_LEVELS: usize = 10_000;

/// A key written without `?` must end within this many characters.
const MAX_SIMPLE_KEY: usize = 1024;

/// A position in the text, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl From<Mark> for Position {
    fn from(mark: Mark) -> Self {
        Position { line: mark.line as usize + 1, column: mark.column as usize + 1 }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind<'a>,
    pub(crate) start: Mark,
    pub(crate) end: Mark,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind<'a> {
    StreamStart,
    StreamEnd,
    VersionDirective { major: i8, minor: i8 },
    TagDirective(Box<TagDirective>),
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    Tag(Box<TagName>),
    Scalar { value: Cow<'a, str>, plain: bool },
}

/// `%TAG handle prefix`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TagDirective {
    pub(crate) handle: String,
    pub(crate) prefix: String,
}

/// A tag as written: `handle` is empty for `!<suffix>` and for a lone `!`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TagName {
    pub(crate) handle: String,
    pub(crate) suffix: String,
}

/// Start of a possible key, should a `:` follow.
#[derive(Debug, Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token_number: usize,
    index: usize,
    mark: Mark,
}

pub(crate) struct Scanner<'a> {
    cursor: Cursor<'a>,
    tokens: VecDeque<Token<'a>>,
    /// Number of tokens returned so far; also the number of the queue's head.
    parsed: usize,
    /// Whether the head of the queue is final, so that no key token can be inserted before it.
    ready: bool,
    stream_started: bool,
    flow_level: usize,
    indent: i64,
    indents: Vec<i64>,
    simple_key_allowed: bool,
    /// A possible key for each flow level, and for the block context.
    simple_keys: Vec<SimpleKey>,
    /// Token number and index in `simple_keys`, in increasing order, of the tokens that may still be keys.
    open_keys: VecDeque<(usize, usize)>,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner. `problem` is the error that follows a text that was cut short.
    pub(crate) fn new(text: &'a str, problem: Option<Error>) -> Self {
        Scanner {
            cursor: Cursor::new(text, problem),
            tokens: VecDeque::with_capacity(16),
            parsed: 0,
            ready: false,
            stream_started: false,
            flow_level: 0,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            open_keys: VecDeque::new(),
        }
    }

    /// Returns the next token without consuming it; `None` at the end of the stream.
    pub(crate) fn peek(&mut self) -> Result<Option<&Token<'a>>, Fault> {
        if !self.ready {
            self.fetch_until_ready()?;
        }
        Ok(self.tokens.front())
    }

    /// Consumes the token that [`Scanner::peek`] returned.
    pub(crate) fn take(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.pop_front()?;
        self.ready = false;
        self.parsed += 1;
        Some(token)
    }

    fn fetch_until_ready(&mut self) -> Result<(), Fault> {
        loop {
            if !self.tokens.is_empty() {
                match self.open_key(self.parsed) {
                    Some(place) if self.simple_key_is_valid(place)? => {}
                    _ => break,
                }
            }
            self.fetch()?;
        }
        self.ready = true;
        Ok(())
    }

    fn fetch(&mut self) -> Result<(), Fault> {
        if !self.stream_started {
            self.cursor.ensure(1)?;
            self.stream_started = true;
            self.push(TokenKind::StreamStart, self.cursor.mark());
            return Ok(());
        }
        self.skip_to_token()?;
        self.unroll_indent(i64::from(self.cursor.column()));
        self.cursor.ensure(4)?;

        let cursor = &self.cursor;
        let Some(byte) = cursor.current() else {
            return self.fetch_stream_end();
        };
        let in_flow = self.flow_level > 0;
        if cursor.column() == 0 {
            if byte == b'%' {
                return self.fetch_directive();
            }
            match cursor.document_indicator() {
                Some(b'-') => return self.fetch_document_indicator(TokenKind::DocumentStart),
                Some(_) => return self.fetch_document_indicator(TokenKind::DocumentEnd),
                None => {}
            }
        }
        match byte {
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if cursor.is_blank_or_end(1) => self.fetch_block_entry(),
            b'?' if in_flow || cursor.is_blank_or_end(1) => self.fetch_key(),
            b':' if in_flow || cursor.is_blank_or_end(1) => self.fetch_value(),
            b'*' | b'&' => self.fetch_anchor(byte == b'*'),
            b'!' => self.fetch_tag(),
            b'|' if !in_flow => self.fetch_block_scalar(true),
            b'>' if !in_flow => self.fetch_block_scalar(false),
            b'\'' => self.fetch_quoted_scalar(true),
            b'"' => self.fetch_quoted_scalar(false),
            b' ' | b'\t' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => {
                Err(self.error("found character that cannot start any token"))
            }
            _ => self.fetch_plain_scalar(),
        }
    }

    /// Builds an error at the current position.
    fn error(&self, problem: impl Into<String>) -> Fault {
        self.error_at(problem, self.cursor.mark())
    }

    fn error_at(&self, problem: impl Into<String>, mark: Mark) -> Fault {
        Box::new(Error::Syntax {
            problem: problem.into(),
            line: (mark.line > 0).then_some(mark.line as usize + 1),
            position: mark.into(),
        })
    }

    fn push(&mut self, kind: TokenKind<'a>, start: Mark) {
        self.tokens.push_back(Token { kind, start, end: self.cursor.mark() });
    }

    /// Inserts a token before the one with this number, or at the end if that is no longer queued.
    fn insert(&mut self, number: usize, kind: TokenKind<'a>, mark: Mark) {
        let token = Token { kind, start: mark, end: mark };
        match number.checked_sub(self.parsed) {
            Some(place) if place <= self.tokens.len() => self.tokens.insert(place, token),
            _ => self.tokens.push_back(token),
        }
    }

    fn skip_to_token(&mut self) -> Result<(), Fault> {
        loop {
            let tabs = self.flow_level > 0 || !self.simple_key_allowed;
            self.cursor.skip_blanks(tabs);
            if self.cursor.current() == Some(b'#') {
                self.cursor.skip_to_break();
            }
            self.cursor.ensure(1)?;
            if !self.cursor.skip_break()? {
                return Ok(());
            }
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    // Simple keys.

    fn next_number(&self) -> usize {
        self.parsed + self.tokens.len()
    }

    fn open_key(&mut self, number: usize) -> Option<usize> {
        while let Some(&(front, place)) = self.open_keys.front() {
            if front == number {
                return Some(place);
            }
            if front > number {
                return None;
            }
            self.open_keys.pop_front();
        }
        None
    }

    fn close_key(&mut self, number: usize) {
        if let Ok(at) = self.open_keys.binary_search_by_key(&number, |&(open, _)| open) {
            self.open_keys.remove(at);
        }
    }

    /// Whether the possible key at this level is still valid.
    ///
    /// A key must end on its line and within [`MAX_SIMPLE_KEY`] characters.
    fn simple_key_is_valid(&mut self, place: usize) -> Result<bool, Fault> {
        let (line, index) = (self.cursor.line(), self.cursor.index());
        let Some(key) = self.simple_keys.get_mut(place).filter(|key| key.possible) else {
            return Ok(false);
        };
        if key.mark.line < line || key.index + MAX_SIMPLE_KEY < index {
            if key.required {
                return Err(self.error("could not find expected ':'"));
            }
            key.possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_simple_key(&mut self) -> Result<(), Fault> {
        if let Some(key) = self.begin_simple_key()? {
            self.set_simple_key(key);
        }
        Ok(())
    }

    /// Returns the possible key that begins here, replacing an earlier one.
    fn begin_simple_key(&mut self) -> Result<Option<SimpleKey>, Fault> {
        if !self.simple_key_allowed {
            return Ok(None);
        }
        self.remove_simple_key()?;
        let mark = self.cursor.mark();
        Ok(Some(SimpleKey {
            possible: true,
            required: self.flow_level == 0 && self.indent == i64::from(mark.column),
            token_number: self.next_number(),
            index: self.cursor.index(),
            mark,
        }))
    }

    fn set_simple_key(&mut self, key: SimpleKey) {
        let place = self.simple_keys.len().saturating_sub(1);
        if let Some(last) = self.simple_keys.last_mut() {
            *last = key;
        }
        match self.open_keys.back_mut() {
            Some(open) if open.0 == key.token_number => open.1 = place,
            _ => self.open_keys.push_back((key.token_number, place)),
        }
    }

    fn remove_simple_key(&mut self) -> Result<(), Fault> {
        let Some(key) = self.simple_keys.last_mut().filter(|key| key.possible) else {
            return Ok(());
        };
        if key.required {
            return Err(self.error("could not find expected ':'"));
        }
        key.possible = false;
        let number = key.token_number;
        self.close_key(number);
        Ok(())
    }

    // Indentation.

    /// Opens a block collection if the column is deeper than the current one. `number` is the token to insert it
    /// before.
    fn roll_indent(
        &mut self,
        column: u32,
        number: Option<usize>,
        kind: TokenKind<'a>,
        mark: Mark,
    ) -> Result<(), Fault> {
        let column = i64::from(column);
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_LEVELS {
            return Err(self.error(format!("exceeded max depth of {MAX_LEVELS}")));
        }
        self.insert(number.unwrap_or(self.next_number()), kind, mark);
        Ok(())
    }

    /// Closes block collections down to a column.
    fn unroll_indent(&mut self, column: i64) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(TokenKind::BlockEnd, self.cursor.mark());
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    // One function for each kind of token.

    fn fetch_stream_end(&mut self) -> Result<(), Fault> {
        self.cursor.end_line();
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(TokenKind::StreamEnd, self.cursor.mark());
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), Fault> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark();
        let (kind, end) = self.scan_directive()?;
        self.tokens.push_back(Token { kind, start, end });
        Ok(())
    }

    fn fetch_document_indicator(&mut self, kind: TokenKind<'a>) -> Result<(), Fault> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark();
        self.cursor.skip_ascii(3);
        self.push(kind, start);
        Ok(())
    }

    fn fetch_indicator(&mut self, kind: TokenKind<'a>) {
        let start = self.cursor.mark();
        self.cursor.skip_ascii(1);
        self.push(kind, start);
    }

    fn fetch_flow_start(&mut self, kind: TokenKind<'a>) -> Result<(), Fault> {
        self.save_simple_key()?;
        self.simple_keys.push(SimpleKey { token_number: self.next_number(), ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_LEVELS {
            return Err(self.error(format!("exceeded max depth of {MAX_LEVELS}")));
        }
        self.simple_key_allowed = true;
        self.fetch_indicator(kind);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenKind<'a>) -> Result<(), Fault> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            // An empty collection has the same token number as the key that it may itself be, so that key is dropped
            // here: goyaml does the same, and `[]: x` fails because of it.
            if let Some(key) = self.simple_keys.pop() {
                self.close_key(key.token_number);
            }
        }
        self.simple_key_allowed = false;
        self.fetch_indicator(kind);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Result<(), Fault> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.fetch_indicator(TokenKind::FlowEntry);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Fault> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.error("block sequence entries are not allowed in this context"));
            }
            let mark = self.cursor.mark();
            self.roll_indent(mark.column, None, TokenKind::BlockSequenceStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.fetch_indicator(TokenKind::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Fault> {
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.error("mapping keys are not allowed in this context"));
            }
            let mark = self.cursor.mark();
            self.roll_indent(mark.column, None, TokenKind::BlockMappingStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.fetch_indicator(TokenKind::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Fault> {
        let place = self.simple_keys.len().saturating_sub(1);
        if self.simple_key_is_valid(place)? {
            let key = self.simple_keys.get(place).copied().unwrap_or_default();
            self.insert(key.token_number, TokenKind::Key, key.mark);
            self.roll_indent(
                key.mark.column,
                Some(key.token_number),
                TokenKind::BlockMappingStart,
                key.mark,
            )?;
            if let Some(last) = self.simple_keys.last_mut() {
                last.possible = false;
            }
            self.close_key(key.token_number);
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return Err(self.error("mapping values are not allowed in this context"));
                }
                let mark = self.cursor.mark();
                self.roll_indent(mark.column, None, TokenKind::BlockMappingStart, mark)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.fetch_indicator(TokenKind::Value);
        Ok(())
    }

    fn fetch_anchor(&mut self, alias: bool) -> Result<(), Fault> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark();
        let name = self.scan_anchor()?;
        self.push(if alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, start);
        Ok(())
    }

    fn fetch_tag(&mut self) -> Result<(), Fault> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark();
        let tag = self.scan_tag()?;
        self.push(TokenKind::Tag(Box::new(tag)), start);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, literal: bool) -> Result<(), Fault> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let start = self.cursor.mark();
        let value = Cow::Owned(self.scan_block_scalar(literal)?);
        self.push(TokenKind::Scalar { value, plain: false }, start);
        Ok(())
    }

    fn fetch_quoted_scalar(&mut self, single: bool) -> Result<(), Fault> {
        let key = self.begin_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark();
        let value = if single { self.scan_single_quoted()? } else { self.scan_double_quoted()? };
        self.push_scalar(TokenKind::Scalar { value, plain: false }, start, key)
    }

    fn fetch_plain_scalar(&mut self) -> Result<(), Fault> {
        let key = self.begin_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark();
        let value = self.scan_plain_scalar()?;
        self.push_scalar(TokenKind::Scalar { value, plain: true }, start, key)
    }

    /// Adds a scalar that may be a key. Usually the next character, a `:`, shows at once that it is.
    fn push_scalar(&mut self, kind: TokenKind<'a>, start: Mark, key: Option<SimpleKey>) -> Result<(), Fault> {
        let Some(key) = key else {
            self.push(kind, start);
            return Ok(());
        };
        // In a text that was cut short, scanning the next token may fail, although it may never be requested.
        let is_key = self.cursor.at(0) == b':'
            && !self.cursor.is_cut_short()
            && (self.flow_level > 0 || self.cursor.is_blank_or_end(1))
            && key.mark.line == self.cursor.line()
            && key.index + MAX_SIMPLE_KEY >= self.cursor.index();
        if !is_key {
            self.set_simple_key(key);
            self.push(kind, start);
            return Ok(());
        }
        // The next end of a flow collection looks up the number of the last key in it.
        if let Some(last) = self.simple_keys.last_mut() {
            *last = SimpleKey { possible: false, ..key };
        }
        let end = self.cursor.mark();
        self.roll_indent(start.column, None, TokenKind::BlockMappingStart, start)?;
        self.tokens.push_back(Token { kind: TokenKind::Key, start, end: start });
        self.tokens.push_back(Token { kind, start, end });
        self.simple_key_allowed = false;
        self.fetch_indicator(TokenKind::Value);
        Ok(())
    }
}
