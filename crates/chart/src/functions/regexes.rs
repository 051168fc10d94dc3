//! Regular expressions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};
use steersman_gostd::strconv;
use steersman_gotemplate::{Budget, CallError, Exceeded, Funcs, List, ListType, Str, Value};
use steersman_regexp::{Pattern, syntax_error, translate};

use super::args::define;
use super::{Host, TEXT, unicode};

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "regexMatch" [budget] (regex: &Str, text: &Str) => match compile(budget, regex)? {
            Ok(regex) => regex.is_match(budget, text)?,
            Err(_) => false,
        };
        "mustRegexMatch" [budget] (regex: &Str, text: &Str) => must(budget, regex)?.is_match(budget, text)?;
        "regexFind" [budget] (regex: &Str, text: &Str) => find(budget, &*panicking(budget, regex)?, text);
        "mustRegexFind" [budget] (regex: &Str, text: &Str) => find(budget, &*must(budget, regex)?, text);
        "regexFindAll" [budget] (regex: &Str, text: &Str, n: i64) =>
            find_all(budget, &*panicking(budget, regex)?, text, n);
        "mustRegexFindAll" [budget] (regex: &Str, text: &Str, n: i64) =>
            find_all(budget, &*must(budget, regex)?, text, n);
        "regexReplaceAll" [budget] (regex: &Str, text: &Str, by: &Str) =>
            panicking(budget, regex)?.replace_all(budget, text, by, true);
        "mustRegexReplaceAll" [budget] (regex: &Str, text: &Str, by: &Str) =>
            must(budget, regex)?.replace_all(budget, text, by, true);
        "regexReplaceAllLiteral" [budget] (regex: &Str, text: &Str, by: &Str) =>
            panicking(budget, regex)?.replace_all(budget, text, by, false);
        "mustRegexReplaceAllLiteral" [budget] (regex: &Str, text: &Str, by: &Str) =>
            must(budget, regex)?.replace_all(budget, text, by, false);
        "regexSplit" [budget] (regex: &Str, text: &Str, n: i64) => panicking(budget, regex)?.split(budget, text, n);
        "mustRegexSplit" [budget] (regex: &Str, text: &Str, n: i64) => must(budget, regex)?.split(budget, text, n);
        "regexQuoteMeta" (text: &Str) => quote_meta(text);
    });
}

/// Compiles an expression; the error is Go's.
fn must(budget: &Budget, regex: &Str) -> Result<Rc<GoRegex>, CallError> {
    compile(budget, regex)?.map_err(CallError::new)
}

/// Compiles an expression; the error is what `regexp.MustCompile` panics with.
fn panicking(budget: &Budget, regex: &Str) -> Result<Rc<GoRegex>, CallError> {
    compile(budget, regex)?.map_err(|error| {
        let quoted = if strconv::can_backquote(regex) { format!("`{regex}`") } else { strconv::quote(regex) };
        CallError::new(format!("regexp: Compile({quoted}): {error}"))
    })
}

/// Validates an expression; the error is Go's message.
pub(crate) fn check(regex: &str) -> Result<(), String> {
    GoRegex::new(regex.as_bytes()).map(drop)
}

/// Compiled expressions cached per thread: charts use a handful of them repeatedly.
const CACHED: usize = 128;
/// Maximum length of an expression: a longer one would exceed the largest of [`SIZES`] when compiled.
const MAX_LEN: usize = 1 << 20;
/// Memory limits for compiled expressions. The smallest sufficient one indicates the number of states.
const SIZES: [usize; 7] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 32 << 20];

type Compiled = Result<Rc<GoRegex>, String>;

fn compile(budget: &Budget, regex: &Str) -> Result<Compiled, Exceeded> {
    thread_local! {
        static CACHE: RefCell<HashMap<Str, Compiled>> = RefCell::default();
    }
    CACHE.with_borrow_mut(|cache| {
        if let Some(compiled) = cache.get(regex) {
            return Ok(compiled.clone());
        }
        let compiled = GoRegex::new(regex).map(Rc::new);
        budget.charge_cost(compiled.as_ref().map_or(regex.len(), |compiled| compiled.size) / 16)?;
        if cache.len() >= CACHED {
            cache.clear();
        }
        cache.insert(regex.clone(), compiled.clone());
        Ok(compiled)
    })
}

/// A compiled Go expression.
struct GoRegex {
    regex: Regex,
    /// The smallest of [`SIZES`] that it fits.
    size: usize,
    names: Vec<String>,
    is_empty: bool,
}

/// A match: start and end of each group.
type Match = Vec<Option<(usize, usize)>>;

