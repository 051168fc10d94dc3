//! From bytes to text: byte order marks, UTF-16, and the characters that YAML allows.

use std::borrow::Cow;

use crate::Error;

/// goyaml decodes its input in pieces of this many bytes, and finds fault with a piece only when the scanner
/// comes to it.
const PIECE: usize = 512;

const INCOMPLETE: &str = "incomplete UTF-8 octet sequence";

/// Readable text, and the problem that stands behind its end if it was cut short.
pub(crate) struct Input<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) problem: Option<Error>,
}

impl<'a> Input<'a> {
    pub(crate) fn decode(bytes: &'a [u8]) -> Self {
        match bytes {
            [0xFF, 0xFE, rest @ ..] => decode_utf16(rest, u16::from_le_bytes),
            [0xFE, 0xFF, rest @ ..] => decode_utf16(rest, u16::from_be_bytes),
            [0xEF, 0xBB, 0xBF, rest @ ..] => decode_utf8(rest, 3),
            _ => decode_utf8(bytes, 0),
        }
    }
}

/// `skipped` is the length of the byte order mark, which counts towards the first piece.
fn decode_utf8(bytes: &[u8], skipped: usize) -> Input<'_> {
    let (text, utf8_problem) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let at = error.valid_up_to();
            let text = bytes.get(..at).and_then(|valid| std::str::from_utf8(valid).ok()).unwrap_or_default();
            (text, Some((at, utf8_problem(bytes.get(at..).unwrap_or_default()))))
        }
    };
    let fault = match first_refused(text) {
        Some(at) => Some((at, "control characters are not allowed")),
        None => utf8_problem,
    };
    let Some((at, problem)) = fault else {
        return Input { text: Cow::Borrowed(text), problem: None };
    };
    // That a character is incomplete shows only when nothing follows it.
    let end = if problem == INCOMPLETE { at } else { piece_start(text, at, skipped) };
    let readable = text.get(..end).unwrap_or_default();
    Input { text: Cow::Borrowed(readable), problem: Some(Error::Encoding { problem }) }
}

/// The start of the piece that byte `at` falls into. A character that a piece would cut moves to the next one.
fn piece_start(text: &str, at: usize, skipped: usize) -> usize {
    let mut start = 0;
    let mut end = PIECE.saturating_sub(skipped);
    while end <= at {
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        start = end;
        end += PIECE;
    }
    start
}

/// What is wrong with the sequence that `bytes` begins with.
fn utf8_problem(bytes: &[u8]) -> &'static str {
    let Some(&lead) = bytes.first() else {
        return INCOMPLETE;
    };
    let width = match lead {
        0x00..=0x7F => 1,
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    let Some(sequence) = bytes.get(..width) else {
        return INCOMPLETE;
    };
    let mut value = u32::from(lead) & (0x7F >> width);
    for &octet in sequence.iter().skip(1) {
        if octet & 0xC0 != 0x80 {
            return "invalid trailing UTF-8 octet";
        }
        value = (value << 6) | u32::from(octet & 0x3F);
    }
    let shortest = match value {
        0..=0x7F => 1,
        0x80..=0x7FF => 2,
        0x800..=0xFFFF => 3,
        _ => 4,
    };
    if shortest == width { "invalid Unicode character" } else { "invalid length of a UTF-8 sequence" }
}

/// Where the first character stands that YAML refuses.
fn first_refused(text: &str) -> Option<usize> {
    // Most texts have no suspect byte at all, and in this form the compiler looks at many of them at a time. The two large
    // ones begin the few refused characters that are not ASCII.
    let suspect = |byte: u8| {
        ((byte < 0x20) & (byte != b'\t') & (byte != b'\n') & (byte != b'\r'))
            | (byte == 0x7F)
            | (byte == 0xC2)
            | (byte == 0xEF)
    };
    let has_suspect = |chunk: &[u8]| chunk.iter().fold(false, |found, &byte| found | suspect(byte));
    if !text.as_bytes().chunks(64).any(has_suspect) {
        return None;
    }
    text.char_indices().find(|&(_, character)| !is_allowed(character)).map(|(at, _)| at)
}

