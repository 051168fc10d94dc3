//! Tokenizer.

use crate::source::{Issue, Source};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An operator or a bracket.
    Symbol(&'static str),
    /// `in`, `true`, `false`, `null`.
    Keyword(&'static str),
    Ident,
    /// A field name in backticks.
    EscapedIdent,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// The source text of the token.
    pub(crate) text: String,
    pub(crate) offset: usize,
}

/// Longer symbols precede their own prefixes.
const SYMBOLS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

pub(crate) fn tokens(source: &Source) -> (Vec<Token>, Vec<Issue>) {
    let mut lexer = Lexer { chars: &source.chars, at: 0 };
    let mut tokens = Vec::new();
    let mut issues = Vec::new();
    loop {
        lexer.skip_blank();
        let start = lexer.at;
        if start >= lexer.chars.len() {
            tokens.push(Token { kind: TokenKind::End, text: "<EOF>".into(), offset: start });
            break;
        }
        match lexer.token() {
            Some(kind) => {
                let text: String = lexer.chars[start..lexer.at].iter().collect();
                let kind = match (kind, text.as_str()) {
                    (TokenKind::Ident, "in") => TokenKind::Keyword("in"),
                    (TokenKind::Ident, "true") => TokenKind::Keyword("true"),
                    (TokenKind::Ident, "false") => TokenKind::Keyword("false"),
                    (TokenKind::Ident, "null") => TokenKind::Keyword("null"),
                    (kind, _) => kind,
                };
                tokens.push(Token { kind, text, offset: start });
            }
            None => {
                let end = lexer.at.max(start + 1).min(lexer.chars.len());
                let text: String = lexer.chars[start..end].iter().collect();
                let text = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
                issues
                    .push(source.error(start, format!("Syntax error: token recognition error at: '{text}'")));
                lexer.at = end;
            }
        }
    }
    (tokens, issues)
}

struct Lexer<'a> {
    chars: &'a [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.peek(i) == Some(c))
    }

    fn skip_blank(&mut self) {
        while let Some(c) = self.peek(0) {
            if matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}') {
                self.at += 1;
            } else if self.starts_with("//") {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn token(&mut self) -> Option<TokenKind> {
        let c = self.peek(0)?;
        if let Some(kind) = self.string() {
            return kind;
        }
        if c.is_ascii_alphabetic() || c == '_' {
            self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            return Some(TokenKind::Ident);
        }
        if c.is_ascii_digit() || (c == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return Some(self.number());
        }
        if c == '`' {
            return self.escaped_ident();
        }
        let symbol = SYMBOLS.iter().find(|s| self.starts_with(s))?;
        self.at += symbol.chars().count();
        Some(TokenKind::Symbol(symbol))
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> usize {
        let start = self.at;
        while self.peek(0).is_some_and(&accept) {
            self.at += 1;
        }
        self.at - start
    }

    fn escaped_ident(&mut self) -> Option<TokenKind> {
        self.at += 1;
        let length =
            self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '));
        if length == 0 || self.peek(0) != Some('`') {
            return None;
        }
        self.at += 1;
        Some(TokenKind::EscapedIdent)
    }

    fn number(&mut self) -> TokenKind {
        if self.starts_with("0x") && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit()) {
            self.at += 2;
            self.take_while(|c| c.is_ascii_hexdigit());
            return self.unsigned_suffix();
        }
        self.take_while(|c| c.is_ascii_digit());
        let mut is_float = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            is_float = true;
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        if matches!(self.peek(0), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            if self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit()) {
                is_float = true;
                self.at += 1 + sign;
                self.take_while(|c| c.is_ascii_digit());
            }
        }
        if is_float { TokenKind::Float } else { self.unsigned_suffix() }
    }

    fn unsigned_suffix(&mut self) -> TokenKind {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return TokenKind::Uint;
        }
        TokenKind::Int
    }

    /// Scans a string or bytes literal, if one starts here; `Some(None)` if it is unterminated.
    fn string(&mut self) -> Option<Option<TokenKind>> {
        let mut prefix = 0;
        let is_bytes = matches!(self.peek(prefix), Some('b' | 'B'));
        prefix += usize::from(is_bytes);
        let is_raw = matches!(self.peek(prefix), Some('r' | 'R'));
        prefix += usize::from(is_raw);
        let quote = self.peek(prefix).filter(|c| matches!(c, '"' | '\''))?;
        let is_long = self.peek(prefix + 1) == Some(quote) && self.peek(prefix + 2) == Some(quote);
        let start = self.at;
        self.at += prefix + if is_long { 3 } else { 1 };
        let closed = loop {
            let Some(c) = self.peek(0) else { break false };
            let closes = if is_long {
                c == quote && self.peek(1) == Some(quote) && self.peek(2) == Some(quote)
            } else {
                c == quote
            };
            if closes {
                self.at += if is_long { 3 } else { 1 };
                break true;
            }
            if !is_long && matches!(c, '\n' | '\r') {
                break false;
            }
            if c == '\\' && !is_raw {
                match escape_length(&self.chars[self.at..]) {
                    Some(length) => self.at += length,
                    None => break false,
                }
            } else {
                self.at += 1;
            }
        };
        if !closed {
            if is_long {
                // An unterminated triple quote starts with an empty string.
                self.at = start + prefix + 2;
                return Some(Some(if is_bytes { TokenKind::Bytes } else { TokenKind::String }));
            }
            return Some(None);
        }
        Some(Some(if is_bytes { TokenKind::Bytes } else { TokenKind::String }))
    }
}

