//! Words: title case, camel case, snake case, initials and wrapping.

use steersman_gotemplate::{Budget, CallError, Str};

use super::unicode;

/// `strings.Title`: converts every letter that follows a separator to title case.
pub(super) fn title(text: &[u8]) -> Vec<u8> {
    let mut previous = ' ';
    unicode::map(text, |c| {
        let starts = is_separator(previous);
        previous = c;
        if starts { unicode::to_title(c) } else { c }
    })
}

fn is_separator(c: char) -> bool {
    if c.is_ascii() {
        !(c.is_ascii_alphanumeric() || c == '_')
    } else {
        !unicode::is_letter(c) && !unicode::is_digit(c) && c.is_whitespace()
    }
}

/// Converts the first letter of every word to lower case.
pub(super) fn untitle(text: &[u8]) -> Vec<u8> {
    let mut starts = true;
    unicode::map(text, |c| {
        if c.is_whitespace() {
            starts = true;
            c
        } else if std::mem::take(&mut starts) {
            unicode::to_lower(c)
        } else {
            c
        }
    })
}

/// Swaps the case of letters; lower case becomes title case at the start of a word.
pub(super) fn swap_case(text: &[u8]) -> Vec<u8> {
    let mut starts = true;
    unicode::map(text, |c| {
        if unicode::is_upper(c) || unicode::is_title(c) {
            starts = false;
            unicode::to_lower(c)
        } else if unicode::is_lower(c) {
            if std::mem::take(&mut starts) { unicode::to_title(c) } else { unicode::to_upper(c) }
        } else {
            starts = c.is_whitespace();
            c
        }
    })
}

/// Returns the first byte of each word, read as a Latin-1 character as goutils does.
pub(super) fn initials(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut starts = true;
    for c in text.iter().copied().map(char::from) {
        if c.is_whitespace() {
            starts = true;
        } else if std::mem::take(&mut starts) {
            unicode::push(&mut out, c);
        }
    }
    out
}

/// Removes white space. If there is any, every byte is read as a Latin-1 character, as goutils does.
pub(super) fn delete_white_space(text: &Str) -> Vec<u8> {
    let is_space = |byte: &u8| char::from(*byte).is_whitespace();
    if !text.iter().any(is_space) {
        return text.to_vec();
    }
    let mut out = Vec::with_capacity(text.len());
    for byte in text.iter().filter(|byte| !is_space(byte)) {
        unicode::push(&mut out, char::from(*byte));
    }
    out
}

