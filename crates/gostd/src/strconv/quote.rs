//! Go string and character literals.

use crate::unicode::{self, RUNE_ERROR};

/// Formats bytes as a double-quoted Go literal, such as `"a\n\xff"`.
pub fn quote(text: impl AsRef<[u8]>) -> String {
    quoted(text.as_ref(), false)
}

/// As [`quote`], with everything outside ASCII escaped.
pub fn quote_to_ascii(text: impl AsRef<[u8]>) -> String {
    quoted(text.as_ref(), true)
}

/// Appends the result of [`quote`], or of [`quote_to_ascii`] if `ascii`.
pub fn append_quote(out: &mut Vec<u8>, text: &[u8], ascii: bool) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text;
    while let Some((c, width)) = unicode::decode(rest) {
        match rest.first() {
            Some(byte) if c == RUNE_ERROR && width == 1 => push_hex(out, "\\x", u32::from(*byte), 2),
            _ => push_escaped(out, c, '"', ascii),
        }
        rest = rest.get(width..).unwrap_or_default();
    }
    out.push(b'"');
}

/// Appends the single-quoted Go literal of a character, escaping everything outside ASCII if `ascii`.
pub fn append_quote_rune(out: &mut Vec<u8>, c: char, ascii: bool) {
    out.push(b'\'');
    push_escaped(out, c, '\'', ascii);
    out.push(b'\'');
}

/// Whether the string can be written verbatim between backquotes on one line.
pub fn can_backquote(text: &[u8]) -> bool {
    unicode::chars(text).all(|(c, raw)| match raw.len() {
        1 => c != RUNE_ERROR && c != '`' && c != '\x7f' && (c >= ' ' || c == '\t'),
        _ => c != '\u{FEFF}',
    })
}

/// Returns the value of a Go literal in `"`, `` ` `` or `'`; `None` if it is not one.
pub fn unquote(literal: &[u8]) -> Option<Vec<u8>> {
    let (&quote, rest) = literal.split_first()?;
    if quote == b'`' {
        let (&last, body) = rest.split_last()?;
        let whole = last == b'`' && !body.contains(&b'`');
        return whole.then(|| body.iter().copied().filter(|&b| b != b'\r').collect());
    }
    if quote != b'"' && quote != b'\'' {
        return None;
    }
    let mut out = Vec::with_capacity(rest.len());
    let mut rest = rest;
    let mut count = 0usize;
    while *rest.first()? != quote {
        if *rest.first()? == b'\n' || (quote == b'\'' && count == 1) {
            return None;
        }
        let (value, multibyte, tail) = unquote_char(rest, quote)?;
        match u8::try_from(value) {
            Ok(byte) if byte < 0x80 || !multibyte => out.push(byte),
            _ => unicode::push(&mut out, char::from_u32(value)?),
        }
        rest = tail;
        count += 1;
    }
    (rest.len() == 1).then_some(out)
}

/// Decodes the first character or escape of a literal's body.
///
/// Returns its value, whether it is a character rather than a byte, and the rest.
pub fn unquote_char(body: &[u8], quote: u8) -> Option<(u32, bool, &[u8])> {
    let (&first, rest) = body.split_first()?;
    if first == quote {
        return None;
    }
    if first >= 0x80 {
        let (c, width) = unicode::decode(body)?;
        return Some((u32::from(c), true, body.get(width..)?));
    }
    if first != b'\\' {
        return Some((u32::from(first), false, rest));
    }
    let (&escape, rest) = rest.split_first()?;
    let simple = |value: u8| Some((u32::from(value), false, rest));
    let hex = |len: usize| -> Option<(u32, &[u8])> {
        let digits = rest.get(..len)?;
        let value = digits.iter().try_fold(0u32, |value, &d| {
            char::from(d).to_digit(16).and_then(|d| value.checked_mul(16)?.checked_add(d))
        })?;
        Some((value, rest.get(len..)?))
    };
    match escape {
        b'a' => simple(0x07),
        b'b' => simple(0x08),
        b'f' => simple(0x0C),
        b'n' => simple(b'\n'),
        b'r' => simple(b'\r'),
        b't' => simple(b'\t'),
        b'v' => simple(0x0B),
        b'\\' => simple(b'\\'),
        b'\'' | b'"' if escape == quote => simple(escape),
        b'x' => hex(2).map(|(value, rest)| (value, false, rest)),
        b'u' | b'U' => {
            let (value, rest) = hex(if escape == b'u' { 4 } else { 8 })?;
            char::from_u32(value).map(|_| (value, true, rest))
        }
        b'0'..=b'7' => {
            let value = rest.get(..2)?.iter().try_fold(u32::from(escape - b'0'), |value, &d| {
                char::from(d).to_digit(8).map(|d| value * 8 + d)
            })?;
            (value <= 255).then_some((value, false, rest.get(2..)?))
        }
        _ => None,
    }
}

fn quoted(text: &[u8], ascii: bool) -> String {
    let mut out = Vec::new();
    append_quote(&mut out, text, ascii);
    String::from_utf8_lossy(&out).into_owned()
}

fn push_escaped(out: &mut Vec<u8>, c: char, quote: char, ascii: bool) {
    if c == quote || c == '\\' {
        out.push(b'\\');
        return unicode::push(out, c);
    }
    if (c.is_ascii() || !ascii) && unicode::is_print(c) {
        return unicode::push(out, c);
    }
    let short = match c {
        '\x07' => b'a',
        '\x08' => b'b',
        '\x0C' => b'f',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\x0B' => b'v',
        _ => {
            return match u32::from(c) {
                code @ (0..0x20 | 0x7f) => push_hex(out, "\\x", code, 2),
                code @ ..0x10000 => push_hex(out, "\\u", code, 4),
                code => push_hex(out, "\\U", code, 8),
            };
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn push_hex(out: &mut Vec<u8>, prefix: &str, code: u32, digits: usize) {
    out.extend_from_slice(format!("{prefix}{code:0digits$x}").as_bytes());
}
