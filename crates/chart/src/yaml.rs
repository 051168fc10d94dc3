//! YAML to plain values, and back.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use steersman_yaml::Node;

use crate::load::decode;
use crate::values::{Data, Table};

/// Parses the first document.
pub(crate) fn parse(text: &[u8]) -> Result<Node<'_>, String> {
    steersman_yaml::parse(text).map_err(|error| format!("error converting YAML to JSON: {error}"))
}

/// Parses a values file; an empty one is an empty table.
pub(crate) fn values(text: &[u8]) -> Result<Table, String> {
    values_as(text, "map[string]interface {}")
}

/// As [`values`], naming this Go type in errors.
pub(crate) fn values_as(text: &[u8], go_type: &str) -> Result<Table, String> {
    let document = parse(text)?;
    decode::check_mapping(&document, go_type)?;
    Ok(match data(&document) {
        Data::Table(table) => table,
        _ => Table::new(),
    })
}

/// Converts a node as Go's `encoding/json` decodes it: every number becomes a float.
pub(crate) fn data(node: &Node<'_>) -> Data {
    match node {
        Node::Null => Data::Null,
        Node::Bool(b) => Data::Bool(*b),
        Node::Int(n) => Data::Float(*n as f64),
        Node::Uint(n) => Data::Float(*n as f64),
        Node::Float(n) => Data::Float(*n),
        Node::String(text) => Data::String(text.as_ref().into()),
        Node::Sequence(items) => Data::List(items.iter().map(data).collect()),
        Node::Mapping(pairs) => {
            Data::Table(pairs.iter().map(|(key, value)| (key.into(), data(value))).collect())
        }
    }
}

/// Formats a value as YAML, as Helm does.
pub(crate) fn to_string(data: &Data) -> String {
    steersman_yaml::to_string(data).unwrap_or_default()
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(b) => serializer.serialize_bool(*b),
            Self::Int(n) => serializer.serialize_i64(*n),
            Self::Float(n) => serializer.serialize_f64(*n),
            Self::String(text) => serializer.serialize_str(&text.to_str_lossy()),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Table(table) => {
                let mut map = serializer.serialize_map(Some(table.len()))?;
                for (key, value) in table {
                    map.serialize_entry(&*key.to_str_lossy(), value)?;
                }
                map.end()
            }
        }
    }
}
