//! YAML and JSON as in `sigs.k8s.io/yaml` and Go's `encoding/json`, error messages included.
//!
//! Hand-written, because no crate reads YAML 1.1 as goyaml does, or folds, quotes and sorts as its emitter does.
//!
//! ```
//! let value = steersman_yaml::from_str("on: yes\nport: 0o17\n")?;
//! assert_eq!(value, serde_json::json!({ "true": true, "port": 15 }));
//! assert_eq!(steersman_yaml::to_string(&value)?, "port: 15\n\"true\": true\n");
//!
//! let error = steersman_yaml::from_str("a: 1\nb: c: d\n").unwrap_err();
//! assert_eq!(error.to_string(), "yaml: line 2: mapping values are not allowed in this context");
//! # Ok::<(), steersman_yaml::Error>(())
//! ```

mod compose;
mod de;
mod emit;
mod error;
mod go;
mod input;
pub mod json;
mod node;
mod parser;
mod resolve;
mod scanner;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use error::{Error, Position};
pub use node::{Mapping, Node};

use emit::{Dialect, ser};
use input::Input;

/// Reads the first document, borrowing strings from the input. Of repeated keys the last one wins.
pub fn parse(bytes: &[u8]) -> Result<Node<'_>, Error> {
    parse_with(bytes, false)
}

/// As [`parse`], rejecting repeated keys.
pub fn parse_strict(bytes: &[u8]) -> Result<Node<'_>, Error> {
    parse_with(bytes, true)
}

fn parse_with(bytes: &[u8], strict: bool) -> Result<Node<'_>, Error> {
    let Input { text, problem } = Input::decode(bytes);
    let node = match text {
        Cow::Borrowed(text) => compose::load(text, problem, strict),
        Cow::Owned(text) => compose::load(&text, problem, strict).map(Node::into_owned),
    };
    node.map_err(|fault| *fault)
}

/// Reads the first document as the JSON that `YAMLToJSON` produces.
///
/// Integers stay integers, and keys become strings.
pub fn from_slice(bytes: &[u8]) -> Result<Value, Error> {
    parse(bytes).map(Node::into_value)
}

/// As [`from_slice`], from a string.
pub fn from_str(text: &str) -> Result<Value, Error> {
    from_slice(text.as_bytes())
}

/// As [`from_slice`], rejecting repeated keys.
pub fn from_slice_strict(bytes: &[u8]) -> Result<Value, Error> {
    parse_strict(bytes).map(Node::into_value)
}

/// Reads the first document as `sigs.k8s.io/yaml.Unmarshal` does into an `interface {}`.
///
/// Every number is an `f64`.
pub fn from_slice_f64(bytes: &[u8]) -> Result<Value, Error> {
    parse(bytes).map(Node::into_value_f64).map_err(|error| Error::Convert(Box::new(error)))
}

/// Reads the first document into a `map[string]interface {}`, as `sigs.k8s.io/yaml.Unmarshal` does.
///
/// Every number is an `f64`, an empty document results in an empty map, and anything but a mapping is an error.
pub fn object_from_slice(bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    json::into_object(from_slice_f64(bytes)?).map_err(|error| Error::Unmarshal(Box::new(error)))
}

/// Reads the first document into an `[]interface {}`, otherwise as [`object_from_slice`].
pub fn array_from_slice(bytes: &[u8]) -> Result<Vec<Value>, Error> {
    json::into_array(from_slice_f64(bytes)?).map_err(|error| Error::Unmarshal(Box::new(error)))
}

/// Reads the first document into a type, as `sigs.k8s.io/yaml.Unmarshal` does:
///
/// - numbers and booleans become strings where strings are expected (`appVersion: 1.10` reads as `"1.1"`),
/// - `null` leaves a zero value, and a struct's field as if it were absent: use `#[serde(default)]`,
/// - field names are case-insensitive, and unknown fields are ignored,
/// - integers stay integers where the type is open, unlike in Go.
///
/// Error messages use a struct's serde name: `#[serde(rename = "chart.Metadata")]` makes them match Go's.
pub fn from_slice_as<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Error> {
    from_slice_as_with(bytes, false)
}

/// As [`from_slice_as`], rejecting repeated keys and unknown fields, as `UnmarshalStrict` does.
pub fn from_slice_as_strict<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Error> {
    from_slice_as_with(bytes, true)
}

fn from_slice_as_with<'de, T: Deserialize<'de>>(bytes: &'de [u8], strict: bool) -> Result<T, Error> {
    let node = parse_with(bytes, strict).map_err(|error| Error::Convert(Box::new(error)))?;
    de::from_node(node, strict).map_err(|error| Error::Unmarshal(Box::new(error)))
}

/// Writes a value as `yaml.Marshal` of `sigs.k8s.io/yaml` does: keys sorted, long lines folded at column 80.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    to_string_within(usize::MAX, value)
}

/// As [`to_string`], failing with [`Error::TooLarge`] beyond `limit` bytes.
///
/// Indentation can make the text of many short lines much longer than the value.
pub fn to_string_within<T: Serialize + ?Sized>(limit: usize, value: &T) -> Result<String, Error> {
    ser::to_string(value, Dialect::Sigs, limit)
}

/// Writes a value as goyaml v3's encoder does with an indentation of 2.
///
/// Lists are indented, lines are not folded, floats are as Go prints them, and the fields of structs keep their order.
pub fn to_string_pretty<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    to_string_pretty_within(usize::MAX, value)
}

/// As [`to_string_pretty`], failing with [`Error::TooLarge`] beyond `limit` bytes.
pub fn to_string_pretty_within<T: Serialize + ?Sized>(limit: usize, value: &T) -> Result<String, Error> {
    ser::to_string(value, Dialect::Pretty, limit)
}

/// Estimates the memory for reading YAML or JSON, so that callers can reject it beforehand.
///
/// An upper bound except for aliases, which have limits of their own. Input of only `[],` takes about 50 times its
/// length.
pub fn reading_memory(bytes: &[u8]) -> usize {
    /// A node and the pair it may be in, during reading and afterwards.
    const NODE: usize = 192;
    /// Every map is a tree of its own, however small.
    const MAP: usize = 768;
    let size = |byte: &u8| match byte {
        b'\n' | b'\r' | b',' | b':' | b'-' | b'[' | b'?' => NODE,
        b'{' => MAP,
        _ => 2,
    };
    bytes.iter().map(size).sum()
}
