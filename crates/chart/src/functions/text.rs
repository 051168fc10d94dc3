//! Strings: trimming, cutting, padding, joining and quoting.

use steersman_gostd::strconv;
use steersman_gotemplate::{Budget, CallError, Funcs, List, ListType, Map, MapType, Str, Value};

use super::args::define;
use super::gofmt::strval;
use super::{Host, TEXT, map_memory, unicode, words};

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
        "wrap" [budget] (width: i64, text: &Str) => words::wrap(budget, text, width, b"\n", false);
        "wrapWith" [budget] (width: i64, separator: &Str, text: &Str) =>
            words::wrap(budget, text, width, separator, true);
        "abbrev" [budget] (width: i64, text: &Str) => abbrev(budget, width, text);
        "abbrevboth" [budget] (left: i64, right: i64, text: &Str) => abbrev_both(budget, left, right, text);
        "trunc" [budget] (count: i64, text: &Str) => trunc(budget, count, text);
        "substr" (start: i64, end: i64, text: &Str) => substr(start, end, text);
        "repeat" [budget] (count: i64, text: &Str) => repeat(budget, text, count);
        "contains" (part: &Str, text: &Str) => find(text, part).is_some();
        "hasPrefix" (prefix: &Str, text: &Str) => text.starts_with(prefix);
        "hasSuffix" (suffix: &Str, text: &Str) => text.ends_with(suffix);
        "quote" [budget] (; values: &[Value]) => quote_all(budget, values);
        "squote" [budget] (; values: &[Value]) => single_quote_all(budget, values);
        "cat" [budget] (; values: &[Value]) => spaced(values, |out, value| budget.append(out, value));
        "indent" [budget] (spaces: i64, text: &Str) => indent(budget, spaces, text, b"");
        "nindent" [budget] (spaces: i64, text: &Str) => indent(budget, spaces, text, b"\n");
        "replace" [budget] (old: &Str, new: &Str, text: &Str) => replace(budget, text, old, new);
        "plural" (one: &Str, many: &Str, count: i64) => if count == 1 { one.clone() } else { many.clone() };
        "toString" [budget] (value: &Value) => strval(budget, value);
        "toStrings" [budget] (value: &Value) => strings(budget, value).map(string_list);
        "join" [budget] (separator: &Str, value: &Value) => join(budget, separator, value);
        "split" [budget] (separator: &Str, text: &Str) => numbered(budget, split(budget, text, separator, None)?);
        "splitn" [budget] (separator: &Str, n: i64, text: &Str) =>
            numbered(budget, split(budget, text, separator, usize::try_from(n).ok())?);
        "splitList" [budget] (separator: &Str, text: &Str) => string_list(split(budget, text, separator, None)?);
        "sortAlpha" [budget] (value: &Value) => sort_alpha(budget, value);
    });
}

/// Returns the first position of `part` in `text`.
pub(super) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, part)
}

pub(super) fn trim_space(text: &[u8]) -> &[u8] {
    trim_matching(text, char::is_whitespace)
}

fn trim<'a>(text: &'a [u8], set: &[u8]) -> &'a [u8] {
    let mut set: Vec<char> = unicode::chars(set).map(|(c, _)| c).collect();
    set.sort_unstable();
    set.dedup();
    trim_matching(text, |c| set.binary_search(&c).is_ok())
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

/// Returns `text[start..end]`; the error is that of Go's runtime for the bounds.
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

fn trunc(budget: &Budget, count: i64, text: &Str) -> Result<Str, CallError> {
    let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let kept = if count < 0 && len.saturating_add(count) > 0 {
        usize::try_from(len + count).ok().and_then(|start| text.get(start..))
    } else {
        usize::try_from(count).ok().and_then(|end| text.get(..end))
    };
    match kept {
        Some(kept) => cut_off(budget, kept),
        None => Ok(text.clone()),
    }
}

/// Copies a part of a string into a new one.
fn cut_off(budget: &Budget, part: &[u8]) -> Result<Str, CallError> {
    budget.charge_memory(part.len())?;
    Ok(part.into())
}

fn abbrev(budget: &Budget, width: i64, text: &Str) -> Result<Str, CallError> {
    if width < 4 { Ok(text.clone()) } else { abbreviate(budget, text, 0, width) }
}

fn abbrev_both(budget: &Budget, left: i64, right: i64, text: &Str) -> Result<Str, CallError> {
    if right < 4 || (left > 0 && right < 7) {
        Ok(text.clone())
    } else {
        abbreviate(budget, text, left, right)
    }
}

/// Abbreviates `text` to `width` bytes, with `...` at the cut ends and the byte at `offset` kept.
fn abbreviate(budget: &Budget, text: &Str, offset: i64, width: i64) -> Result<Str, CallError> {
    let len = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if len <= width {
        return Ok(text.clone());
    }
    let room = width - 3;
    let mut offset = offset.min(len);
    // Wraps as in Go for an offset far below zero.
    if len.wrapping_sub(offset) < room {
        offset = len - room;
    }
    if offset <= 4 {
        return cut_off(budget, &[cut(text, 0, Some(room))?, b"..."].concat());
    }
    if width < 7 {
        return Ok(Str::default());
    }
    if offset + room < len {
        let tail = cut_off(budget, cut(text, offset, None)?)?;
        return cut_off(budget, &[b"...", abbreviate(budget, &tail, 0, room)?.as_bytes()].concat());
    }
    cut_off(budget, &[b"...", cut(text, len - room, None)?].concat())
}