impl GoRegex {
    fn new(expr: &[u8]) -> Result<Self, String> {
        let too_large = || syntax_error("expression too large", expr);
        if expr.len() > MAX_LEN {
            return Err(too_large());
        }
        let Pattern { source, names } = translate(expr)?;
        let build = |size: usize| {
            let regex = RegexBuilder::new(&source).size_limit(size).nest_limit(5000).build().ok()?;
            Some((regex, size))
        };
        let (regex, size) = SIZES.into_iter().find_map(build).ok_or_else(too_large)?;
        Ok(Self { regex, size, names, is_empty: expr.is_empty() })
    }

    /// Prepares a string for a search, and charges for the worst case: every state for every byte.
    fn haystack<'a>(&self, budget: &Budget, text: &'a [u8]) -> Result<Haystack<'a>, CallError> {
        budget.charge_cost(text.len().saturating_mul(self.size / 2048))?;
        Haystack::new(budget, text)
    }

    fn is_match(&self, budget: &Budget, text: &[u8]) -> Result<bool, CallError> {
        Ok(self.regex.is_match(&self.haystack(budget, text)?.text))
    }

    /// Returns the leftmost match that begins at `at` or later.
    fn match_at(&self, haystack: &Haystack<'_>, at: usize) -> Option<Match> {
        let captures = self.regex.captures_at(&haystack.text, haystack.inner(at))?;
        let outer = |group: regex::Match<'_>| (haystack.outer(group.start()), haystack.outer(group.end()));
        Some(captures.iter().map(|group| group.map(outer)).collect())
    }

    /// Returns the first `n` matches, or all if `n` is negative.
    ///
    /// An empty match directly after another match is skipped. Each match is charged for as a string of its own.
    fn find_all(&self, budget: &Budget, text: &[u8], n: i64) -> Result<Vec<(usize, usize)>, CallError> {
        let n = usize::try_from(n).unwrap_or(text.len() + 1);
        let haystack = self.haystack(budget, text)?;
        let mut found = Vec::new();
        let (mut at, mut previous_end) = (0, None);
        while found.len() < n && at <= text.len() {
            let Some(found_here) = self.regex.find_at(&haystack.text, haystack.inner(at)) else { break };
            let (start, end) = (haystack.outer(found_here.start()), haystack.outer(found_here.end()));
            let accept = end != at || previous_end != Some(start);
            at = if end == at { at + width(text, at).max(1) } else { end };
            previous_end = Some(end);
            charge_match(budget, text.len() - start)?;
            if accept {
                budget.charge_memory(2 * TEXT + (end - start))?;
                found.push((start, end));
            }
        }
        Ok(found)
    }

    fn replace_all(
        &self,
        budget: &Budget,
        text: &Str,
        by: &[u8],
        expand: bool,
    ) -> Result<Vec<u8>, CallError> {
        let haystack = self.haystack(budget, text)?;
        let room = budget.remaining_memory();
        let mut out = Vec::new();
        let (mut last_end, mut at) = (0, 0);
        while at <= text.len() {
            let Some(groups) = self.match_at(&haystack, at) else { break };
            let Some((start, end)) = groups.first().copied().flatten() else { break };
            charge_match(budget, text.len() - start)?;
            out.extend_from_slice(text.get(last_end..start).unwrap_or_default());
            if end > last_end || start == 0 {
                if expand {
                    self.expand(&mut out, room, by, text, &groups);
                } else {
                    out.extend_from_slice(by);
                }
                budget.ensure_memory(out.len())?;
            }
            last_end = end;
            at = (at + width(text, at)).max(end).max(if end == at { at + 1 } else { 0 });
        }
        out.extend_from_slice(text.get(last_end..).unwrap_or_default());
        Ok(out)
    }

    /// Appends a replacement, with `$1`, `${1}` and `${name}` expanded to the groups' matches.
    ///
    /// Stops early beyond `room` bytes.
    fn expand(&self, out: &mut Vec<u8>, room: usize, mut template: &[u8], text: &[u8], groups: &Match) {
        while out.len() <= room
            && let Some(dollar) = memchr::memchr(b'$', template)
        {
            out.extend_from_slice(template.get(..dollar).unwrap_or_default());
            template = template.get(dollar + 1..).unwrap_or_default();
            if let Some(rest) = template.strip_prefix(b"$") {
                out.push(b'$');
                template = rest;
                continue;
            }
            let Some((name, rest)) = reference(template) else {
                out.push(b'$');
                continue;
            };
            template = rest;
            let range = match group_number(name) {
                Some(number) => groups.get(number).copied().flatten(),
                // The first group of that name that matched.
                None => self
                    .names
                    .iter()
                    .zip(groups)
                    .find_map(|(own, range)| if own.as_bytes() == name { *range } else { None }),
            };
            if let Some((start, end)) = range {
                out.extend_from_slice(text.get(start..end).unwrap_or_default());
            }
        }
        out.extend_from_slice(template);
    }

    fn split(&self, budget: &Budget, text: &Str, n: i64) -> Result<List, CallError> {
        if n == 0 {
            return Ok(List::nil(ListType::STRING));
        }
        let limit = usize::try_from(n).ok();
        let mut parts = Vec::new();
        if text.is_empty() && !self.is_empty {
            parts.push(Value::string(""));
            return Ok(List::new(ListType::STRING, parts));
        }
        budget.charge_memory(text.len())?;
        let part = |start: usize, end: usize| Value::string(text.get(start..end).unwrap_or_default());
        let (mut begin, mut end) = (0, 0);
        for found in self.find_all(budget, text, n)? {
            if limit.is_some_and(|limit| parts.len() + 1 >= limit) {
                break;
            }
            end = found.0;
            if found.1 != 0 {
                parts.push(part(begin, end));
            }
            begin = found.1;
        }
        if end != text.len() {
            parts.push(part(begin, text.len()));
        }
        Ok(List::new(ListType::STRING, parts))
    }
}

