//! Characters as Go's `unicode` and `unicode/utf8` packages see them.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// The first character of `bytes` and its length; an invalid byte is U+FFFD of length 1. `None` at the end.
pub(super) fn decode(bytes: &[u8]) -> Option<(char, usize)> {
    let first = *bytes.first()?;
    let len = match first {
        0..0x80 => return Some((char::from(first), 1)),
        0xC2..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0..0xF5 => 4,
        _ => return Some((char::REPLACEMENT_CHARACTER, 1)),
    };
    let decoded = bytes.get(..len).and_then(|bytes| std::str::from_utf8(bytes).ok()?.chars().next());
    Some(decoded.map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, len)))
}

/// The last character of `bytes` and its length, as [`decode`] gives the first.
pub(super) fn decode_last(bytes: &[u8]) -> Option<(char, usize)> {
    (2..=4.min(bytes.len()))
        .find_map(|len| {
            let tail = bytes.get(bytes.len() - len..)?;
            decode(tail).filter(|(_, n)| *n == len)
        })
        .or_else(|| {
            let last = *bytes.last()?;
            Some((if last < 0x80 { char::from(last) } else { char::REPLACEMENT_CHARACTER }, 1))
        })
}

/// The characters of `bytes`, each with the bytes it was made of.
pub(super) fn chars(bytes: &[u8]) -> impl Iterator<Item = (char, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (c, len) = decode(rest)?;
        let (head, tail) = rest.split_at_checked(len)?;
        rest = tail;
        Some((c, head))
    })
}

/// Appends a character as UTF-8.
pub(super) fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Replaces each character, as `strings.Map` does: invalid bytes become U+FFFD.
pub(super) fn map(bytes: &[u8], mut f: impl FnMut(char) -> char) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for (c, _) in chars(bytes) {
        push(&mut out, f(c));
    }
    out
}

/// Go's one-to-one lower case.
pub(super) fn to_lower(c: char) -> char {
    match c {
        '\u{130}' => 'i',
        _ => single(c, c.to_lowercase()),
    }
}

/// Go's one-to-one upper case.
pub(super) fn to_upper(c: char) -> char {
    match c {
        // Greek letters with iota subscript: their full upper case is two letters, their simple one is one.
        '\u{1F80}'..='\u{1F87}' | '\u{1F90}'..='\u{1F97}' | '\u{1FA0}'..='\u{1FA7}' => offset(c, 8),
        '\u{1FB3}' | '\u{1FC3}' | '\u{1FF3}' => offset(c, 9),
        _ => single(c, c.to_uppercase()),
    }
}

/// Go's one-to-one title case.
pub(super) fn to_title(c: char) -> char {
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

/// A general category as sorted ranges, taken from the tables that regular expressions use anyway.
struct Category(Vec<(char, char)>);

impl Category {
    fn new(pattern: &str) -> Self {
        let hir = regex_syntax::parse(pattern).ok().map(regex_syntax::hir::Hir::into_kind);
        match hir {
            Some(HirKind::Class(Class::Unicode(class))) => {
                Self(class.ranges().iter().map(|range| (range.start(), range.end())).collect())
            }
            _ => Self(Vec::new()),
        }
    }

    fn contains(&self, c: char) -> bool {
        self.0
            .binary_search_by(|(start, end)| {
                if *end < c {
                    std::cmp::Ordering::Less
                } else if *start > c {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok()
    }
}

macro_rules! category {
    ($($(#[$doc:meta])* $name:ident: $pattern:literal, $ascii:expr;)*) => {
        $($(#[$doc])*
        pub(super) fn $name(c: char) -> bool {
            static CATEGORY: LazyLock<Category> = LazyLock::new(|| Category::new($pattern));
            if c.is_ascii() { $ascii(c) } else { CATEGORY.contains(c) }
        })*
    };
}

category! {
    /// Category L.
    is_letter: r"\p{L}", |c: char| c.is_ascii_alphabetic();
    /// Category Lu: Rust's `is_uppercase` also takes circled letters and numerals.
    is_upper: r"\p{Lu}", |c: char| c.is_ascii_uppercase();
    /// Category Ll.
    is_lower: r"\p{Ll}", |c: char| c.is_ascii_lowercase();
    /// Category Lt.
    is_title: r"\p{Lt}", |_| false;
    /// Category Nd.
    is_digit: r"\p{Nd}", |c: char| c.is_ascii_digit();
    /// Category N.
    is_number: r"\p{N}", |c: char| c.is_ascii_digit();
    /// Category P.
    is_punct: r"\p{P}", |c: char| c.is_ascii_punctuation() && !matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bytes_are_one_replacement_character_each() {
        let decoded: Vec<_> = chars(b"a\xE2\x82b\xFF").collect();
        let bad = char::REPLACEMENT_CHARACTER;
        assert_eq!(decoded, [('a', &b"a"[..]), (bad, b"\xE2"), (bad, b"\x82"), ('b', b"b"), (bad, b"\xFF")]);
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
        assert!(is_upper('Å') && !is_upper('Ⓐ') && is_title('ǅ'));
        assert!(is_punct('-') && !is_punct('+') && is_punct('—'));
    }
}
