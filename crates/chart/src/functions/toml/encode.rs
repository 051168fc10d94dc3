//! Writing TOML.

use steersman_gostd::strconv;
use steersman_gotemplate::{Budget, FloatType, Kind, List, Map, Object, Str, Value};

use super::{LOCAL_DATE, LOCAL_DATETIME, LOCAL_TIME};
use crate::functions::gofmt::MAX_DEPTH;
use crate::functions::time::Time;
use crate::functions::{deeper, layout};

/// Encodes a value as TOML; the error is Go's message.
pub(in crate::functions) fn encode(budget: &Budget, value: &Value) -> Result<Vec<u8>, String> {
    if matches!(value, Value::List(list) if list.is_nil()) {
        return Ok(b"[]".to_vec());
    }
    let mut encoder = Encoder { out: Vec::new(), budget };
    encoder.encode(&mut Vec::new(), value)?;
    Ok(encoder.out)
}

/// Type of a value in TOML.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TomlType {
    Scalar,
    Array,
    Table,
    ArrayOfTables,
}

/// Returns the TOML type of a value, `None` for nil. Fails if an array has a nil element.
fn toml_type(budget: &Budget, value: &Value, depth: usize) -> Result<Option<TomlType>, String> {
    if depth > MAX_DEPTH {
        return Err("toml: the value is nested too deeply or contains itself".into());
    }
    charge(budget)?;
    Ok(Some(match value {
        Value::Nil => return Ok(None),
        Value::List(list) if list.is_nil() => return Ok(None),
        Value::Map(map) if map.is_nil() => return Ok(None),
        Value::Complex(..) => return Err("unsupported type: complex128".into()),
        Value::Map(_) => TomlType::Table,
        Value::List(list) => {
            let mut all_tables = !list.is_empty();
            for item in list.iter() {
                match deeper(|| toml_type(budget, item, depth + 1))? {
                    None => return Err("toml: cannot encode array with nil element".into()),
                    Some(ty) => all_tables &= ty == TomlType::Table,
                }
            }
            if all_tables { TomlType::ArrayOfTables } else { TomlType::Array }
        }
        Value::Bytes(_) => TomlType::Array,
        Value::Object(object) if !is_scalar(&**object) => TomlType::Table,
        _ => TomlType::Scalar,
    }))
}

/// Charges for one part, since a value that shares parts has more of them than its memory suggests.
fn charge(budget: &Budget) -> Result<(), String> {
    budget.charge_cost(1).map_err(|limit| limit.to_string())
}

/// Whether an object marshals itself to text or is a named number.
fn is_scalar(object: &dyn Object) -> bool {
    object.underlying().is_some() || object.method("MarshalText").is_some()
}

struct Encoder<'a> {
    out: Vec<u8>,
    budget: &'a Budget,
}

