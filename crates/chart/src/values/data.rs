//! Plain values, as read from values files and used outside a render.

use std::collections::BTreeMap;
use std::fmt;

use steersman_gotemplate::{IntType, Map, Str, Value};

/// Maximum nesting of values.
pub(crate) const MAX_DEPTH: usize = 1000;

/// A table of values.
pub type Table = BTreeMap<Str, Data>;

/// A plain value with its Go type in Helm: YAML numbers are floats, those of `--set` integers.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Data {
    /// Null. If it overrides a default value, it deletes the key.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// An `int64`, from `--set`.
    Int(i64),
    /// A `float64`, from YAML and JSON.
    Float(f64),
    /// A string.
    String(Str),
    /// A list.
    List(Vec<Data>),
    /// A table.
    Table(Table),
}

impl Data {
    /// Returns the table, if it is one.
    pub fn as_table(&self) -> Option<&Table> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the string, if it is one and valid UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => text.as_str(),
            _ => None,
        }
    }

    /// Returns the value at a dotted path of table keys.
    pub fn path(&self, path: &str) -> Option<&Data> {
        path.split('.').try_fold(self, |data, key| data.as_table()?.get(key.as_bytes()))
    }

    /// Converts an object as client-go decodes it: whole numbers become integers.
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

    /// Converts to a template value. Maps are copied, so that templates only modify those of their render.
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

    /// Converts from a template value. Values without a plain form (functions, structs) become null.
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
    /// Converts as Go's `encoding/json` decodes: every number becomes a float.
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
    /// Converts as Go encodes JSON: whole floats become integers.
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
    /// Formats as `%v` in Go.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::gofmt::plain(&self.to_value()))
    }
}
