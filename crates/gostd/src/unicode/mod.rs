//! UTF-8 and character classes as Go sees them.
//!
//! The tables are our own because every crate that offers general categories follows a newer Unicode than Go does.

mod tables;

/// What Go decodes bytes that are not UTF-8 to.
pub const RUNE_ERROR: char = '\u{FFFD}';

/// The first character and its width in bytes. An invalid byte gives [`RUNE_ERROR`] and 1; nothing gives width 0.
pub fn decode(bytes: &[u8]) -> (char, usize) {
    let Some(&first) = bytes.first() else { return (RUNE_ERROR, 0) };
    let width = match first {
        0..0x80 => return (char::from(first), 1),
        0xC2..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF5 => 4,
        _ => return (RUNE_ERROR, 1),
    };
    bytes
        .get(..width)
        .and_then(|head| std::str::from_utf8(head).ok())
        .and_then(|text| text.chars().next())
        .map_or((RUNE_ERROR, 1), |c| (c, width))
}

/// The characters with their width in bytes, in order.
pub fn chars(bytes: &[u8]) -> impl Iterator<Item = (char, usize)> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (c, width) = decode(rest);
        rest = rest.get(width..)?;
        (width > 0).then_some((c, width))
    })
}

/// How many characters there are, each invalid byte being one.
pub fn count(bytes: &[u8]) -> usize {
    if bytes.is_ascii() { bytes.len() } else { chars(bytes).count() }
}

/// Appends a character.
pub fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Go's `unicode.IsPrint`.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() { (' '..='~').contains(&c) } else { in_table(tables::PRINT, c) }
}

/// Go's `unicode.IsLetter`.
pub fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { in_table(tables::LETTER, c) }
}

/// Go's `unicode.IsDigit`.
pub fn is_digit(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { in_table(tables::DIGIT, c) }
}

fn in_table(table: &[(u32, u32)], c: char) -> bool {
    let c = u32::from(c);
    let after = table.partition_point(|&(first, _)| first <= c);
    after.checked_sub(1).and_then(|at| table.get(at)).is_some_and(|&(_, last)| c <= last)
}
