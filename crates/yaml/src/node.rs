use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

use crate::go;

/// A document's value, with strings borrowed from the input where they occur verbatim.
///
/// Aliases and merge keys are resolved, keys are strings, and no number is infinite or NaN: it is what
/// `sigs.k8s.io/yaml` would write as JSON, before numbers become text.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Node<'a> {
    /// An empty value, `~` or `null`.
    #[default]
    Null,
    /// `true`, `yes`, `on` and the like.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that only fits an unsigned type.
    Uint(u64),
    /// A finite number that was not written as an integer.
    Float(f64),
    /// A string.
    String(Cow<'a, str>),
    /// A sequence.
    Sequence(Vec<Node<'a>>),
    /// A mapping.
    Mapping(Mapping<'a>),
}

/// The pairs of a mapping in the byte order of their keys, each key once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mapping<'a> {
    pairs: Vec<(Cow<'a, str>, Node<'a>)>,
}

impl<'a> Mapping<'a> {
    /// Builds a mapping; of pairs with the same key the last one wins.
    pub(crate) fn from_pairs(mut pairs: Vec<(Cow<'a, str>, Node<'a>)>) -> Self {
        if !pairs.is_sorted_by(|(a, _), (b, _)| a < b) {
            // From the back, so that `dedup` keeps the last of equal keys.
            pairs.reverse();
            pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
            pairs.dedup_by(|(a, _), (b, _)| a == b);
        }
        Mapping { pairs }
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        let at = self.pairs.binary_search_by(|(known, _)| known.as_ref().cmp(key)).ok()?;
        self.pairs.get(at).map(|(_, value)| value)
    }

    /// Iterates over the pairs in the byte order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Node<'a>)> {
        self.pairs.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

impl<'a> Node<'a> {
    /// Returns the value of a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        match self {
            Node::Mapping(mapping) => mapping.get(key),
            _ => None,
        }
    }

    /// Returns the string, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Node::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the pairs, if this is a mapping.
    pub fn as_mapping(&self) -> Option<&Mapping<'a>> {
        match self {
            Node::Mapping(mapping) => Some(mapping),
            _ => None,
        }
    }

    /// Returns the items, if this is a sequence.
    pub fn as_sequence(&self) -> Option<&[Node<'a>]> {
        match self {
            Node::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// Converts to a value that does not borrow from the input.
    pub fn into_owned(self) -> Node<'static> {
        match self {
            Node::Null => Node::Null,
            Node::Bool(value) => Node::Bool(value),
            Node::Int(value) => Node::Int(value),
            Node::Uint(value) => Node::Uint(value),
            Node::Float(value) => Node::Float(value),
            Node::String(text) => Node::String(Cow::Owned(text.into_owned())),
            Node::Sequence(items) => Node::Sequence(items.into_iter().map(Node::into_owned).collect()),
            Node::Mapping(mapping) => {
                let own = |(key, value): (Cow<'a, str>, Node<'a>)| {
                    (Cow::Owned(key.into_owned()), value.into_owned())
                };
                Node::Mapping(Mapping { pairs: mapping.pairs.into_iter().map(own).collect() })
            }
        }
    }

    /// Converts to a JSON value.
    ///
    /// A float that JSON would write without a point or an exponent becomes an integer, as it would by way of text.
    pub fn into_value(self) -> Value {
        self.convert(json_float)
    }

    /// Converts to a JSON value whose numbers are all `f64`.
    ///
    /// Go's `json.Unmarshal` does the same into an `interface {}`.
    pub fn into_value_f64(self) -> Value {
        match self {
            Node::Int(value) => float(value as f64),
            Node::Uint(value) => float(value as f64),
            Node::Sequence(items) => Value::Array(items.into_iter().map(Node::into_value_f64).collect()),
            Node::Mapping(mapping) => Value::Object(mapping.into_map(Node::into_value_f64)),
            other => other.convert(float),
        }
    }

    fn convert(self, float: fn(f64) -> Value) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Bool(value) => Value::Bool(value),
            Node::Int(value) => Value::Number(value.into()),
            Node::Uint(value) => Value::Number(value.into()),
            Node::Float(value) => float(value),
            Node::String(text) => Value::String(text.into_owned()),
            Node::Sequence(items) => {
                Value::Array(items.into_iter().map(|item| item.convert(float)).collect())
            }
            Node::Mapping(mapping) => Value::Object(mapping.into_map(|value| value.convert(float))),
        }
    }

    /// Formats the value as Go's `%#v` does, for goyaml's messages. Keys must contain that form after a NUL.
    pub(crate) fn go_syntax(&self) -> String {
        match self {
            Node::Null => "interface {}(nil)".to_owned(),
            Node::Bool(value) => value.to_string(),
            Node::Int(value) => value.to_string(),
            Node::Uint(value) => format!("{value:#x}"),
            Node::Float(value) => go::float_general(*value),
            Node::String(text) => go::quote(text),
            Node::Sequence(items) => {
                let items: Vec<_> = items.iter().map(Node::go_syntax).collect();
                format!("[]interface {{}}{{{}}}", items.join(", "))
            }
            Node::Mapping(mapping) => {
                let pair = |(key, value): (&str, &Node<'_>)| {
                    format!("{}:{}", key.rsplit('\0').next().unwrap_or_default(), value.go_syntax())
                };
                let pairs: Vec<_> = mapping.iter().map(pair).collect();
                format!("map[interface {{}}]interface {{}}{{{}}}", pairs.join(", "))
            }
        }
    }
}

impl<'a> IntoIterator for Mapping<'a> {
    type Item = (Cow<'a, str>, Node<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    /// Iterates over the owned pairs in the byte order of their keys.
    fn into_iter(self) -> Self::IntoIter {
        self.pairs.into_iter()
    }
}

impl<'a> Mapping<'a> {
    pub(crate) fn into_map(self, convert: impl Fn(Node<'a>) -> Value) -> Map<String, Value> {
        self.pairs.into_iter().map(|(key, value)| (key.into_owned(), convert(value))).collect()
    }
}

impl From<Node<'_>> for Value {
    fn from(node: Node<'_>) -> Self {
        node.into_value()
    }
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Returns the number that Go's JSON text of a float denotes, which may be an integer.
///
/// Above 2^53 it may differ from the float, since zeros follow the significant digits.
pub(crate) fn json_number(value: f64) -> Node<'static> {
    if value.fract() != 0.0 || (value == 0.0 && value.is_sign_negative()) || value.abs() >= 1e20 {
        return Node::Float(value);
    }
    let text = go::float_json(value).unwrap_or_default();
    match (text.parse(), text.parse()) {
        (Ok(whole), _) => Node::Int(whole),
        (_, Ok(whole)) => Node::Uint(whole),
        _ => Node::Float(value),
    }
}

fn json_float(value: f64) -> Value {
    match json_number(value) {
        Node::Int(whole) => Value::Number(whole.into()),
        Node::Uint(whole) => Value::Number(whole.into()),
        _ => float(value),
    }
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Node::Null => serializer.serialize_unit(),
            Node::Bool(value) => serializer.serialize_bool(*value),
            Node::Int(value) => serializer.serialize_i64(*value),
            Node::Uint(value) => serializer.serialize_u64(*value),
            Node::Float(value) => serializer.serialize_f64(*value),
            Node::String(text) => serializer.serialize_str(text),
            Node::Sequence(items) => serializer.collect_seq(items),
            Node::Mapping(mapping) => serializer.collect_map(mapping.iter()),
        }
    }
}
