//! UTF-8 and character classes as in Go.
//!
//! The tables are our own because the crates with general categories follow a newer Unicode than Go.

mod tables;

/// Character that Go decodes an invalid byte to.
pub const RUNE_ERROR: char = '\u{FFFD}';

/// Decodes the first character: the character and its width in bytes; `None` at the end.
///
/// An invalid byte is [`RUNE_ERROR`] of width 1.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    let width = match first {
        0..0x80 => return Some((char::from(first), 1)),
        0xC2..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF5 => 4,
        _ => return Some((RUNE_ERROR, 1)),
    };
    let decoded = bytes.get(..width).and_then(|head| std::str::from_utf8(head).ok()?.chars().next());
    Some(decoded.map_or((RUNE_ERROR, 1), |c| (c, width)))
}

/// Decodes the last character, with its width in bytes, as [`decode`] does the first.
#[must_use]
pub fn decode_last(bytes: &[u8]) -> Option<(char, usize)> {
    (2..=4.min(bytes.len()))
        .find_map(|width| {
            let tail = bytes.get(bytes.len() - width..)?;
            decode(tail).filter(|(_, decoded)| *decoded == width)
        })
        .or_else(|| {
            let last = *bytes.last()?;
            Some((if last < 0x80 { char::from(last) } else { RUNE_ERROR }, 1))
        })
}

/// Returns the characters in order, each with the bytes it was decoded from.
pub fn chars(bytes: &[u8]) -> impl Iterator<Item = (char, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (c, width) = decode(rest)?;
        let (head, tail) = rest.split_at_checked(width)?;
        rest = tail;
        Some((c, head))
    })
}

/// Converts bytes to a string, replacing each byte that is not UTF-8 by a [`RUNE_ERROR`].
#[must_use]
pub fn to_utf8_lossy(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(std::iter::repeat_n(RUNE_ERROR, chunk.invalid().len()));
    }
    out
}

/// Replaces each character, as `strings.Map` does: invalid bytes are mapped as [`RUNE_ERROR`].
pub fn map(bytes: &[u8], mut mapping: impl FnMut(char) -> char) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (c, _) in chars(bytes) {
        push(&mut out, mapping(c));
    }
    out
}

/// Returns the number of characters; each invalid byte counts as one.
#[must_use]
pub fn count(bytes: &[u8]) -> usize {
    if bytes.is_ascii() { bytes.len() } else { chars(bytes).count() }
}

/// Appends a character in UTF-8.
pub fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Go's `unicode.ToLower`: maps to one character, where Rust may return several.
#[must_use]
pub fn to_lower(c: char) -> char {
    match c {
        '\u{130}' => 'i',
        _ => single(c, c.to_lowercase()),
    }
}

/// Go's `unicode.ToUpper`: maps to one character, where Rust may return several.
#[must_use]
pub fn to_upper(c: char) -> char {
    match c {
        // Greek letters with iota subscript: their full upper case is two letters, their simple one is one.
        '\u{1F80}'..='\u{1F87}' | '\u{1F90}'..='\u{1F97}' | '\u{1FA0}'..='\u{1FA7}' => offset(c, 8),
        '\u{1FB3}' | '\u{1FC3}' | '\u{1FF3}' => offset(c, 9),
        _ => single(c, c.to_uppercase()),
    }
}

/// Go's `unicode.ToTitle`.
#[must_use]
pub fn to_title(c: char) -> char {
    match c {
        '\u{1C4}'..='\u{1C6}' => '\u{1C5}',
        '\u{1C7}'..='\u{1C9}' => '\u{1C8}',
        '\u{1CA}'..='\u{1CC}' => '\u{1CB}',
        '\u{1F1}'..='\u{1F3}' => '\u{1F2}',
        '\u{10D0}'..='\u{10FA}' | '\u{10FD}'..='\u{10FF}' => c,
        _ => to_upper(c),
    }
}

fn single(c: char, mut mapped: impl ExactSizeIterator<Item = char>) -> char {
    if mapped.len() == 1 { mapped.next().unwrap_or(c) } else { c }
}

fn offset(c: char, by: u32) -> char {
    char::from_u32(u32::from(c) + by).unwrap_or(c)
}

/// Go's `unicode.IsSpace`.
#[must_use]
pub fn is_space(c: char) -> bool {
    c.is_whitespace()
}

/// Go's `unicode.IsPrint`.
#[must_use]
pub fn is_print(c: char) -> bool {
    if c.is_ascii() { (' '..='~').contains(&c) } else { in_table(tables::PRINT, c) }
}

/// Go's `unicode.IsLetter`.
#[must_use]
pub fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { in_table(tables::LETTER, c) }
}

/// Go's `unicode.IsDigit`.
#[must_use]
pub fn is_digit(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { in_table(tables::DIGIT, c) }
}

fn in_table(table: &[(u32, u32)], c: char) -> bool {
    let c = u32::from(c);
    let after = table.partition_point(|&(first, _)| first <= c);
    after.checked_sub(1).and_then(|at| table.get(at)).is_some_and(|&(_, last)| c <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_byte_is_one_replacement_character() {
        let decoded: Vec<_> = chars(b"a\xE2\x82b\xFF").collect();
        let bad = RUNE_ERROR;
        assert_eq!(decoded, [('a', &b"a"[..]), (bad, b"\xE2"), (bad, b"\x82"), ('b', b"b"), (bad, b"\xFF")]);
        assert_eq!(count(b"a\xE2\x82b\xFF"), 5);
        assert_eq!(to_utf8_lossy(b"a\xE2\x80b\xFF"), "a\u{FFFD}\u{FFFD}b\u{FFFD}");
        assert_eq!(decode_last("aé".as_bytes()), Some(('é', 2)));
        assert_eq!(decode_last(b"a\xA9"), Some((bad, 1)));
        assert_eq!(decode_last(b""), None);
    }

    #[test]
    fn case_maps_one_to_one() {
        assert_eq!(to_upper('ß'), 'ß');
        assert_eq!(to_upper('ᾳ'), 'ᾼ');
        assert_eq!(to_lower('İ'), 'i');
        assert_eq!(to_title('ǆ'), 'ǅ');
        assert_eq!(to_title('ა'), 'ა');
        assert_eq!(map("straße\u{130}".as_bytes(), to_upper), "STRAßE\u{130}".as_bytes());
    }
}
