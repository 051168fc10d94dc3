//! Strings: trimming, cutting, padding, joining and quoting.

use steersman_gostd::strconv;
use steersman_gotemplate::{CallError, Funcs, Map, MapType, Str, Value, fmt};

use super::args::define;
use super::gofmt::strval;
use super::{Host, MAX_BYTES, too_large, unicode, words};

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "hello" () => "Hello!";
        "trim" (text: &Str) => trim_space(text);
        "trimAll" | "trimall" (set: &Str, text: &Str) => trim(text, set);
        "trimSuffix" (suffix: &Str, text: &Str) => text.strip_suffix(suffix.as_bytes()).unwrap_or(text);
        "trimPrefix" (prefix: &Str, text: &Str) => text.strip_prefix(prefix.as_bytes()).unwrap_or(text);
        "upper" (text: &Str) => unicode::map(text, unicode::to_upper);
        "lower" (text: &Str) => unicode::map(text, unicode::to_lower);
        "title" (text: &Str) => words::title(text);
        "untitle" (text: &Str) => words::untitle(text);
        "swapcase" (text: &Str) => words::swap_case(text);
        "snakecase" (text: &Str) => words::to_lower_case(text, '_');
        "kebabcase" (text: &Str) => words::to_lower_case(text, '-');
        "camelcase" (text: &Str) => words::to_pascal_case(text);
        "initials" (text: &Str) => words::initials(text);
        "nospace" (text: &Str) => words::delete_white_space(text);
        "wrap" (width: i64, text: &Str) => words::wrap(text, width, b"\n", false);
        "wrapWith" (width: i64, separator: &Str, text: &Str) => words::wrap(text, width, separator, true);
        "abbrev" (width: i64, text: &Str) => abbrev(width, text);
        "abbrevboth" (left: i64, right: i64, text: &Str) => abbrev_both(left, right, text);
        "trunc" (count: i64, text: &Str) => trunc(count, text);
        "substr" (start: i64, end: i64, text: &Str) => substr(start, end, text);
        "repeat" (count: i64, text: &Str) => repeat(text, count);
        "contains" (part: &Str, text: &Str) => find(text, part).is_some();
        "hasPrefix" (prefix: &Str, text: &Str) => text.starts_with(prefix);
        "hasSuffix" (suffix: &Str, text: &Str) => text.ends_with(suffix);
        "quote" (; values: &[Value]) => quote_all(values);
        "squote" (; values: &[Value]) => single_quote_all(values);
        "cat" (; values: &[Value]) => spaced(values, fmt::append_value);
        "indent" (spaces: i64, text: &Str) => indent(spaces, text, b"");
        "nindent" (spaces: i64, text: &Str) => indent(spaces, text, b"\n");
        "replace" (old: &Str, new: &Str, text: &Str) => replace(text, old, new);
        "plural" (one: &Str, many: &Str, count: i64) => if count == 1 { one.clone() } else { many.clone() };
        "toString" (value: &Value) => strval(value);
        "toStrings" (value: &Value) => Value::strings(strings(value)?);
        "join" (separator: &Str, value: &Value) => join(separator, value);
        "split" (separator: &Str, text: &Str) => numbered(split(text, separator, None));
        "splitn" (separator: &Str, n: i64, text: &Str) => numbered(split(text, separator, usize::try_from(n).ok()));
        "splitList" (separator: &Str, text: &Str) => Value::strings(split(text, separator, None));
        "sortAlpha" (value: &Value) => sort_alpha(value);
    });
}

/// The first place of `part` in `text`.
pub(super) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}

pub(super) fn trim_space(text: &[u8]) -> &[u8] {
    trim_matching(text, char::is_whitespace)
}

fn trim<'a>(text: &'a [u8], set: &[u8]) -> &'a [u8] {
    let set: Vec<char> = unicode::chars(set).map(|(c, _)| c).collect();
    trim_matching(text, |c| set.contains(&c))
}

fn trim_matching(mut text: &[u8], matches: impl Fn(char) -> bool) -> &[u8] {
    while let Some((c, len)) = unicode::decode(text)
        && matches(c)
    {
        text = text.get(len..).unwrap_or_default();
    }
    while let Some((c, len)) = unicode::decode_last(text)
        && matches(c)
    {
        text = text.get(..text.len() - len).unwrap_or_default();
    }
    text
}