pub(super) fn repeat(budget: &Budget, text: &[u8], count: i64) -> Result<Vec<u8>, CallError> {
    let count = usize::try_from(count).map_err(|_| CallError::new("strings: negative Repeat count"))?;
    match text.len().checked_mul(count) {
        Some(len) if i64::try_from(len).is_ok() => {
            budget.ensure_memory(len)?;
            Ok(text.repeat(count))
        }
        _ => Err(CallError::new("strings: Repeat output length overflow")),
    }
}

fn indent(budget: &Budget, spaces: i64, text: &[u8], before: &[u8]) -> Result<Vec<u8>, CallError> {
    let pad = repeat(budget, b" ", spaces)?;
    let lines = memchr::memchr_iter(b'\n', text).count() + 1;
    let len = lines.saturating_mul(pad.len()).saturating_add(text.len());
    budget.ensure_memory(len)?;
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

fn replace(budget: &Budget, text: &[u8], old: &[u8], new: &[u8]) -> Result<Vec<u8>, CallError> {
    let count = if old.is_empty() { text.len() + 1 } else { memchr::memmem::find_iter(text, old).count() };
    let len = count.saturating_mul(new.len()).saturating_add(text.len());
    budget.ensure_memory(len)?;
    let mut out = Vec::with_capacity(text.len() + new.len());
    if old.is_empty() {
        out.extend_from_slice(new);
        for (_, raw) in unicode::chars(text) {
            out.extend_from_slice(raw);
            out.extend_from_slice(new);
        }
        return Ok(out);
    }
    let mut rest = text;
    for at in memchr::memmem::find_iter(text, old) {
        let (from, to) = (text.len() - rest.len(), at);
        out.extend_from_slice(text.get(from..to).unwrap_or_default());
        out.extend_from_slice(new);
        rest = text.get(at + old.len()..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// `strings.SplitN`: at most `limit` parts, or all without a limit.
///
/// An empty separator splits into characters. Each part is charged for as a string of its own.
fn split<'a>(
    budget: &Budget,
    text: &'a [u8],
    separator: &[u8],
    limit: Option<usize>,
) -> Result<Vec<&'a [u8]>, CallError> {
    if limit == Some(0) {
        return Ok(Vec::new());
    }
    let most = if separator.is_empty() {
        text.len()
    } else {
        memchr::memmem::find_iter(text, separator).take(limit.unwrap_or(usize::MAX)).count() + 1
    };
    let parts = most.min(limit.unwrap_or(usize::MAX));
    budget.charge_memory(parts.saturating_mul(TEXT).saturating_add(text.len()))?;
    budget.charge_cost(parts)?;
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
        return Ok(parts);
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
    Ok(parts)
}

fn string_list<S: Into<Str>>(parts: Vec<S>) -> List {
    List::new(ListType::STRING, parts.into_iter().map(Value::string).collect())
}

/// Converts parts to the map that `split` returns: `_0`, `_1`, ...
fn numbered(budget: &Budget, parts: Vec<&[u8]>) -> Result<Map, CallError> {
    budget.charge_memory(map_memory(parts.len()) + parts.len() * TEXT)?;
    let entries =
        parts.into_iter().enumerate().map(|(i, part)| (format!("_{i}").into(), Value::string(part)));
    Ok(Map::with_type(MapType::STRING, entries.collect()))
}

/// Converts a list to strings without its nil elements; any other value to a list of one.
fn strings(budget: &Budget, value: &Value) -> Result<Vec<Str>, CallError> {
    match value {
        Value::List(list) => {
            budget.charge_cost(list.len())?;
            let items = list.iter().filter(|item| !matches!(item, Value::Nil));
            items.map(|item| strval(budget, item)).collect()
        }
        Value::Bytes(bytes) => {
            budget.charge_memory(bytes.len().saturating_mul(TEXT))?;
            Ok(bytes.iter().map(|byte| byte.to_string().into()).collect())
        }
        Value::Nil => Ok(Vec::new()),
        other => Ok(vec![strval(budget, other)?]),
    }
}

fn join(budget: &Budget, separator: &[u8], value: &Value) -> Result<Vec<u8>, CallError> {
    let parts = strings(budget, value)?;
    let text = parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
    budget.ensure_memory(separator.len().saturating_mul(parts.len()).saturating_add(text))?;
    Ok(parts.join(separator))
}

fn sort_alpha(budget: &Budget, value: &Value) -> Result<List, CallError> {
    let mut parts = match value {
        Value::List(_) | Value::Bytes(_) => strings(budget, value)?,
        other => vec![strval(budget, other)?],
    };
    // Comparing strings that differ only at their ends reads them completely, a dozen times each.
    let text = parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
    budget.charge_cost(8 * parts.len() + text / 32)?;
    parts.sort();
    Ok(string_list(parts))
}

/// Joins the values that are not nil with spaces, each written by `write`.
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

fn quote_all(budget: &Budget, values: &[Value]) -> Result<Vec<u8>, CallError> {
    /// Longest escape of one byte: `\x00`.
    const MAX_GROWTH: usize = 4;
    spaced(values, |out, value| {
        let text = strval(budget, value)?;
        if text.len().saturating_mul(MAX_GROWTH) > budget.remaining_memory() {
            let plain = text.iter().filter(|byte| matches!(byte, b' '..=b'~')).count();
            budget.ensure_memory(out.len() + plain + MAX_GROWTH * (text.len() - plain))?;
        }
        strconv::append_quote(out, &text, false);
        Ok(())
    })
}

fn single_quote_all(budget: &Budget, values: &[Value]) -> Result<Vec<u8>, CallError> {
    spaced(values, |out, value| {
        out.push(b'\'');
        budget.append(out, value)?;
        out.push(b'\'');
        Ok(())
    })
}