impl Encoder<'_> {
    /// Fails if the output exceeds the budget; charges for the next part.
    fn check(&self) -> Result<(), String> {
        self.budget.ensure_memory(self.out.len()).map_err(|limit| limit.to_string())?;
        charge(self.budget)
    }

    fn newline(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b'\n');
        }
    }

    fn indent(&mut self, key: &[Str]) {
        for _ in 1..key.len() {
            self.out.extend_from_slice(b"  ");
        }
    }

    fn encode(&mut self, key: &mut Vec<Str>, value: &Value) -> Result<(), String> {
        self.check()?;
        match toml_type(self.budget, value, key.len())? {
            None => Ok(()),
            Some(TomlType::Scalar | TomlType::Array) => self.key_value(key, value, false),
            Some(TomlType::ArrayOfTables) => {
                let Value::List(list) = value else { return Ok(()) };
                self.array_of_tables(key, list)
            }
            Some(TomlType::Table) => {
                if key.len() == 1 {
                    self.newline();
                }
                if !key.is_empty() {
                    self.header(key, b"[", b"]");
                }
                self.table(key, value)
            }
        }
    }

    fn array_of_tables(&mut self, key: &mut Vec<Str>, list: &List) -> Result<(), String> {
        if key.is_empty() {
            return Err("toml: top-level values must be Go maps or structs".into());
        }
        for table in list.iter() {
            self.check()?;
            self.newline();
            self.header(key, b"[[", b"]]");
            self.table(key, table)?;
        }
        Ok(())
    }

    fn header(&mut self, key: &[Str], open: &[u8], close: &[u8]) {
        self.indent(key);
        self.out.extend_from_slice(open);
        for (i, part) in key.iter().enumerate() {
            if i > 0 {
                self.out.push(b'.');
            }
            push_key(&mut self.out, part);
        }
        self.out.extend_from_slice(close);
        self.newline();
    }

    /// Writes the entries of a table: first plain values, then subtables, each sorted by key.
    fn table(&mut self, key: &mut Vec<Str>, table: &Value) -> Result<(), String> {
        let (direct, sub) = split_entries(self.budget, &entries(table))?;
        for (name, value) in direct.into_iter().chain(sub) {
            key.push(name);
            let done = deeper(|| self.encode(key, &value));
            key.pop();
            done?;
        }
        Ok(())
    }

    fn inline_table(&mut self, table: &Value, depth: usize) -> Result<(), String> {
        let (direct, sub) = split_entries(self.budget, &entries(table))?;
        self.out.push(b'{');
        let (direct_len, sub_len) = (direct.len(), sub.len());
        for (i, (name, value)) in direct.into_iter().chain(sub).enumerate() {
            if toml_type(self.budget, &value, depth)?.is_none() {
                continue;
            }
            push_key(&mut self.out, &name);
            self.out.extend_from_slice(b" = ");
            deeper(|| self.element(&value, depth + 1))?;
            // As in Go, only the very last entry omits the comma, even if it is nil and not written.
            if i + 1 != direct_len + sub_len {
                self.out.extend_from_slice(b", ");
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    fn key_value(&mut self, key: &[Str], value: &Value, inline: bool) -> Result<(), String> {
        let Some(last) = key.last() else { return self.element(value, 0) };
        self.indent(key);
        push_key(&mut self.out, last);
        self.out.extend_from_slice(b" = ");
        self.element(value, key.len())?;
        if !inline {
            self.newline();
        }
        Ok(())
    }

    fn element(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("toml: the value is nested too deeply or contains itself".into());
        }
        self.check()?;
        match value {
            Value::String(text) => push_quoted(&mut self.out, text),
            Value::Bool(b) => self.out.extend_from_slice(b.to_string().as_bytes()),
            Value::Int(n, _) => self.out.extend_from_slice(n.to_string().as_bytes()),
            Value::Uint(n, _) => self.out.extend_from_slice(n.to_string().as_bytes()),
            Value::Float(n, ty) => self.out.extend_from_slice(float(*n, *ty).as_bytes()),
            Value::List(list) => {
                self.out.push(b'[');
                for (i, item) in list.iter().enumerate() {
                    if i > 0 {
                        self.out.extend_from_slice(b", ");
                    }
                    deeper(|| self.element(item, depth + 1))?;
                }
                self.out.push(b']');
            }
            Value::Bytes(bytes) => {
                let numbers: Vec<_> = bytes.iter().map(u8::to_string).collect();
                self.out.extend_from_slice(format!("[{}]", numbers.join(", ")).as_bytes());
            }
            Value::Object(object) => match (Time::of(value), object.json()) {
                (Some(time), _) => match time.zone_name() {
                    LOCAL_DATETIME => self.out.extend(layout::format(time, b"2006-01-02T15:04:05.999999999")),
                    LOCAL_DATE => self.out.extend(layout::format(time, b"2006-01-02")),
                    LOCAL_TIME => self.out.extend(layout::format(time, b"15:04:05.999999999")),
                    _ => self.out.extend_from_slice(time.rfc3339().as_bytes()),
                },
                (None, Value::Int(..)) if object.is_stringer() && object.type_name() == "time.Duration" => {
                    push_quoted(&mut self.out, object.display().as_bytes());
                }
                (None, json) if object.kind() != Kind::Struct || !matches!(json, Value::Map(_)) => {
                    self.element(&json, depth + 1)?;
                }
                (None, _) => self.inline_table(value, depth)?,
            },
            Value::Map(_) => self.inline_table(value, depth)?,
            Value::Nil | Value::Complex(..) => {}
        }
        Ok(())
    }
}

/// Returns the entries of a map, or the fields of a struct by their Go names.
fn entries(table: &Value) -> Map {
    match table {
        Value::Map(map) => map.clone(),
        Value::Object(object) => match object.fields() {
            Some(fields) => {
                let exported = |name: &str| name.starts_with(|c: char| c.is_uppercase());
                let entries = fields.into_iter().filter(|(name, _)| exported(name));
                Map::with_type(
                    steersman_gotemplate::MapType::ANY,
                    entries.map(|(name, value)| (name.into(), value)).collect(),
                )
            }
            None => match object.json() {
                Value::Map(map) => map,
                _ => Map::new(),
            },
        },
        _ => Map::new(),
    }
}

type Entries = Vec<(Str, Value)>;

fn split_entries(budget: &Budget, map: &Map) -> Result<(Entries, Entries), String> {
    let (mut direct, mut sub) = (Vec::new(), Vec::new());
    for (key, value) in map.borrow().iter() {
        let is_table =
            matches!(toml_type(budget, value, 0)?, Some(TomlType::Table | TomlType::ArrayOfTables));
        if is_table { &mut sub } else { &mut direct }.push((key.clone(), value.clone()));
    }
    Ok((direct, sub))
}

fn float(n: f64, ty: FloatType) -> String {
    let sign = if n.is_sign_negative() { "-" } else { "" };
    if n.is_nan() {
        return format!("{sign}nan");
    }
    if n.is_infinite() {
        return format!("{sign}inf");
    }
    let text = strconv::format_float(n, b'g', None, ty == FloatType::Float32);
    if text.contains(['e', '.']) { text } else { text + ".0" }
}

pub(super) fn push_key(out: &mut Vec<u8>, key: &[u8]) {
    let bare = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if !key.is_empty() && key.iter().all(bare) {
        out.extend_from_slice(key);
    } else {
        push_quoted(out, key);
    }
}

fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 | 0x7F => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}
