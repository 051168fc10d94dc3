//! Parser of `--set`, `--set-string`, `--set-json` and `--set-file`.

use steersman_gotemplate::Str;

use super::go_list::{
    Result, Stop, in_item_list, in_item_table, in_list, in_table, index, place, set, set_index,
};
use super::options::ReadFile;
use super::{Data, Table};
use crate::gofmt;

/// Parses a `--set` expression into `table`.
pub(super) fn parse(expression: &str, table: &mut Table) -> std::result::Result<(), String> {
    run(expression, table, Kind::Text(&mut |text| Ok(typed(text))))
}

/// Parses a `--set-string` expression.
pub(super) fn parse_string(expression: &str, table: &mut Table) -> std::result::Result<(), String> {
    run(expression, table, Kind::Text(&mut |text| Ok(Data::from(text))))
}

/// Parses a `--set-file` expression.
pub(super) fn parse_file(
    expression: &str,
    table: &mut Table,
    read: &mut ReadFile<'_>,
) -> std::result::Result<(), String> {
    run(expression, table, Kind::Text(&mut |name| read(name).map(|content| Data::String(content.into()))))
}

/// Parses a `--set-json` expression.
pub(super) fn parse_json(expression: &str, table: &mut Table) -> std::result::Result<(), String> {
    run(expression, table, Kind::Json)
}

fn run(expression: &str, table: &mut Table, kind: Kind<'_>) -> std::result::Result<(), String> {
    let mut parser = Parser { rest: expression, kind };
    loop {
        match parser.key(table, 0) {
            Ok(()) => {}
            Err(Stop::End) => return Ok(()),
            Err(Stop::Error(message)) => return Err(message),
        }
    }
}

/// Kind of value after the `=`.
enum Kind<'a> {
    /// A string up to the next comma, or a list in braces; the function converts each string.
    Text(&'a mut dyn FnMut(&str) -> std::result::Result<Data, String>),
    /// A JSON value.
    Json,
}

struct Parser<'a, 'k> {
    rest: &'a str,
    kind: Kind<'k>,
}

impl Parser<'_, '_> {
    fn key(&mut self, table: &mut Table, level: usize) -> Result<()> {
        let (key, stop) = self.until(&['=', '[', ',', '.']);
        let Some(stop) = stop else {
            return Err(if key.is_empty() { Stop::End } else { no_value(&key, "") });
        };
        match stop {
            '[' => {
                let index = self.index()?;
                in_list(table, &key, |list| self.item(list, index, level, 0))
            }
            '=' => self.value_for(|value| {
                set(table, &key, value);
                Ok(())
            }),
            ',' => Err(no_value(&key, " (cannot end with ,)")),
            _ => in_table(table, &key, level, |inner, level| self.key(inner, level)),
        }
    }

    /// Parses what follows the `]` of an index.
    fn item(&mut self, list: &mut Vec<Data>, i: i64, level: usize, lists: usize) -> Result<()> {
        let i = place(i)?;
        let (text, stop) = self.until(&['[', '.', '=']);
        if !text.is_empty() {
            let runes: Vec<String> = text.chars().map(gofmt::quote_rune).collect();
            return Err(format!("unexpected data at end of array index: [{}]", runes.join(" ")).into());
        }
        match stop {
            None => Err(Stop::End),
            Some('=') => match self.value_for(|value| set_index(list, i, value)) {
                Err(Stop::End) => Ok(()),
                outcome => outcome,
            },
            Some('[') => {
                let next = self.index()?;
                in_item_list(list, i, lists, |inner, lists| self.item(inner, next, level, lists))
            }
            Some(_) => in_item_table(list, i, |inner| self.key(inner, level)),
        }
    }

    /// Parses the value after the `=` and passes it to `put`.
    fn value_for(&mut self, put: impl FnOnce(Data) -> Result<()>) -> Result<()> {
        if matches!(self.kind, Kind::Json) {
            if self.blank() {
                return put(Data::Null);
            }
            let (value, rest) = json_prefix(self.rest)?;
            self.rest = rest;
            put(value)?;
            self.blank();
            return Ok(());
        }
        if self.rest.is_empty() {
            put(Data::from(""))?;
            return Err(Stop::End);
        }
        if let Some(rest) = self.rest.strip_prefix('{') {
            self.rest = rest;
            let list = self.list()?;
            return put(Data::List(list));
        }
        let (text, _) = self.until(&[',']);
        let value = self.typed(&text)?;
        put(value)
    }