/// `text[start..end]`, or what Go's runtime says of the bounds.
fn cut(text: &[u8], start: i64, end: Option<i64>) -> Result<&[u8], CallError> {
    let len = text.len();
    let out_of_range =
        |what: String| CallError::new(format!("runtime error: slice bounds out of range {what}"));
    let Some(end) = end else {
        return usize::try_from(start)
            .map_err(|_| out_of_range(format!("[{start}:]")))
            .and_then(|start| text.get(start..).ok_or_else(|| out_of_range(format!("[{start}:{len}]"))));
    };
    let to = match usize::try_from(end) {
        Ok(to) if to <= len => to,
        Ok(to) => return Err(out_of_range(format!("[:{to}] with length {len}"))),
        Err(_) => return Err(out_of_range(format!("[:{end}]"))),
    };
    usize::try_from(start)
        .map_err(|_| out_of_range(format!("[{start}:]")))
        .and_then(|from| text.get(from..to).ok_or_else(|| out_of_range(format!("[{from}:{to}]"))))
}

fn substr(start: i64, end: i64, text: &[u8]) -> Result<&[u8], CallError> {
    if start < 0 {
        cut(text, 0, Some(end))
    } else if usize::try_from(end).is_ok_and(|end| end <= text.len()) {
        cut(text, start, Some(end))
    } else {
        cut(text, start, None)
    }
}

fn trunc(count: i64, text: &Str) -> Str {
    let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let kept = if count < 0 && len.saturating_add(count) > 0 {
        usize::try_from(len + count).ok().and_then(|start| text.get(start..))
    } else {
        usize::try_from(count).ok().and_then(|end| text.get(..end))
    };
    kept.map_or_else(|| text.clone(), Str::from)
}

fn abbrev(width: i64, text: &Str) -> Result<Str, CallError> {
    if width < 4 { Ok(text.clone()) } else { abbreviate(text, 0, width) }
}

fn abbrev_both(left: i64, right: i64, text: &Str) -> Result<Str, CallError> {
    if right < 4 || (left > 0 && right < 7) { Ok(text.clone()) } else { abbreviate(text, left, right) }
}

/// Cuts `text` to `width` bytes with `...` at the cut ends, so that the byte at `offset` stays in sight.
fn abbreviate(text: &Str, offset: i64, width: i64) -> Result<Str, CallError> {
    let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if len <= width {
        return Ok(text.clone());
    }
    let room = width - 3;
    let mut offset = offset.min(len);
    // Wrapping, as it does in Go for an offset far below zero.
    if len.wrapping_sub(offset) < room {
        offset = len - room;
    }
    if offset <= 4 {
        return Ok(Str::from([cut(text, 0, Some(room))?, b"..."].concat()));
    }
    if width < 7 {
        return Ok(Str::default());
    }
    if offset + room < len {
        let tail = Str::from(cut(text, offset, None)?);
        return Ok(Str::from([b"...", abbreviate(&tail, 0, room)?.as_bytes()].concat()));
    }
    Ok(Str::from([b"...", cut(text, len - room, None)?].concat()))
}

pub(super) fn repeat(text: &[u8], count: i64) -> Result<Vec<u8>, CallError> {
    let count = usize::try_from(count).map_err(|_| CallError::new("strings: negative Repeat count"))?;
    match text.len().checked_mul(count) {
        Some(len) if len <= MAX_BYTES => Ok(text.repeat(count)),
        Some(len) if i64::try_from(len).is_ok() => {
            Err(too_large(&format!("a string of {len} bytes"), MAX_BYTES))
        }
        _ => Err(CallError::new("strings: Repeat output length overflow")),
    }
}

fn indent(spaces: i64, text: &[u8], before: &[u8]) -> Result<Vec<u8>, CallError> {
    let pad = repeat(b" ", spaces)?;
    let lines = memchr::memchr_iter(b'\n', text).count() + 1;
    let len = text.len() + lines * pad.len();
    if len > MAX_BYTES {
        return Err(too_large(&format!("a string of {len} bytes"), MAX_BYTES));
    }
    let mut out = Vec::with_capacity(before.len() + len);
    out.extend_from_slice(before);
    out.extend_from_slice(&pad);
    for line in text.split_inclusive(|b| *b == b'\n') {
        out.extend_from_slice(line);
        if line.ends_with(b"\n") {
            out.extend_from_slice(&pad);
        }
    }
    Ok(out)
}

