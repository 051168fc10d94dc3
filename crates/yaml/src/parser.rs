//! Parser: tokens to events. A state machine with its own stack, so that nesting does not use the call stack.

use std::borrow::Cow;

use crate::{
    Error,
    error::Fault,
    scanner::{Mark, Scanner, TagDirective, TagName, Token, TokenKind},
};

const DEFAULT_TAGS: [(&str, &str); 2] = [("!", "!"), ("!!", "tag:yaml.org,2002:")];

#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventKind<'a>,
    pub(crate) start: Mark,
}

#[derive(Debug)]
pub(crate) enum EventKind<'a> {
    StreamStart,
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(&'a str),
    /// `implicit` leaves the type to the text: for untagged plain scalars, or with the tag `!`.
    Scalar {
        value: Cow<'a, str>,
        implicit: bool,
        properties: Properties<'a>,
    },
    SequenceStart(Properties<'a>),
    SequenceEnd,
    MappingStart(Properties<'a>),
    MappingEnd,
}

/// Anchor and tag, which may precede a node.
#[derive(Debug, Default)]
pub(crate) struct Properties<'a> {
    pub(crate) anchor: Option<&'a str>,
    pub(crate) tag: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    StreamStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceFirstEntry,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingFirstKey,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirstEntry,
    FlowSequenceEntry,
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FlowMappingFirstKey,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

/// Tokens that end a node before it begins, making it empty.
type Ends = fn(&TokenKind<'_>) -> bool;

pub(crate) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: Vec<State>,
    tags: Vec<TagDirective>,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, problem: Option<Error>) -> Self {
        Parser {
            scanner: Scanner::new(text, problem),
            state: State::StreamStart,
            states: Vec::with_capacity(16),
            tags: Vec::new(),
        }
    }

    pub(crate) fn next(&mut self) -> Result<Event<'a>, Fault> {
        match self.state {
            State::StreamStart => self.stream_start(),
            State::DocumentStart => self.document_start(),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(true, false),
            State::BlockSequenceFirstEntry => self.first(Self::block_sequence_entry),
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingFirstKey => self.first(Self::block_mapping_key),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirstEntry => self.first(|parser| parser.flow_sequence_entry(true)),
            State::FlowSequenceEntry => self.flow_sequence_entry(false),
            State::FlowPairKey => self.flow_pair_key(),
            State::FlowPairValue => self.flow_pair_value(),
            State::FlowPairEnd => self.flow_pair_end(),
            State::FlowMappingFirstKey => self.first(|parser| parser.flow_mapping_key(true)),
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(false),
            State::FlowMappingEmptyValue => self.flow_mapping_value(true),
            State::End => Ok(Event { kind: EventKind::StreamEnd, start: Mark::default() }),
        }
    }

    /// Skips the token that opened a collection, then parses its first entry.
    fn first(&mut self, entry: fn(&mut Self) -> Result<Event<'a>, Fault>) -> Result<Event<'a>, Fault> {
        self.scanner.peek()?;
        self.scanner.take();
        entry(self)
    }

    fn peek(&mut self) -> Result<&Token<'a>, Fault> {
        // The parser stops at the end of the stream, so a token is always there.
        match self.scanner.peek()? {
            Some(token) => Ok(token),
            None => Err(syntax_error("did not find expected <stream-start>", Mark::default())),
        }
    }

    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    fn empty_scalar(start: Mark) -> Event<'a> {
        let kind =
            EventKind::Scalar { value: Cow::Borrowed(""), implicit: true, properties: Properties::default() };
        Event { kind, start }
    }

    fn stream_start(&mut self) -> Result<Event<'a>, Fault> {
        let start = self.peek()?.start;
        self.scanner.take();
        self.state = State::DocumentStart;
        Ok(Event { kind: EventKind::StreamStart, start })
    }

    /// Parses the start of the first document; no other is read.
    fn document_start(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.peek()?;
        let start = token.start;
        match token.kind {
            TokenKind::StreamEnd => {
                self.scanner.take();
                self.state = State::End;
                return Ok(Event { kind: EventKind::StreamEnd, start });
            }
            TokenKind::VersionDirective { .. } | TokenKind::TagDirective(_) | TokenKind::DocumentStart => {}
            _ => {
                self.process_directives()?;
                self.states.push(State::DocumentEnd);
                self.state = State::BlockNode;
                return Ok(Event { kind: EventKind::DocumentStart, start });
            }
        }
        self.process_directives()?;
        let token = self.peek()?;
        if token.kind != TokenKind::DocumentStart {
            return Err(syntax_error("did not find expected <document start>", token.start));
        }
        self.scanner.take();
        self.states.push(State::DocumentEnd);
        self.state = State::DocumentContent;
        Ok(Event { kind: EventKind::DocumentStart, start })
    }

    fn document_content(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.peek()?;
        let start = token.start;
        match token.kind {
            TokenKind::VersionDirective { .. }
            | TokenKind::TagDirective(_)
            | TokenKind::DocumentStart
            | TokenKind::DocumentEnd
            | TokenKind::StreamEnd => {
                self.pop_state();
                Ok(Self::empty_scalar(start))
            }
            _ => self.node(true, false),
        }
    }

    /// Parses the end of the document. The next token is peeked, so that an invalid one is an error.
    fn document_end(&mut self) -> Result<Event<'a>, Fault> {
        let start = self.peek()?.start;
        self.state = State::End;
        Ok(Event { kind: EventKind::DocumentEnd, start })
    }

    fn process_directives(&mut self) -> Result<(), Fault> {
        let mut versioned = false;
        loop {
            let token = self.peek()?;
            let start = token.start;
            match token.kind {
                TokenKind::VersionDirective { .. } if versioned => {
                    return Err(syntax_error("found duplicate %YAML directive", start));
                }
                TokenKind::VersionDirective { major: 1, minor: 1 } => versioned = true,
                TokenKind::VersionDirective { .. } => {
                    return Err(syntax_error("found incompatible YAML document", start));
                }
                TokenKind::TagDirective(_) => {}
                _ => break,
            }
            if let Some(Token { kind: TokenKind::TagDirective(directive), .. }) = self.scanner.take() {
                if self.tags.iter().any(|known| known.handle == directive.handle) {
                    return Err(syntax_error("found duplicate %TAG directive", start));
                }
                self.tags.push(*directive);
            }
        }
        for (handle, prefix) in DEFAULT_TAGS {
            if !self.tags.iter().any(|known| known.handle == handle) {
                self.tags.push(TagDirective { handle: handle.to_owned(), prefix: prefix.to_owned() });
            }
        }
        Ok(())
    }

    /// Parses the anchor and the tag before a node, in either order, and returns the position of the first.
    fn properties(&mut self) -> Result<(Properties<'a>, Option<Mark>), Fault> {
        let mut anchor = None;
        let mut tag: Option<(Box<TagName>, Mark)> = None;
        let mut first = None;
        loop {
            let token = self.peek()?;
            let start = token.start;
            match token.kind {
                TokenKind::Anchor(name) if anchor.is_none() => {
                    anchor = Some(name);
                    self.scanner.take();
                }
                TokenKind::Tag(_) if tag.is_none() => {
                    if let Some(Token { kind: TokenKind::Tag(name), .. }) = self.scanner.take() {
                        tag = Some((name, start));
                    }
                }
                _ => break,
            }
            first = first.or(Some(start));
        }
        let tag = match tag {
            Some((name, mark)) => self.resolve_tag(&name, mark)?,
            None => None,
        };
        Ok((Properties { anchor, tag }, first))
    }

    fn resolve_tag(&self, name: &TagName, mark: Mark) -> Result<Option<Box<str>>, Fault> {
        let tag = if name.handle.is_empty() {
            name.suffix.clone()
        } else {
            let prefix =
                self.tags.iter().find(|known| known.handle == name.handle).map(|known| &known.prefix);
            let tag = prefix.map(|prefix| format!("{prefix}{}", name.suffix)).unwrap_or_default();
            if tag.is_empty() {
                return Err(syntax_error("found undefined tag handle", mark));
            }
            tag
        };
        Ok((!tag.is_empty()).then(|| tag.into_boxed_str()))
    }

    fn node(&mut self, block: bool, indentless: bool) -> Result<Event<'a>, Fault> {
        let token = self.peek()?;
        let start = token.start;
        let (properties, first) = match token.kind {
            TokenKind::Alias(name) => {
                self.scanner.take();
                self.pop_state();
                return Ok(Event { kind: EventKind::Alias(name), start });
            }
            TokenKind::Anchor(_) | TokenKind::Tag(_) => self.properties()?,
            _ => (Properties::default(), None),
        };
        let token = self.peek()?;
        let here = token.start;
        let start = first.unwrap_or(here);
        let kind = match token.kind {
            TokenKind::BlockEntry if indentless => {
                self.state = State::IndentlessSequenceEntry;
                EventKind::SequenceStart(properties)
            }
            TokenKind::Scalar { .. } => return Ok(self.scalar(properties, start)),
            TokenKind::FlowSequenceStart => {
                self.state = State::FlowSequenceFirstEntry;
                EventKind::SequenceStart(properties)
            }
            TokenKind::FlowMappingStart => {
                self.state = State::FlowMappingFirstKey;
                EventKind::MappingStart(properties)
            }
            TokenKind::BlockSequenceStart if block => {
                self.state = State::BlockSequenceFirstEntry;
                EventKind::SequenceStart(properties)
            }
            TokenKind::BlockMappingStart if block => {
                self.state = State::BlockMappingFirstKey;
                EventKind::MappingStart(properties)
            }
            _ if properties.anchor.is_some() || properties.tag.is_some() => {
                self.pop_state();
                let implicit = properties.tag.is_none();
                EventKind::Scalar { value: Cow::Borrowed(""), implicit, properties }
            }
            _ => return Err(syntax_error_within("did not find expected node content", here, start)),
        };
        Ok(Event { kind, start })
    }

    fn scalar(&mut self, properties: Properties<'a>, start: Mark) -> Event<'a> {
        self.pop_state();
        let (value, plain) = match self.scanner.take() {
            Some(Token { kind: TokenKind::Scalar { value, plain }, .. }) => (value, plain),
            _ => (Cow::Borrowed(""), true),
        };
        let implicit = properties.tag.as_deref().map_or(plain, |tag| tag == "!");
        Event { kind: EventKind::Scalar { value, implicit, properties }, start }
    }

    /// Skips an indicator and parses the node after it, which is empty if one of `ends` follows.
    fn node_behind(
        &mut self,
        ends: Ends,
        block: bool,
        indentless: bool,
        then: State,
    ) -> Result<Event<'a>, Fault> {
        let mark = self.peek()?.end;
        self.scanner.take();
        if ends(&self.peek()?.kind) {
            self.state = then;
            return Ok(Self::empty_scalar(mark));
        }
        self.states.push(then);
        self.node(block, indentless)
    }

    fn block_sequence_entry(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.peek()?;
        let start = token.start;
        match token.kind {
            TokenKind::BlockEntry => {
                let ends: Ends = |kind| matches!(kind, TokenKind::BlockEntry | TokenKind::BlockEnd);
                self.node_behind(ends, true, false, State::BlockSequenceEntry)
            }
            TokenKind::BlockEnd => {
                self.scanner.take();
                self.pop_state();
                Ok(Event { kind: EventKind::SequenceEnd, start })
            }
            _ => Err(syntax_error("did not find expected '-' indicator", start)),
        }
    }

    /// Parses an entry of a sequence whose dashes are in the column of its key.
    fn indentless_sequence_entry(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.peek()?;
        let start = token.start;
        if token.kind == TokenKind::BlockEntry {
            let ends: Ends = |kind| {
                matches!(
                    kind,
                    TokenKind::BlockEntry | TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd
                )
            };
            return self.node_behind(ends, true, false, State::IndentlessSequenceEntry);
        }
        self.pop_state();
        Ok(Event { kind: EventKind::SequenceEnd, start })
    }

    fn block_mapping_key(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.peek()?;
        let start = token.start;
        match token.kind {
            TokenKind::Key => self.node_behind(ends_pair, true, true, State::BlockMappingValue),
            TokenKind::BlockEnd => {
                self.scanner.take();
                self.pop_state();
                Ok(Event { kind: EventKind::MappingEnd, start })
            }
            _ => Err(syntax_error("did not find expected key", start)),
        }
    }

    fn block_mapping_value(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.peek()?;
        let start = token.start;
        if token.kind == TokenKind::Value {
            return self.node_behind(ends_pair, true, true, State::BlockMappingKey);
        }
        self.state = State::BlockMappingKey;
        Ok(Self::empty_scalar(start))
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Result<Event<'a>, Fault> {
        let mut token = self.peek()?;
        if !first && token.kind != TokenKind::FlowSequenceEnd {
            if token.kind != TokenKind::FlowEntry {
                return Err(syntax_error("did not find expected ',' or ']'", token.start));
            }
            self.scanner.take();
            token = self.peek()?;
        }
        let start = token.start;
        match token.kind {
            TokenKind::FlowSequenceEnd => {
                self.scanner.take();
                self.pop_state();
                Ok(Event { kind: EventKind::SequenceEnd, start })
            }
            TokenKind::Key => {
                self.scanner.take();
                self.state = State::FlowPairKey;
                Ok(Event { kind: EventKind::MappingStart(Properties::default()), start })
            }
            _ => {
                self.states.push(State::FlowSequenceEntry);
                self.node(false, false)
            }
        }
    }

    /// Parses the key of `[key: value]`, a mapping of one pair.
    fn flow_pair_key(&mut self) -> Result<Event<'a>, Fault> {
        let token = self.peek()?;
        let end = token.end;
        if matches!(token.kind, TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd) {
            self.scanner.take();
            self.state = State::FlowPairValue;
            return Ok(Self::empty_scalar(end));
        }
        self.states.push(State::FlowPairValue);
        self.node(false, false)
    }

    fn flow_pair_value(&mut self) -> Result<Event<'a>, Fault> {
        let mut token = self.peek()?;
        let start = token.start;
        if token.kind == TokenKind::Value {
            self.scanner.take();
            token = self.peek()?;
            if !matches!(token.kind, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd) {
                self.states.push(State::FlowPairEnd);
                return self.node(false, false);
            }
        }
        self.state = State::FlowPairEnd;
        Ok(Self::empty_scalar(start))
    }

    fn flow_pair_end(&mut self) -> Result<Event<'a>, Fault> {
        let start = self.peek()?.start;
        self.state = State::FlowSequenceEntry;
        Ok(Event { kind: EventKind::MappingEnd, start })
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<Event<'a>, Fault> {
        let mut token = self.peek()?;
        if !first && token.kind != TokenKind::FlowMappingEnd {
            if token.kind != TokenKind::FlowEntry {
                return Err(syntax_error("did not find expected ',' or '}'", token.start));
            }
            self.scanner.take();
            token = self.peek()?;
        }
        let start = token.start;
        match token.kind {
            TokenKind::FlowMappingEnd => {
                self.scanner.take();
                self.pop_state();
                Ok(Event { kind: EventKind::MappingEnd, start })
            }
            TokenKind::Key => {
                self.scanner.take();
                let token = self.peek()?;
                let start = token.start;
                if matches!(token.kind, TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd) {
                    self.state = State::FlowMappingValue;
                    return Ok(Self::empty_scalar(start));
                }
                self.states.push(State::FlowMappingValue);
                self.node(false, false)
            }
            _ => {
                self.states.push(State::FlowMappingEmptyValue);
                self.node(false, false)
            }
        }
    }

    fn flow_mapping_value(&mut self, empty: bool) -> Result<Event<'a>, Fault> {
        let mut token = self.peek()?;
        if !empty && token.kind == TokenKind::Value {
            self.scanner.take();
            token = self.peek()?;
            if !matches!(token.kind, TokenKind::FlowEntry | TokenKind::FlowMappingEnd) {
                self.states.push(State::FlowMappingKey);
                return self.node(false, false);
            }
        }
        let start = token.start;
        self.state = State::FlowMappingKey;
        Ok(Self::empty_scalar(start))
    }
}

fn ends_pair(kind: &TokenKind<'_>) -> bool {
    matches!(kind, TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd)
}

fn syntax_error(problem: &str, mark: Mark) -> Fault {
    syntax_error_within(problem, mark, Mark::default())
}

/// Builds a syntax error. goyaml's parser counts lines from 0, so the line it reports is the one before.
fn syntax_error_within(problem: &str, mark: Mark, context: Mark) -> Fault {
    let line = if mark.line > 0 { mark.line } else { context.line };
    Box::new(Error::Syntax {
        problem: problem.to_owned(),
        line: (line > 0).then_some(line as usize),
        position: mark.into(),
    })
}