/// Breaks `text` at spaces into lines of at most `width` bytes; `long_words` allows breaking words too.
pub(super) fn wrap(
    budget: &Budget,
    text: &[u8],
    width: i64,
    newline: &[u8],
    long_words: bool,
) -> Result<Vec<u8>, CallError> {
    let newline = if newline.is_empty() { b"\n" } else { newline };
    let width = usize::try_from(width).unwrap_or(0).max(1);
    let most = (text.len() / width).saturating_mul(newline.len()).saturating_add(text.len());
    budget.ensure_memory(most)?;
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(line) = rest.get(..=width) {
        if line.starts_with(b" ") {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        let space = memchr::memrchr(b' ', line);
        let (end, skip) = match space {
            Some(at) => (at, 1),
            None if long_words => (width, 0),
            None => match rest.get(width..).and_then(|tail| memchr::memchr(b' ', tail)) {
                Some(at) => (width + at, 1),
                None => break,
            },
        };
        out.extend_from_slice(rest.get(..end).unwrap_or_default());
        out.extend_from_slice(newline);
        rest = rest.get(end + skip..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    Ok(out)
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// Joins words separated by spaces, hyphens and underscores as `SomeWords`.
///
/// Leading and repeated separators are kept.
pub(super) fn to_pascal_case(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut chars = unicode::chars(text).map(|(c, _)| c);
    let mut in_capitals = false;
    // The previous character, held back until it is known whether it is dropped.
    let mut held = None;
    for c in chars.by_ref() {
        if is_connector(c) {
            unicode::push(&mut out, c);
            held = Some(c);
        } else {
            in_capitals = unicode::is_upper(c);
            held = Some(unicode::to_upper(c));
            break;
        }
    }
    let Some(mut previous) = held else { return out };
    let mut rest = chars.peekable();
    if rest.peek().is_none() {
        // Written a second time if the string has only connectors, as xstrings does.
        unicode::push(&mut out, previous);
        return out;
    }
    for mut c in rest {
        if is_connector(previous) {
            if is_connector(c) {
                unicode::push(&mut out, previous);
                previous = c;
                continue;
            }
            in_capitals = unicode::is_upper(c);
            c = unicode::to_upper(c);
        } else {
            if in_capitals {
                if unicode::is_upper(c) {
                    c = unicode::to_lower(c);
                } else {
                    in_capitals = false;
                }
            }
            unicode::push(&mut out, previous);
        }
        previous = c;
    }
    unicode::push(&mut out, previous);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Invalid,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punct,
    Other,
}

/// Splits `SomeWords` into `some_words`, with `connector` between.
///
/// Digits join the word before, or begin a new one, depending on what follows them.
pub(super) fn to_lower_case(text: &[u8], connector: char) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    let joins = |word: Word| word == Word::Connector || word == Word::Punct;
    let (mut word, mut part, mut rest) = next_word(text);
    while !rest.is_empty() {
        if word != Word::Connector {
            push_lower(&mut out, word, part, connector);
        }
        let (previous, last) = (word, part);
        (word, part, rest) = next_word(rest);
        match previous {
            Word::Number => {
                while word == Word::Alphabet || word == Word::Number {
                    push_lower(&mut out, word, part, connector);
                    (word, part, rest) = next_word(rest);
                }
                if word != Word::Invalid && !joins(word) {
                    unicode::push(&mut out, connector);
                }
            }
            Word::Connector => push_lower(&mut out, previous, last, connector),
            Word::Punct => {}
            _ if word != Word::Number => {
                if !joins(word) {
                    unicode::push(&mut out, connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = part;
                (word, part, rest) = next_word(rest);
                if word == Word::Alphabet {
                    // As in "HTTP2xx": the digits belong to what follows.
                    unicode::push(&mut out, connector);
                    push_lower(&mut out, Word::Number, number, connector);
                    while word == Word::Alphabet || word == Word::Number {
                        push_lower(&mut out, word, part, connector);
                        (word, part, rest) = next_word(rest);
                    }
                    if word != Word::Invalid && !joins(word) {
                        unicode::push(&mut out, connector);
                    }
                } else {
                    // As in "Bld4Floor": the digits belong to what came before.
                    push_lower(&mut out, Word::Number, number, connector);
                    if !joins(word) {
                        unicode::push(&mut out, connector);
                    }
                }
            }
        }
    }
    push_lower(&mut out, word, part, connector);
    out
}

fn push_lower(out: &mut Vec<u8>, word: Word, part: &[u8], connector: char) {
    if word != Word::Upper && word != Word::Connector {
        out.extend_from_slice(part);
        return;
    }
    for (c, _) in unicode::chars(part) {
        let c = if is_connector(c) {
            connector
        } else if unicode::is_upper(c) {
            unicode::to_lower(c)
        } else {
            c
        };
        unicode::push(out, c);
    }
}

/// Whether a letter forms words with its neighbours; xstrings excludes Chinese characters.
fn is_alphabet(c: char) -> bool {
    unicode::is_letter(c)
        && !matches!(c, '\u{4E00}'..='\u{9FCC}' | '\u{3400}'..='\u{4D85}' | '\u{20000}'..='\u{2B81D}')
}

/// Returns the next word's kind, the word and the rest.
fn next_word(text: &[u8]) -> (Word, &[u8], &[u8]) {
    let (first, size) = next_valid(text, char::REPLACEMENT_CHARACTER);
    let take_while = |from: usize, start: char, accept: &dyn Fn(char) -> bool| {
        let (mut offset, mut c, mut last_size) = (from, start, 0);
        while let Some(tail) = text.get(offset..).filter(|tail| !tail.is_empty()) {
            let (next, size) = next_valid(tail, c);
            c = next;
            if !accept(c) {
                break;
            }
            last_size = size;
            offset += size;
        }
        (offset, c, last_size)
    };
    let (word, end) = if first == char::REPLACEMENT_CHARACTER {
        (Word::Invalid, size)
    } else if is_connector(first) {
        (Word::Connector, take_while(size, first, &is_connector).0)
    } else if unicode::is_punct(first) {
        (Word::Punct, take_while(size, first, &unicode::is_punct).0)
    } else if unicode::is_upper(first) {
        (Word::Upper, upper_word_end(text, size, first, &take_while))
    } else if is_alphabet(first) {
        (Word::Alphabet, take_while(size, first, &|c| is_alphabet(c) && !unicode::is_upper(c)).0)
    } else if unicode::is_number(first) {
        (Word::Number, take_while(size, first, &unicode::is_number).0)
    } else {
        let other = |c| !(is_connector(c) || is_alphabet(c) || unicode::is_number(c) || unicode::is_punct(c));
        (Word::Other, take_while(size, first, &other).0)
    };
    let (part, rest) = text.split_at_checked(end).unwrap_or((text, &[]));
    (word, part, rest)
}

type TakeWhile<'a> = dyn Fn(usize, char, &dyn Fn(char) -> bool) -> (usize, char, usize) + 'a;

/// Returns the end of a capitalized word: `HTTP` in "HTTPStatus", `Status` in "StatusCode".
fn upper_word_end(text: &[u8], size: usize, first: char, take_while: &TakeWhile<'_>) -> usize {
    let Some(tail) = text.get(size..).filter(|tail| !tail.is_empty()) else { return size };
    let (second, second_size) = next_valid(tail, first);
    if unicode::is_upper(second) {
        let (end, c, last_size) = take_while(size + second_size, second, &unicode::is_upper);
        let last_size = if last_size == 0 { second_size } else { last_size };
        if end < text.len() && is_alphabet(c) { end - last_size } else { end }
    } else if is_alphabet(second) {
        take_while(size + second_size, second, &|c| is_alphabet(c) && !unicode::is_upper(c)).0
    } else {
        size
    }
}

/// Returns the next valid UTF-8 character and the bytes up to its end; `previous` if there is none.
fn next_valid(text: &[u8], previous: char) -> (char, usize) {
    let mut size = 0;
    for (c, raw) in unicode::chars(text) {
        size += raw.len();
        if c != char::REPLACEMENT_CHARACTER {
            return (c, size);
        }
    }
    (previous, size)
}