    /// Parses items up to the closing brace, and a comma after it.
    fn list(&mut self) -> Result<Vec<Data>> {
        let mut items = Vec::new();
        loop {
            let (text, stop) = self.until(&[',', '}']);
            let Some(stop) = stop else { return Err("list must terminate with '}'".into()) };
            items.push(self.typed(&text)?);
            if stop == '}' {
                self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
                return Ok(items);
            }
        }
    }

    fn typed(&mut self, text: &str) -> Result<Data> {
        match &mut self.kind {
            Kind::Text(value) => value(text).map_err(Stop::Error),
            Kind::Json => Ok(Data::from(text)),
        }
    }

    fn index(&mut self) -> Result<i64> {
        let (text, stop) = self.until(&[']']);
        if stop.is_none() {
            return Err("error parsing index: EOF".into());
        }
        index(&text)
    }

    /// Skips blanks. Returns true at a comma, which is consumed, or at the end: there is no value then.
    fn blank(&mut self) -> bool {
        self.rest = self.rest.trim_start_matches(gofmt::is_space);
        if self.rest.is_empty() {
            return true;
        }
        if let Some(rest) = self.rest.strip_prefix(',') {
            self.rest = rest;
            return true;
        }
        false
    }

    /// Returns the text up to the next of `stops`, which is consumed; a backslash is an escape.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut text = String::new();
        let mut chars = self.rest.chars();
        while let Some(c) = chars.next() {
            if stops.contains(&c) {
                self.rest = chars.as_str();
                return (text, Some(c));
            }
            if c != '\\' {
                text.push(c);
            } else if let Some(escaped) = chars.next() {
                text.push(escaped);
            }
        }
        self.rest = "";
        (text, None)
    }
}

fn no_value(key: &str, why: &str) -> Stop {
    format!("key {} has no value{why}", gofmt::quote(&Str::from(key))).into()
}

/// Converts an unquoted value: a boolean, null, an integer without leading zeros, otherwise a string.
fn typed(text: &str) -> Data {
    if text.eq_ignore_ascii_case("true") {
        return Data::Bool(true);
    }
    // As in Go's case folding, the long s (U+017F) equals s.
    if text.eq_ignore_ascii_case("false") || text.replace('\u{17f}', "s").eq_ignore_ascii_case("false") {
        return Data::Bool(false);
    }
    if text.eq_ignore_ascii_case("null") {
        return Data::Null;
    }
    if text == "0" {
        return Data::Int(0);
    }
    if !text.starts_with('0')
        && let Ok(number) = text.parse()
    {
        return Data::Int(number);
    }
    Data::from(text)
}

/// Parses the JSON value at the start of `text`, and returns it with the rest.
fn json_prefix(text: &str) -> Result<(Data, &str)> {
    let (json, rest) = text.split_at(json_end(text));
    let value = steersman_yaml::json::from_slice(json.as_bytes()).map_err(|error| {
        match error.to_string().as_str() {
            // Helm uses Go's stream decoder here, which has another message.
            "unexpected end of JSON input" => "unexpected EOF".to_owned(),
            other => other.to_owned(),
        }
    })?;
    Ok((value.into(), rest))
}

/// Returns the end of the JSON value at the start of `text`, at least up to its first error.
fn json_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let start = text.len() - text.trim_start().len();
    let mut depth = 0usize;
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            b'-' | b'0'..=b'9' if depth == 0 => at = number_end(bytes, at),
            b't' | b'n' if depth == 0 => at = (at + 4).min(bytes.len()),
            b'f' if depth == 0 => at = (at + 5).min(bytes.len()),
            _ => {
                at += 1;
            }
        }
        if depth == 0 {
            break;
        }
    }
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Returns the end of a number; for an incomplete one, the position after the wrong byte.
fn number_end(bytes: &[u8], start: usize) -> usize {
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut at = start + usize::from(is(start, b"-"));
    at = if is(at, b"0") { at + 1 } else { digits(at) };
    if is(at, b".") {
        let end = digits(at + 1);
        if end == at + 1 {
            return (end + 1).min(bytes.len());
        }
        at = end;
    }
    if is(at, b"eE") {
        let sign = at + 1 + usize::from(is(at + 1, b"+-"));
        let end = digits(sign);
        at = if end == sign { (end + 1).min(bytes.len()) } else { end };
    }
    if at == start + usize::from(is(start, b"-")) { (at + 1).min(bytes.len()) } else { at }
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}
