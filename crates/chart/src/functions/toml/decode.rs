//! Reading TOML.

use std::collections::{BTreeMap, HashSet};

use steersman_gostd::strconv::{self, NumErrorKind, quote};
use steersman_gotemplate::{List, ListType, Map, MapType, Str, Type, Value};

use super::scan::{Failure, Number, Scanner};
use super::{LOCAL_DATE, LOCAL_DATETIME, LOCAL_TIME};
use crate::functions::gofmt::MAX_DEPTH;
use crate::functions::time::{Time, Zone};
use crate::functions::{deeper, layout};

/// `[]map[string]interface {}`, the type of an array of tables.
const TABLES: &ListType = &ListType { name: "[]map[string]interface {}", elem: Type::MapAny, methods: &[] };

/// Decodes a document; the error is Go's message.
pub(in crate::functions) fn decode(text: &[u8]) -> Result<Map, String> {
    let text = [b"\xFF\xFE".as_slice(), b"\xFE\xFF", b"\xEF\xBB\xBF"]
        .iter()
        .find_map(|mark| text.strip_prefix(*mark))
        .unwrap_or(text);
    if text.iter().take(6).any(|b| *b == 0) {
        return Err(
            "toml: line 1: files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8"
                .into(),
        );
    }
    let mut parser = Parser { scanner: Scanner::new(text), ..Parser::default() };
    match parser.document() {
        Ok(()) => Ok(Map::with_type(MapType::ANY, into_entries(parser.root))),
        Err(Failure { line, message }) => {
            let last = match parser.current.as_bytes() {
                b"" => key_text(&parser.context),
                current if parser.context.is_empty() => String::from_utf8_lossy(current).into_owned(),
                current => format!("{}.{}", key_text(&parser.context), String::from_utf8_lossy(current)),
            };
            if last.is_empty() {
                return Err(format!("toml: line {line}: {message}"));
            }
            Err(format!("toml: line {line} (last key {}): {message}", quote(last.as_bytes())))
        }
    }
}

/// Estimates an upper bound for the memory of reading a document.
///
/// Each part of a dotted key may be a table of its own.
pub(in crate::functions) fn reading_memory(text: &[u8]) -> usize {
    const TABLE: usize = 1024;
    let size = |byte: &u8| match byte {
        b'\n' | b'.' | b'=' | b',' | b'[' | b'{' => TABLE,
        _ => 2,
    };
    text.iter().map(size).sum()
}

type Table = BTreeMap<Str, Node>;

/// The value of a key while the document is read.
enum Node {
    Value(Value),
    Table(Table),
    Tables(Vec<Table>),
}

fn into_entries(table: Table) -> BTreeMap<Str, Value> {
    let into_map = |table| Value::Map(Map::with_type(MapType::ANY, deeper(|| into_entries(table))));
    table
        .into_iter()
        .map(|(key, node)| {
            let value = match node {
                Node::Value(value) => value,
                Node::Table(table) => into_map(table),
                Node::Tables(tables) => {
                    Value::List(List::new(TABLES, tables.into_iter().map(into_map).collect()))
                }
            };
            (key, value)
        })
        .collect()
}

/// Formats a key for error messages.
fn key_text(key: &[Str]) -> String {
    let parts: Vec<_> = key
        .iter()
        .map(|part| {
            let mut out = Vec::new();
            super::encode::push_key(&mut out, part);
            String::from_utf8_lossy(&out).into_owned()
        })
        .collect();
    parts.join(".")
}

#[derive(Default)]
struct Parser<'a> {
    scanner: Scanner<'a>,
    root: Table,
    /// The current table.
    context: Vec<Str>,
    /// The key whose value is being read.
    current: Str,
    /// Line where the current key begins.
    line: usize,
    /// Tables that exist only because other tables' names mention them.
    implicit: HashSet<Vec<Str>>,
    /// Keys with arrays as values.
    arrays: HashSet<Vec<Str>>,
    depth: usize,
}