/// Parses the name after a `$`, and returns it with the rest; `None` if there is none.
fn reference(template: &[u8]) -> Option<(&[u8], &[u8])> {
    let (braced, body) = match template.strip_prefix(b"{") {
        Some(body) => (true, body),
        None => (false, template),
    };
    let is_name = |c: char| unicode::is_letter(c) || unicode::is_digit(c) || c == '_';
    let len = unicode::chars(body).take_while(|(c, _)| is_name(*c)).map(|(_, raw)| raw.len()).sum();
    let (name, rest) = body.split_at_checked(len).filter(|(name, _)| !name.is_empty())?;
    Some((name, if braced { rest.strip_prefix(b"}")? } else { rest }))
}

/// Returns the group number of a reference; `None` if it is a name, as are numbers with leading zeros.
fn group_number(name: &[u8]) -> Option<usize> {
    if !name.iter().all(u8::is_ascii_digit) || name.len() > 9 || (name.len() > 1 && name.starts_with(b"0")) {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

fn width(text: &[u8], at: usize) -> usize {
    text.get(at..).and_then(unicode::decode).map_or(0, |(_, len)| len)
}

/// A string in the UTF-8 that the `regex` crate needs.
///
/// Go reads each invalid byte as U+FFFD, which is three bytes long, so positions are translated if there are any.
struct Haystack<'a> {
    text: std::borrow::Cow<'a, str>,
    /// Position of each character in `text` and in the original, if they differ.
    places: Vec<(usize, usize)>,
}

impl<'a> Haystack<'a> {
    fn new(budget: &Budget, bytes: &'a [u8]) -> Result<Self, CallError> {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Ok(Self { text: text.into(), places: Vec::new() });
        }
        budget.ensure_memory(bytes.len().saturating_mul(size_of::<(usize, usize)>() + 3))?;
        let mut text = String::with_capacity(bytes.len());
        let mut places = Vec::with_capacity(bytes.len());
        let mut outer = 0;
        for (c, raw) in unicode::chars(bytes) {
            places.push((text.len(), outer));
            text.push(c);
            outer += raw.len();
        }
        places.push((text.len(), outer));
        Ok(Self { text: text.into(), places })
    }

    /// Translates a position in the original to one in `text`.
    fn inner(&self, outer: usize) -> usize {
        match self.places.binary_search_by_key(&outer, |place| place.1) {
            Ok(i) => self.places.get(i).map_or(outer, |place| place.0),
            Err(_) => outer,
        }
    }

    /// Translates a position in `text` to one in the original.
    fn outer(&self, inner: usize) -> usize {
        match self.places.binary_search_by_key(&inner, |place| place.0) {
            Ok(i) => self.places.get(i).map_or(inner, |place| place.1),
            Err(_) => inner,
        }
    }
}

/// Charges for one of several matches in a string with `rest` bytes left.
///
/// A search may read all of them to find a short match, so many matches in a long string can take quadratic time;
/// usually it reads a few bytes. The cost is a compromise, and the interrupt is checked after each match.
fn charge_match(budget: &Budget, rest: usize) -> Result<(), CallError> {
    budget.charge_cost(4 + rest / 256)?;
    budget.check()?;
    Ok(())
}

fn find(budget: &Budget, regex: &GoRegex, text: &Str) -> Result<Vec<u8>, CallError> {
    let found = regex.find_all(budget, text, 1)?.first().and_then(|(start, end)| text.get(*start..*end));
    Ok(found.unwrap_or_default().to_vec())
}

fn find_all(budget: &Budget, regex: &GoRegex, text: &Str, n: i64) -> Result<List, CallError> {
    let found: Vec<_> = regex
        .find_all(budget, text, n)?
        .into_iter()
        .map(|(start, end)| Value::string(text.get(start..end).unwrap_or_default()))
        .collect();
    Ok(if found.is_empty() { List::nil(ListType::STRING) } else { List::new(ListType::STRING, found) })
}

fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if br"\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}
