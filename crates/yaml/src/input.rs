//! Decoding the input: byte order marks, UTF-16, and the characters that YAML allows.

use std::borrow::Cow;

use crate::Error;

/// Size in bytes of the pieces that goyaml decodes its input in.
///
/// It reports an error in a piece only when the scanner reaches it.
const PIECE: usize = 512;

const INCOMPLETE: &str = "incomplete UTF-8 octet sequence";

/// Decoded text, and the error that follows it if it was cut short.
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

/// Decodes UTF-8. `skipped` is the length of the byte order mark, which counts towards the first piece.
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
    // An incomplete character is detected only at the end of the input.
    let end = if problem == INCOMPLETE { at } else { piece_start(text, at, skipped) };
    let readable = text.get(..end).unwrap_or_default();
    Input { text: Cow::Borrowed(readable), problem: Some(Error::Encoding { problem }) }
}

/// Returns the start of the piece that contains byte `at`. A character that would be split moves to the next piece.
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

/// Returns the error for the invalid sequence at the start of `bytes`.
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

/// Returns the position of the first character that YAML does not allow.
fn first_refused(text: &str) -> Option<usize> {
    // Most inputs have no suspect byte, and this form lets the compiler check many bytes at a time. 0xC2 and 0xEF begin
    // the few disallowed characters that are not ASCII.
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

/// Decodes UTF-16. As it is rare, all of it is decoded first, and only the piece that contains an error is dropped.
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
    // An incomplete character is detected only at the end of the input.
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
            (b"a\xE0\x9F\xBF", "yaml: invalid length of a UTF-8 sequence"),
            (b"a\xF0\x80\x80\x80", "yaml: invalid length of a UTF-8 sequence"),
            (b"a\xF0\x80\x82\x80", "yaml: invalid length of a UTF-8 sequence"),
            (b"a\xF0\x80\x9F\xBF", "yaml: invalid length of a UTF-8 sequence"),
            (b"a\xF0\x80\xA0\x80", "yaml: invalid length of a UTF-8 sequence"),
            (b"a\xF0\x8F\xBF\xBF", "yaml: invalid length of a UTF-8 sequence"),
            (b"a\xED\xA0\x80", "yaml: invalid Unicode character"),
            (b"a\xED\xBF\xBF", "yaml: invalid Unicode character"),
            (b"a\xF4\x90\x80\x80", "yaml: invalid Unicode character"),
            (b"a\xF7\xBF\xBF\xBF", "yaml: invalid Unicode character"),
            (b"a\xF8\x88\x80\x80\x80", "yaml: invalid leading UTF-8 octet"),
            (b"a\x80", "yaml: invalid leading UTF-8 octet"),
            (b"a\xC3", "yaml: incomplete UTF-8 octet sequence"),
            (b"a\xC3x", "yaml: invalid trailing UTF-8 octet"),
            (b"a\xF0\x9F\x98", "yaml: incomplete UTF-8 octet sequence"),
            (b"a\xF0\x9F\x98\xC0", "yaml: invalid trailing UTF-8 octet"),
            (b"a\x01", "yaml: control characters are not allowed"),
            (b"a\x7F", "yaml: control characters are not allowed"),
            (b"a\xC2\x80", "yaml: control characters are not allowed"),
            (b"a\xEF\xBF\xBE", "yaml: control characters are not allowed"),
            (b"\xFF\xFEa", "yaml: incomplete UTF-16 character"),
            (b"\xFF\xFE\x00\xDC", "yaml: unexpected low surrogate area"),
            (b"\xFF\xFE\x00\xD8a\0", "yaml: expected low surrogate area"),
            (b"\xFF\xFE\x00\xD8", "yaml: incomplete UTF-16 surrogate pair"),
            (b"\xFF\xFE\xFF\xDF", "yaml: unexpected low surrogate area"),
            (b"\xFF\xFE\xFF\xDB\xFF\xE0", "yaml: expected low surrogate area"),
            (b"\xFF\xFE\x01\x00", "yaml: control characters are not allowed"),
            (b"\xFE\xFF\x00\x01", "yaml: control characters are not allowed"),
            (b"\xFF\xFE\xFE\xFF", "yaml: control characters are not allowed"),
        ] {
            assert_eq!(problem(bytes).as_deref(), Some(text), "{bytes:?}");
        }
        assert_eq!(problem("\t\r\n\u{85}\u{A0}\u{FFFD}\u{FEFF}\u{10FFFF}".as_bytes()), None);
    }

    #[test]
    fn surrogate_pairs_make_one_character() {
        for character in ['\u{10000}', '\u{103FF}', '\u{10400}', '\u{1F600}', '\u{10FFFF}'] {
            let text = format!("a{character}b");
            let units = || [0xFEFF].into_iter().chain(text.encode_utf16());
            assert_eq!(Input::decode(&units().flat_map(u16::to_le_bytes).collect::<Vec<_>>()).text, text);
            assert_eq!(Input::decode(&units().flat_map(u16::to_be_bytes).collect::<Vec<_>>()).text, text);
        }
    }

    /// Returns how much stays readable if this many characters precede one that is not allowed.
    fn readable(before: &str, encode: fn(&str) -> Vec<u8>) -> usize {
        let bytes = encode(&format!("{before}\u{1}b"));
        let input = Input::decode(&bytes);
        assert!(input.problem.is_some());
        assert!(before.starts_with(&*input.text));
        input.text.len()
    }

    #[test]
    fn text_before_the_bad_piece_stays_readable() {
        let plain = |text: &str| text.as_bytes().to_vec();
        let marked = |text: &str| [b"\xEF\xBB\xBF", text.as_bytes()].concat();
        let letters = |count: usize| "a".repeat(count);
        for (before, expected) in
            [(0, 0), (511, 0), (512, 512), (600, 512), (1023, 512), (1024, 1024), (2000, 1536)]
        {
            assert_eq!(readable(&letters(before), plain), expected, "{before}");
        }
        // The mark counts towards the first piece.
        for (before, expected) in [(508, 0), (509, 509), (1020, 509), (1021, 1021)] {
            assert_eq!(readable(&letters(before), marked), expected, "{before}");
        }
        // A character that would be split begins the next piece.
        let cut = format!("{}é{}", letters(511), letters(600));
        assert_eq!(readable(&cut, plain), 1023);
        let cut = format!("{}\u{1F600}{}", letters(509), letters(100));
        assert_eq!(readable(&cut, plain), 509);
    }

    #[test]
    fn utf_16_before_the_bad_piece_stays_readable() {
        let encode = |text: &str| {
            let units = [0xFEFF].into_iter().chain(text.encode_utf16());
            units.flat_map(u16::to_le_bytes).collect::<Vec<_>>()
        };
        let letters = |count: usize| "a".repeat(count);
        for (before, expected) in
            [(0, 0), (254, 0), (255, 255), (510, 255), (511, 511), (700, 511), (767, 767)]
        {
            assert_eq!(readable(&letters(before), encode), expected, "{before}");
        }
        // A surrogate pair that would be split is read with the piece it begins in.
        let cut = format!("{}\u{1F600}{}", letters(254), letters(10));
        assert_eq!(readable(&cut, encode), 258);
    }

    #[test]
    fn an_incomplete_character_drops_nothing_before_it() {
        let incomplete = |bytes: &[u8]| {
            let input = Input::decode(bytes);
            assert!(input.problem.is_some_and(|error| error.to_string().contains("incomplete")));
            input.text.len()
        };
        assert_eq!(incomplete(&[&[b'a'; 700][..], b"\xE2\x80"].concat()), 700);
        assert_eq!(incomplete(b"\xFF\xFEa\0b"), 1);
        assert_eq!(incomplete(b"\xFF\xFEa\0\x00\xD8"), 1);
    }
}