fn replace(text: &[u8], old: &[u8], new: &[u8]) -> Result<Vec<u8>, CallError> {
    let count = if old.is_empty() { text.len() + 1 } else { memchr::memmem::find_iter(text, old).count() };
    let len = count.saturating_mul(new.len()).saturating_add(text.len());
    if len > MAX_BYTES {
        return Err(too_large(&format!("a string of {len} bytes"), MAX_BYTES));
    }
    let mut out = Vec::with_capacity(text.len() + new.len());
    if old.is_empty() {
        out.extend_from_slice(new);
        for (_, raw) in unicode::chars(text) {
            out.extend_from_slice(raw);
            out.extend_from_slice(new);
        }
        return Ok(out);
    }
    for (i, part) in split(text, old, None).into_iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(new);
        }
        out.extend_from_slice(part);
    }
    Ok(out)
}

/// `strings.SplitN`: at most `limit` parts, all if there is no limit; an empty separator splits into characters.
fn split<'a>(text: &'a [u8], separator: &[u8], limit: Option<usize>) -> Vec<&'a [u8]> {
    if limit == Some(0) {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut rest = text;
    let full = |parts: &Vec<&[u8]>| limit.is_some_and(|limit| parts.len() + 1 >= limit);
    if separator.is_empty() {
        while let Some((_, len)) = unicode::decode(rest) {
            let len = if full(&parts) { rest.len() } else { len };
            let (head, tail) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            parts.push(head);
            rest = tail;
        }
        return parts;
    }
    let finder = memchr::memmem::Finder::new(separator);
    while !full(&parts)
        && let Some(at) = finder.find(rest)
        && let (Some(head), Some(tail)) = (rest.get(..at), rest.get(at + separator.len()..))
    {
        parts.push(head);
        rest = tail;
    }
    parts.push(rest);
    parts
}

/// The parts as `split` gives them to templates: `_0`, `_1`, ...
fn numbered(parts: Vec<&[u8]>) -> Map {
    let entries =
        parts.into_iter().enumerate().map(|(i, part)| (format!("_{i}").into(), Value::string(part)));
    Map::with_type(MapType::STRING, entries.collect())
}

/// The elements of a list as strings, nil ones left out; any other value as a list of one.
fn strings(value: &Value) -> Result<Vec<Str>, CallError> {
    match value {
        Value::List(list) => list.iter().filter(|item| !matches!(item, Value::Nil)).map(strval).collect(),
        Value::Bytes(bytes) => Ok(bytes.iter().map(|byte| byte.to_string().into()).collect()),
        Value::Nil => Ok(Vec::new()),
        other => Ok(vec![strval(other)?]),
    }
}

fn join(separator: &[u8], value: &Value) -> Result<Vec<u8>, CallError> {
    let parts = strings(value)?;
    let len =
        parts.iter().map(|part| part.len()).sum::<usize>() + separator.len().saturating_mul(parts.len());
    if len > MAX_BYTES {
        return Err(too_large(&format!("a string of {len} bytes"), MAX_BYTES));
    }
    Ok(parts.join(separator))
}

fn sort_alpha(value: &Value) -> Result<Value, CallError> {
    let mut parts = match value {
        Value::List(_) | Value::Bytes(_) => strings(value)?,
        other => vec![strval(other)?],
    };
    parts.sort();
    Ok(Value::strings(parts))
}

/// The values that are not nil, each written by `write`, with spaces between.
fn spaced(
    values: &[Value],
    write: impl Fn(&mut Vec<u8>, &Value) -> Result<(), CallError>,
) -> Result<Vec<u8>, CallError> {
    let mut out = Vec::new();
    for (i, value) in values.iter().filter(|value| !matches!(value, Value::Nil)).enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        write(&mut out, value)?;
    }
    Ok(out)
}

fn quote_all(values: &[Value]) -> Result<Vec<u8>, CallError> {
    spaced(values, |out, value| {
        strconv::append_quote(out, &strval(value)?, false);
        Ok(())
    })
}

fn single_quote_all(values: &[Value]) -> Result<Vec<u8>, CallError> {
    spaced(values, |out, value| {
        out.push(b'\'');
        fmt::append_value(out, value)?;
        out.push(b'\'');
        Ok(())
    })
}