fn is_allowed(character: char) -> bool {
    matches!(character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// UTF-16 is rare enough that all of it is decoded first; only the piece that a problem falls into is dropped.
fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Input<'static> {
    let unit_at = |at: usize| Some(unit([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let mut text = String::with_capacity(bytes.len());
    let mut piece_text = 0;
    let mut piece_end = PIECE - 2;
    let mut at = 0;
    let problem = loop {
        if at >= piece_end {
            piece_text = text.len();
            piece_end = at + PIECE;
        }
        if at >= bytes.len() {
            break None;
        }
        let Some(first) = unit_at(at) else {
            break Some("incomplete UTF-16 character");
        };
        let (value, width) = match first {
            0xDC00..=0xDFFF => break Some("unexpected low surrogate area"),
            0xD800..=0xDBFF => match unit_at(at + 2) {
                None => break Some("incomplete UTF-16 surrogate pair"),
                Some(second @ 0xDC00..=0xDFFF) => {
                    (0x10000 + ((u32::from(first) & 0x3FF) << 10) + (u32::from(second) & 0x3FF), 4)
                }
                Some(_) => break Some("expected low surrogate area"),
            },
            _ => (u32::from(first), 2),
        };
        match char::from_u32(value) {
            Some(character) if is_allowed(character) => text.push(character),
            _ => break Some("control characters are not allowed"),
        }
        at += width;
    };
    // That a character is incomplete shows only when nothing follows it.
    if problem.is_some_and(|problem| !problem.starts_with("incomplete")) {
        text.truncate(piece_text);
    }
    Input { text: Cow::Owned(text), problem: problem.map(|problem| Error::Encoding { problem }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(bytes: &[u8]) -> Option<String> {
        Input::decode(bytes).problem.map(|error| error.to_string())
    }

    #[test]
    fn marks_are_dropped_and_utf16_is_decoded() {
        assert_eq!(Input::decode(b"\xEF\xBB\xBFa: 1").text, "a: 1");
        assert_eq!(Input::decode(b"\xFF\xFEa\0\x3D\xD8\x00\xDE").text, "a\u{1F600}");
        assert_eq!(Input::decode(b"\xFE\xFF\0a\xD8\x3D\xDE\x00").text, "a\u{1F600}");
    }

    #[test]
    fn bad_bytes_are_named_as_libyaml_names_them() {
        for (bytes, text) in [
            (&b"a\xFF"[..], "yaml: invalid leading UTF-8 octet"),
            (b"a\xE2\x80", "yaml: incomplete UTF-8 octet sequence"),
            (b"a\xE2x\x80", "yaml: invalid trailing UTF-8 octet"),
            (b"a\xC0\x80", "yaml: invalid length of a UTF-8 sequence"),
            (b"a\xED\xA0\x80", "yaml: invalid Unicode character"),
            (b"a\x01", "yaml: control characters are not allowed"),
            (b"a\x7F", "yaml: control characters are not allowed"),
            (b"a\xC2\x80", "yaml: control characters are not allowed"),
            (b"a\xEF\xBF\xBE", "yaml: control characters are not allowed"),
            (b"\xFF\xFEa", "yaml: incomplete UTF-16 character"),
            (b"\xFF\xFE\x00\xDC", "yaml: unexpected low surrogate area"),
            (b"\xFF\xFE\x00\xD8a\0", "yaml: expected low surrogate area"),
            (b"\xFF\xFE\x00\xD8", "yaml: incomplete UTF-16 surrogate pair"),
        ] {
            assert_eq!(problem(bytes).as_deref(), Some(text), "{bytes:?}");
        }
        assert_eq!(problem("\t\r\n\u{85}\u{A0}\u{FFFD}\u{FEFF}\u{10FFFF}".as_bytes()), None);
    }

    #[test]
    fn text_before_the_bad_piece_stays_readable() {
        let mut bytes = vec![b'a'; 600];
        bytes.push(1);
        let input = Input::decode(&bytes);
        assert_eq!(input.text.len(), 512);
        assert!(input.problem.is_some());
    }
}
