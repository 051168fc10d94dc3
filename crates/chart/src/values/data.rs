//! Plain values: what a values file holds, before and after a render.

use std::collections::BTreeMap;
use std::fmt;

use steersman_gotemplate::{IntType, Map, Str, Value};

/// The deepest nesting that values may have.
pub(crate) const MAX_DEPTH: usize = 1000;

/// A table of values.
pub type Table = BTreeMap<Str, Data>;

/// A plain value, with the Go type that Helm would give it: numbers in YAML are floats, those of `--set` are integers.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Data {
    /// Nothing; over a default value it deletes the key.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// An `int64`, as `--set` makes them.
    Int(i64),
    /// A `float64`, as YAML and JSON make them.
    Float(f64),
    /// A string.
    String(Str),
    /// A list.
    List(Vec<Data>),
    /// A table.
    Table(Table),
}

impl Data {
    /// The table, if it is one.
    pub fn as_table(&self) -> Option<&Table> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The text, if it is a string and UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => text.as_str(),
            _ => None,
        }
    }

    /// The value under a dotted path of table keys.
    pub fn path(&self, path: &str) -> Option<&Data> {
        path.split('.').try_fold(self, |data, key| data.as_table()?.get(key.as_bytes()))
    }

    /// An object as client-go decodes it: whole numbers are integers.
    pub(crate) fn unstructured(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Number(n) => {
                n.as_i64().map_or_else(|| Self::Float(n.as_f64().unwrap_or_default()), Self::Int)
            }
            serde_json::Value::Array(items) => {
                Self::List(items.into_iter().map(Self::unstructured).collect())
            }
            serde_json::Value::Object(entries) => Self::Table(
                entries.into_iter().map(|(key, value)| (key.into(), Self::unstructured(value))).collect(),
            ),
            other => other.into(),
        }
    }

    /// A template's value: maps are fresh, so that what templates change stays in their render.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Nil,
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(n) => Value::Int(*n, IntType::Int64),
            Self::Float(n) => Value::float(*n),
            Self::String(text) => Value::String(text.clone()),
            Self::List(items) => Value::list(items.iter().map(Self::to_value).collect()),
            Self::Table(table) => Value::Map(to_map(table)),
        }
    }

    /// The plain form of a template's value. What has none (functions, structs) is nothing.
    fn from_value_within(value: &Value, depth: usize) -> Self {
        let Some(depth) = depth.checked_sub(1) else { return Self::Null };
        match value {
            Value::Bool(b) => Self::Bool(*b),
            Value::Int(n, _) => Self::Int(*n),
            Value::Uint(n, _) => i64::try_from(*n).map_or(Self::Float(*n as f64), Self::Int),
            Value::Float(n, _) => Self::Float(*n),
            Value::String(text) | Value::Bytes(text) => Self::String(text.clone()),
            Value::List(items) => {
                Self::List(items.iter().map(|item| Self::from_value_within(item, depth)).collect())
            }
            Value::Map(map) => Self::Table(from_map(map, depth)),
            Value::Nil | Value::Complex(..) | Value::Object(_) => Self::Null,
        }
    }
}

pub(crate) fn to_map(table: &Table) -> Map {
    let entries = table.iter().map(|(key, data)| (key.clone(), data.to_value())).collect();
    Map::with_type(steersman_gotemplate::MapType::ANY, entries)
}

pub(crate) fn from_map(map: &Map, depth: usize) -> Table {
    map.borrow().iter().map(|(key, value)| (key.clone(), Data::from_value_within(value, depth))).collect()
}

impl From<serde_json::Value> for Data {
    /// As Go's `encoding/json` decodes: every number is a float.
    fn from(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(b) => Self::Bool(b),
            serde_json::Value::Number(n) => Self::Float(n.as_f64().unwrap_or_default()),
            serde_json::Value::String(text) => Self::String(text.into()),
            serde_json::Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            serde_json::Value::Object(entries) => {
                Self::Table(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
            }
        }
    }
}

impl From<&Data> for serde_json::Value {
    /// Whole floats become integers, as they do when Go writes JSON.
    fn from(data: &Data) -> Self {
        match data {
            Data::Null => Self::Null,
            Data::Bool(b) => Self::Bool(*b),
            Data::Int(n) => (*n).into(),
            Data::Float(n) => json_number(*n),
            Data::String(text) => Self::String(text.to_str_lossy().into_owned()),
            Data::List(items) => items.iter().map(Self::from).collect(),
            Data::Table(table) => table_to_json(table),
        }
    }
}

pub(super) fn table_to_json(table: &Table) -> serde_json::Value {
    let entries = table.iter().map(|(key, data)| (key.to_str_lossy().into_owned(), data.into()));
    serde_json::Value::Object(entries.collect())
}

fn json_number(n: f64) -> serde_json::Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if n.fract() == 0.0 && n.abs() <= EXACT {
        // The bound above makes the cast exact.
        return (n as i64).into();
    }
    serde_json::Number::from_f64(n).map_or(serde_json::Value::Null, serde_json::Value::Number)
}

impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Display for Data {
    /// What Go prints for `%v`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::gofmt::plain(&self.to_value()))
    }
}