/// Returns the length of the escape sequence at the start, in characters.
fn escape_length(chars: &[char]) -> Option<usize> {
    let digits = |from: usize, count: usize, radix: u32| {
        (from..from + count).all(|i| chars.get(i).is_some_and(|c| c.is_digit(radix)))
    };
    match chars.get(1)? {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(2),
        'x' | 'X' => digits(2, 2, 16).then_some(4),
        'u' => digits(2, 4, 16).then_some(6),
        'U' => digits(2, 8, 16).then_some(10),
        '0'..='3' => digits(2, 2, 8).then_some(4),
        _ => None,
    }
}

/// Returns the bytes that a string token denotes.
pub(crate) fn unquote(text: &str, is_bytes: bool) -> Result<Vec<u8>, String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (is_raw, body) = match text.strip_prefix(['r', 'R']) {
        Some(body) => (true, body),
        None => (false, text.as_str()),
    };
    let length =
        if body.len() >= 6 && (body.starts_with("\"\"\"") || body.starts_with("'''")) { 3 } else { 1 };
    let body = body.get(length..body.len().saturating_sub(length)).unwrap_or_default();
    if is_raw || !body.contains('\\') {
        return Ok(body.as_bytes().to_vec());
    }
    let chars: Vec<char> = body.chars().collect();
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let mut push = |c: char| out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        if c != '\\' {
            push(c);
            at += 1;
            continue;
        }
        let length = escape_length(&chars[at..]).ok_or("unable to unescape string")?;
        let number = |from: usize, radix: u32| {
            let digits: String = chars[at + from..at + length].iter().collect();
            u32::from_str_radix(&digits, radix).map_err(|_| "unable to unescape string")
        };
        match chars.get(at + 1).copied().unwrap_or_default() {
            'a' => push('\u{7}'),
            'b' => push('\u{8}'),
            'f' => push('\u{c}'),
            'n' => push('\n'),
            'r' => push('\r'),
            't' => push('\t'),
            'v' => push('\u{b}'),
            kind @ ('x' | 'X' | '0'..='3') => {
                let number = if matches!(kind, 'x' | 'X') { number(2, 16)? } else { number(1, 8)? };
                match u8::try_from(number) {
                    Ok(byte) if is_bytes => out.push(byte),
                    _ => push(char::from_u32(number).ok_or("unable to unescape string")?),
                }
            }
            'u' | 'U' if is_bytes => return Err("unable to unescape string".into()),
            'u' | 'U' => push(char::from_u32(number(2, 16)?).ok_or("invalid unicode code point")?),
            other => push(other),
        }
        at += length;
    }
    Ok(out)
}