impl Parser<'_> {
    fn fail<T>(&self, message: String) -> Result<T, Failure> {
        Err(Failure { line: self.line, message })
    }

    fn document(&mut self) -> Result<(), Failure> {
        loop {
            self.scanner.skip_blank(true)?;
            match self.scanner.peek()? {
                None => return Ok(()),
                Some('#') => self.scanner.comment()?,
                Some('[') => {
                    self.header()?;
                    self.scanner.end_of_line()?;
                }
                Some(_) => {
                    let outer = self.context.clone();
                    self.key_value()?;
                    self.context = outer;
                    self.current = Str::default();
                    self.scanner.end_of_line()?;
                }
            }
        }
    }

    fn header(&mut self) -> Result<(), Failure> {
        self.scanner.next()?;
        let is_array = self.scanner.accept('[')?;
        self.line = self.scanner.line;
        let key = self.scanner.table_name()?;
        if is_array {
            match self.scanner.next()? {
                Some(']') => {}
                other => {
                    let got = strconv_rune(other);
                    return self.scanner.fail(format!(
                        "expected end of table array name delimiter ']', but got {got} instead"
                    ));
                }
            }
        }
        self.add_context(&key, is_array)
    }

    /// Reads `key = value` into the current table.
    fn key_value(&mut self) -> Result<(Vec<Str>, Value), Failure> {
        let (key, line) = self.scanner.key()?;
        self.line = line;
        let Some((last, parents)) = key.split_last() else { return self.fail("empty key".into()) };
        self.current = last.clone();
        for parent in parents {
            let mut path = self.context.clone();
            path.push(parent.clone());
            self.implicit.insert(path.clone());
            self.add_context(&path, false)?;
        }
        let value = self.value(false)?;
        self.set_value(last, Node::Value(value.clone()))?;
        Ok((key, value))
    }

    fn value(&mut self, in_array: bool) -> Result<Value, Failure> {
        self.scanner.skip_blank(false)?;
        match self.scanner.peek()? {
            Some('[') => self.nested(Self::array),
            Some('{') => self.nested(|parser| parser.inline_table(in_array)),
            Some('"' | '\'') => self.scanner.string_value().map(Value::string),
            _ => self.scalar(),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Value, Failure>) -> Result<Value, Failure> {
        if self.depth >= MAX_DEPTH {
            return self.fail("values are nested too deeply".into());
        }
        self.depth += 1;
        let value = deeper(|| read(self));
        self.depth -= 1;
        value
    }

    fn scalar(&mut self) -> Result<Value, Failure> {
        let number = self.scanner.scalar()?;
        let fail = |message: String| Err(Failure { line: self.scanner.line, message });
        match number {
            Number::Bool(b) => Ok(Value::Bool(b)),
            Number::Integer(text) => {
                let shown = quote(text);
                if !underscores_ok(text) {
                    return fail(format!(
                        "Invalid integer {shown}: underscores must be surrounded by digits"
                    ));
                }
                if has_leading_zero(text) {
                    return fail(format!("Invalid integer {shown}: cannot have leading zeroes"));
                }
                match strconv::parse_int(text, 0, 64) {
                    Ok(n) => Ok(Value::int64(n)),
                    Err(_) => fail(format!("{} is out of range for int64", String::from_utf8_lossy(text))),
                }
            }
            Number::Float(text) => float(text).map(Value::float).or_else(fail),
            Number::Datetime(text) => {
                let text: Vec<u8> = text
                    .iter()
                    .map(|b| match b {
                        b'z' => b'Z',
                        b't' | b' ' => b'T',
                        b => *b,
                    })
                    .collect();
                match datetime(&text) {
                    Some(time) => Ok(time.into_value()),
                    None => fail(format!("invalid datetime: {}", quote(&text))),
                }
            }
        }
    }

    fn array(&mut self) -> Result<Value, Failure> {
        self.scanner.next()?;
        let mut path = self.context.clone();
        path.push(self.current.clone());
        self.arrays.insert(path);
        let mut items = Vec::new();
        loop {
            self.scanner.skip_lines()?;
            match self.scanner.peek()? {
                Some(',') => {
                    self.scanner.next()?;
                    return self.scanner.fail("unexpected comma".into());
                }
                Some(']') => break,
                _ => items.push(self.value(true)?),
            }
            self.scanner.skip_lines()?;
            match self.scanner.next()? {
                Some(',') => {}
                Some(']') => return Ok(Value::list(items)),
                other => {
                    let got = rune_or_eof(other);
                    return self
                        .scanner
                        .fail(format!("expected a comma (',') or array terminator (']'), but got {got}"));
                }
            }
        }
        self.scanner.next()?;
        Ok(Value::list(items))
    }

    fn inline_table(&mut self, in_array: bool) -> Result<Value, Failure> {
        self.scanner.next()?;
        let (outer_context, outer_key) = (self.context.clone(), self.current.clone());
        let mut path = self.context.clone();
        path.push(std::mem::take(&mut self.current));
        self.implicit.insert(path.clone());
        self.add_context(&path, in_array)?;
        let inner_context = self.context.clone();
        let table = Map::new();
        loop {
            self.scanner.skip_lines()?;
            match self.scanner.peek()? {
                Some(',') => {
                    self.scanner.next()?;
                    return self.scanner.fail("unexpected comma".into());
                }
                Some('}') => break,
                _ => {}
            }
            let (key, value) = self.key_value()?;
            self.put(&table, &key, value)?;
            self.context.clone_from(&inner_context);
            self.scanner.skip_lines()?;
            match self.scanner.next()? {
                Some(',') => {
                    self.scanner.skip_blank(false)?;
                }
                Some('}') => {
                    (self.context, self.current) = (outer_context, outer_key);
                    return Ok(Value::Map(table));
                }
                other => {
                    let got = rune_or_eof(other);
                    return self.scanner.fail(format!(
                        "expected a comma or an inline table terminator '}}', but got {got} instead"
                    ));
                }
            }
        }
        self.scanner.next()?;
        (self.context, self.current) = (outer_context, outer_key);
        Ok(Value::Map(table))
    }

    /// Inserts a value under a dotted key.
    fn put(&self, table: &Map, key: &[Str], value: Value) -> Result<(), Failure> {
        let Some((last, parents)) = key.split_last() else { return Ok(()) };
        let mut table = table.clone();
        for parent in parents {
            table = match table.get(parent) {
                Some(Value::Map(below)) => below,
                Some(_) => {
                    return self
                        .fail(format!("{} is not a table", quote(key_text(&self.context).as_bytes())));
                }
                None => {
                    let below = Map::new();
                    table.insert(parent.clone(), Value::Map(below.clone()));
                    below
                }
            };
        }
        table.insert(last.clone(), value);
        Ok(())
    }

    /// Makes `key` the current table.
    fn add_context(&mut self, key: &[Str], is_array: bool) -> Result<(), Failure> {
        let Some((last, parents)) = key.split_last() else { return Ok(()) };
        let line = self.line;
        let mut table = &mut self.root;
        for (i, part) in parents.iter().enumerate() {
            let path = parents.get(..=i).unwrap_or_default();
            if !table.contains_key(part) {
                self.implicit.insert(path.to_vec());
                table.insert(part.clone(), Node::Table(Table::new()));
            }
            table = match table.get_mut(part) {
                Some(Node::Table(table)) => table,
                Some(Node::Tables(tables)) if !tables.is_empty() => {
                    let last = tables.len() - 1;
                    &mut tables[last]
                }
                _ => {
                    let message = format!("Key '{}' was already created as a hash.", key_text(path));
                    return Err(Failure { line, message });
                }
            };
        }
        self.context = parents.to_vec();
        if is_array {
            match table.entry(last.clone()).or_insert_with(|| Node::Tables(Vec::new())) {
                Node::Tables(tables) => tables.push(Table::new()),
                _ => {
                    let message = format!(
                        "Key '{}' was already created and cannot be used as an array.",
                        key_text(key)
                    );
                    return Err(Failure { line, message });
                }
            }
        } else {
            self.set_value(last, Node::Table(Table::new()))?;
        }
        self.context.push(last.clone());
        Ok(())
    }

    fn set_value(&mut self, key: &Str, node: Node) -> Result<(), Failure> {
        let line = self.line;
        let defined = |path: &[Str]| Failure {
            line,
            message: format!("Key '{}' has already been defined.", key_text(path)),
        };
        let mut path = self.context.clone();
        let mut table = &mut self.root;
        for (i, part) in self.context.iter().enumerate() {
            table = match table.get_mut(part) {
                Some(Node::Table(table)) => table,
                Some(Node::Tables(tables)) if !tables.is_empty() => {
                    let last = tables.len() - 1;
                    &mut tables[last]
                }
                _ => return Err(defined(path.get(..=i).unwrap_or_default())),
            };
        }
        path.push(key.clone());
        if !table.contains_key(key) {
            table.insert(key.clone(), node);
            return Ok(());
        }
        if !self.implicit.remove(&path) {
            return Err(defined(&path));
        }
        // The key was only implied and is defined now. The elements of an array were added one by one; the complete
        // array replaces them.
        if self.arrays.contains(&path) {
            table.insert(key.clone(), node);
        }
        Ok(())
    }
}

