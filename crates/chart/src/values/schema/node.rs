//! JSON values for schemas and instances: numbers keep their text, and clones share their content.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value as Json;
use steersman_yaml::json::FromJson;

use super::decimal::Decimal;
use crate::values::{Data, Table};

/// A JSON value.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Arc<Vec<Node>>),
    Object(Arc<Object>),
}

/// The members of a JSON object.
pub(super) type Object = BTreeMap<String, Node>;

/// A bit filter that rules out most absent keywords without a lookup.
pub(super) struct KeywordFilter(u64);

impl KeywordFilter {
    pub(super) fn new(object: &Object) -> Self {
        Self(object.keys().fold(0, |filter, key| filter | Self::bit(key)))
    }

    #[inline]
    fn bit(key: &str) -> u64 {
        let bytes = key.as_bytes();
        let byte = |at: usize| bytes.get(at).copied().map_or(0, usize::from);
        1 << ((bytes.len() * 11 + byte(2) * 5 + byte(bytes.len().saturating_sub(1))) % 64)
    }

    #[inline]
    pub(super) fn may_have(&self, keyword: &str) -> bool {
        self.0 & Self::bit(keyword) != 0
    }
}

/// A number as written.
#[derive(Clone, Debug)]
pub(super) enum Number {
    Int(i64),
    Text(Box<str>),
}

/// The largest integer up to which a float represents every integer exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    fn float(number: f64) -> Self {
        if number.fract() == 0.0 && number.abs() <= EXACT {
            // The bound makes the cast exact.
            return Self::Int(number as i64);
        }
        Self::Text(format!("{number:e}").into())
    }

    /// Returns the exact value; `None` if the exponent exceeds what Go's `big.Rat` accepts.
    pub(super) fn decimal(&self) -> Option<Decimal> {
        match self {
            Self::Int(number) => Some(Decimal::from(*number)),
            Self::Text(text) => Decimal::parse(text),
        }
    }

    pub(super) fn is_integer(&self) -> bool {
        match self {
            Self::Int(_) => true,
            Self::Text(_) => self.decimal().is_some_and(|number| number.is_integer()),
        }
    }

    /// Converts to the nearest float.
    pub(super) fn as_f64(&self) -> f64 {
        match self {
            Self::Int(number) => *number as f64,
            Self::Text(text) => text.parse().unwrap_or_default(),
        }
    }

    /// Compares by value; `None` if either is out of range.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (a, b) => Some(a.decimal()?.compare(&b.decimal()?)),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl FromJson for Node {
    fn null() -> Self {
        Self::Null
    }

    fn bool(value: bool) -> Self {
        Self::Bool(value)
    }

    fn number(text: &str) -> Option<Self> {
        // A negative zero must print as one.
        let int = text.parse().ok().filter(|_| text != "-0").map(Number::Int);
        Some(Self::Number(int.unwrap_or_else(|| Number::Text(text.into()))))
    }

    fn string(text: String) -> Self {
        Self::String(text)
    }

    fn array(items: Vec<Self>) -> Self {
        Self::Array(Arc::new(items))
    }

    fn object(entries: Vec<(String, Self)>) -> Self {
        Self::Object(Arc::new(entries.into_iter().collect()))
    }
}

impl From<Json> for Node {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => {
                let int = number.as_i64().map(Number::Int);
                Self::Number(int.unwrap_or_else(|| Number::Text(number.to_string().into())))
            }
            Json::String(text) => Self::String(text),
            Json::Array(items) => Self::array(items.into_iter().map(Self::from).collect()),
            Json::Object(entries) => {
                Self::Object(Arc::new(entries.into_iter().map(|(key, value)| (key, value.into())).collect()))
            }
        }
    }
}

impl From<&Data> for Node {
    fn from(data: &Data) -> Self {
        match data {
            Data::Null => Self::Null,
            Data::Bool(value) => Self::Bool(*value),
            Data::Int(number) => Self::Number(Number::Int(*number)),
            Data::Float(number) if number.is_finite() => Self::Number(Number::float(*number)),
            Data::Float(_) => Self::Null,
            Data::String(text) => Self::String(text.to_str_lossy().into_owned()),
            Data::List(items) => Self::array(items.iter().map(Self::from).collect()),
            Data::Table(table) => table.into(),
        }
    }
}

impl From<&Table> for Node {
    fn from(table: &Table) -> Self {
        let entries = table.iter().map(|(key, data)| (key.to_str_lossy().into_owned(), data.into()));
        Self::Object(Arc::new(entries.collect()))
    }
}

impl Node {
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    pub(super) fn as_array(&self) -> Option<&[Node]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn is_container(&self) -> bool {
        matches!(self, Self::Array(_) | Self::Object(_))
    }

    /// Whether two values are equal, numbers by value.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a.compare(b) == Some(Ordering::Equal),
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.equals(b))
            }
            (Self::Object(a), Self::Object(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && a.equals(b))
            }
            _ => false,
        }
    }

    fn hash(&self, hasher: &mut DefaultHasher) {
        std::mem::discriminant(self).hash(hasher);
        match self {
            Self::Null => {}
            Self::Bool(value) => value.hash(hasher),
            Self::Number(number) => number.decimal().hash(hasher),
            Self::String(text) => text.hash(hasher),
            Self::Array(items) => items.iter().for_each(|item| item.hash(hasher)),
            Self::Object(object) => object.iter().for_each(|(key, value)| {
                key.hash(hasher);
                value.hash(hasher);
            }),
        }
    }
}

/// Finds the first item equal to an earlier one, and returns both indexes as `(earlier, later)`.
pub(super) fn duplicates(items: &[Node]) -> Option<(usize, usize)> {
    let mut seen: BTreeMap<u64, Vec<(usize, &Node)>> = BTreeMap::new();
    for (later, item) in items.iter().enumerate() {
        let mut hasher = DefaultHasher::new();
        item.hash(&mut hasher);
        let same = seen.entry(hasher.finish()).or_default();
        if let Some((earlier, _)) = same.iter().find(|(_, other)| item.equals(other)) {
            return Some((*earlier, later));
        }
        same.push((later, item));
    }
    None
}
