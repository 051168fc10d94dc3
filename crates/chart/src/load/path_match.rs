//! Go's `filepath.Match`.
//!
//! The glob crates treat stars, ranges and malformed patterns differently.

/// The pattern is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub(crate) struct BadPattern;

/// Whether a pattern matches the whole name.
///
/// `*` matches any text without `/`, `?` one character except `/`, `[a-c]` and `[^a-c]` one of a set, and a backslash
/// escapes the next character.
pub(crate) fn path_match(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let mut pattern = pattern;
    let mut name = name;
    while !pattern.is_empty() {
        let (star, chunk, rest) = next_chunk(pattern);
        pattern = rest;
        if star && chunk.is_empty() {
            // A trailing star matches the rest, unless it contains a separator.
            return Ok(!name.contains('/'));
        }
        if let Some(left) = match_chunk(chunk, name)?
            && (left.is_empty() || !pattern.is_empty())
        {
            name = left;
            continue;
        }
        if star && let Some(left) = match_after_star(chunk, name, pattern.is_empty())? {
            name = left;
            continue;
        }
        // No match, but the rest of the pattern must still be valid.
        while !pattern.is_empty() {
            let (_, chunk, rest) = next_chunk(pattern);
            pattern = rest;
            match_chunk(chunk, "")?;
        }
        return Ok(false);
    }
    Ok(name.is_empty())
}

fn match_after_star<'a>(chunk: &str, name: &'a str, last: bool) -> Result<Option<&'a str>, BadPattern> {
    for (at, c) in name.char_indices() {
        if c == '/' {
            break;
        }
        let after = name.get(at + c.len_utf8()..).unwrap_or_default();
        if let Some(left) = match_chunk(chunk, after)? {
            if last && !left.is_empty() {
                continue;
            }
            return Ok(Some(left));
        }
    }
    Ok(None)
}

/// Splits a pattern: whether it begins with stars, the text up to the next star, and the rest.
fn next_chunk(pattern: &str) -> (bool, &str, &str) {
    let trimmed = pattern.trim_start_matches('*');
    let star = trimmed.len() < pattern.len();
    let mut in_range = false;
    let mut bytes = trimmed.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'[' => in_range = true,
            b']' => in_range = false,
            b'*' if !in_range => {
                let (chunk, rest) = trimmed.split_at(at);
                return (star, chunk, rest);
            }
            _ => {}
        }
    }
    (star, trimmed, "")
}

/// Returns the rest of `name` after the chunk; `None` if it does not match. The chunk is always validated completely.
fn match_chunk<'a>(chunk: &str, name: &'a str) -> Result<Option<&'a str>, BadPattern> {
    let mut failed = false;
    let mut chunk = chunk.chars();
    let mut rest = name.chars();
    while let Some(c) = chunk.next() {
        failed |= rest.as_str().is_empty();
        match c {
            '[' => {
                let have = if failed { None } else { rest.next() };
                failed |= !match_range(&mut chunk, have)?;
            }
            '?' => {
                if !failed {
                    failed = rest.next() == Some('/');
                }
            }
            literal => {
                let literal = if literal == '\\' { chunk.next().ok_or(BadPattern)? } else { literal };
                if !failed {
                    failed = rest.next() != Some(literal);
                }
            }
        }
    }
    Ok((!failed).then_some(rest.as_str()))
}

fn match_range(chunk: &mut std::str::Chars<'_>, have: Option<char>) -> Result<bool, BadPattern> {
    let negated = chunk.as_str().starts_with('^');
    if negated {
        chunk.next();
    }
    let mut found = false;
    let mut ranges = 0;
    loop {
        if ranges > 0 && chunk.as_str().starts_with(']') {
            chunk.next();
            break;
        }
        let low = range_char(chunk)?;
        let mut high = low;
        if chunk.as_str().starts_with('-') {
            chunk.next();
            high = range_char(chunk)?;
        }
        found |= have.is_some_and(|c| low <= c && c <= high);
        ranges += 1;
    }
    Ok(have.is_some() && found != negated)
}

fn range_char(chunk: &mut std::str::Chars<'_>) -> Result<char, BadPattern> {
    let c = match chunk.next() {
        None | Some('-' | ']') => return Err(BadPattern),
        Some('\\') => chunk.next().ok_or(BadPattern)?,
        Some(c) => c,
    };
    // A set must be closed after this character.
    if chunk.as_str().is_empty() { Err(BadPattern) } else { Ok(c) }
}

#[cfg(test)]
mod tests {
    use super::{BadPattern, path_match};

    #[test]
    fn matches_as_go_does() {
        let cases = [
            ("abc", "abc", Ok(true)),
            ("*", "abc", Ok(true)),
            ("*c", "abc", Ok(true)),
            ("a*", "ab/c", Ok(false)),
            ("a*/b", "abc/b", Ok(true)),
            ("a*/b", "a/c/b", Ok(false)),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", Ok(true)),
            ("a*b?c*x", "abxbbxdbxebxczzx", Ok(true)),
            ("a*b?c*x", "abxbbxdbxebxczzy", Ok(false)),
            ("ab[c]", "abc", Ok(true)),
            ("ab[^b-d]", "abe", Ok(true)),
            ("ab[^b-d]", "abc", Ok(false)),
            ("a\\*b", "a*b", Ok(true)),
            ("a?b", "a☺b", Ok(true)),
            ("a???b", "a☺b", Ok(false)),
            ("[a-ζ]*", "α", Ok(true)),
            ("*[a-ζ]", "A", Ok(false)),
            ("a?b", "a/b", Ok(false)),
            ("[\\]a]", "]", Ok(true)),
            ("[\\-x]", "-", Ok(true)),
            ("[]a]", "]", Err(BadPattern)),
            ("[-]", "-", Err(BadPattern)),
            ("[x-]", "x", Err(BadPattern)),
            ("[-x]", "a", Err(BadPattern)),
            ("\\", "a", Err(BadPattern)),
            ("[a-b-c]", "a", Err(BadPattern)),
            ("[", "a", Err(BadPattern)),
            ("[^", "a", Err(BadPattern)),
            ("a[", "a", Err(BadPattern)),
            ("a[", "ab", Err(BadPattern)),
            ("a[", "x", Err(BadPattern)),
            ("a/b[", "x", Err(BadPattern)),
            ("*x", "xxx", Ok(true)),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(path_match(pattern, name), expected, "{pattern} on {name}");
        }
    }
}