/// Formats a rune as Go's `%q`; the end of the text is NUL.
pub(super) fn strconv_rune(c: Option<char>) -> String {
    let mut out = Vec::new();
    strconv::append_quote_rune(&mut out, c.unwrap_or('\0'), false);
    String::from_utf8_lossy(&out).into_owned()
}

fn rune_or_eof(c: Option<char>) -> String {
    c.map_or_else(|| "end of file".into(), |c| format!("'{c}'"))
}

/// Whether each underscore is between digits.
fn underscores_ok(text: &[u8]) -> bool {
    if matches!(text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text), b"nan" | b"inf") {
        return true;
    }
    let mut accept = false;
    for byte in text {
        if *byte == b'_' && !accept {
            return false;
        }
        accept = byte.is_ascii_hexdigit();
    }
    accept
}

fn has_leading_zero(text: &[u8]) -> bool {
    match text {
        [b'0', b'b' | b'o' | b'x', ..] => false,
        [b'0', _, ..] | [b'-' | b'+', b'0', _, ..] => true,
        _ => false,
    }
}

fn float(text: &[u8]) -> Result<f64, String> {
    let shown = quote(text);
    let mut parts = text.split(|b| matches!(b, b'.' | b'e' | b'E')).filter(|part| !part.is_empty());
    let first = parts.clone().next();
    if !parts.all(underscores_ok) {
        return Err(format!("Invalid float {shown}: underscores must be surrounded by digits"));
    }
    if first.is_some_and(has_leading_zero) {
        return Err(format!("Invalid float {shown}: cannot have leading zeroes"));
    }
    let period_ok =
        |(i, byte): (usize, &u8)| *byte != b'.' || text.get(i + 1).is_some_and(u8::is_ascii_digit);
    if !text.iter().enumerate().all(period_ok) {
        return Err(format!("Invalid float {shown}: '.' must be followed by one or more digits"));
    }
    let plain: Vec<u8> = text.iter().copied().filter(|b| *b != b'_').collect();
    match plain.as_slice() {
        b"+nan" => return Ok(f64::NAN),
        b"-nan" => return Ok(-f64::NAN),
        _ => {}
    }
    strconv::parse_float(&plain).map_err(|error| match error.kind {
        NumErrorKind::Range => format!("{} is out of range for float64", String::from_utf8_lossy(text)),
        _ => format!("Invalid float value: {shown}"),
    })
}

/// Parses a time in any of TOML's forms. Those without a zone get one that names the form.
fn datetime(text: &[u8]) -> Option<Time> {
    const FORMS: [(&[u8], Option<&str>); 7] = [
        (b"2006-01-02T15:04:05.999999999Z07:00", None),
        (b"2006-01-02T15:04:05.999999999", Some(LOCAL_DATETIME)),
        (b"2006-01-02", Some(LOCAL_DATE)),
        (b"15:04:05.999999999", Some(LOCAL_TIME)),
        (b"2006-01-02T15:04Z07:00", None),
        (b"2006-01-02T15:04", Some(LOCAL_DATETIME)),
        (b"15:04", Some(LOCAL_TIME)),
    ];
    let parsed = FORMS.iter().find_map(|(form, zone)| Some((form, zone, layout::parse(form, text).ok()?)));
    let (form, zone, time) = parsed?;
    // Numbers have their leading zeros, so every separator must be where the layout has it.
    let mut fixed = form.iter().take_while(|b| !matches!(b, b'.' | b'Z')).zip(text);
    fixed
        .all(|(form, byte)| form.is_ascii_digit() || form == byte)
        .then(|| zone.map_or_else(|| time.clone(), |zone| time.in_zone(Zone::fixed(zone, 0))))
}
