//! JSON as Go's `encoding/json` reads and writes it.

mod read;
mod write;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::Error;

/// A type that JSON is read into, made from the inside out.
pub trait FromJson: Sized {
    /// `null`.
    fn null() -> Self;
    /// `true` or `false`.
    fn bool(value: bool) -> Self;
    /// A number as it is written; `None` if it is out of range.
    fn number(text: &str) -> Option<Self>;
    /// A string.
    fn string(text: String) -> Self;
    /// An array.
    fn array(items: Vec<Self>) -> Self;
    /// An object, in the order of the text; of repeated keys the last one counts.
    fn object(entries: Vec<(String, Self)>) -> Self;
}

/// As [`from_slice`], into a type that decides itself how numbers are kept.
pub fn read_from_slice<T: FromJson>(bytes: &[u8]) -> Result<T, Error> {
    let (value, out_of_range) = read::from_slice(bytes)?;
    out_of_range.map_or(Ok(value), Err)
}

/// Reads JSON as `json.Unmarshal` does where no type is asked for: every number is an `f64`, of repeated keys the last one
/// counts, and what is no UTF-8 or a lone surrogate becomes U+FFFD.
pub fn from_slice(bytes: &[u8]) -> Result<Value, Error> {
    let (value, out_of_range) = read::from_slice(bytes)?;
    out_of_range.map_or(Ok(value), Err)
}

/// As [`from_slice`], from text.
pub fn from_str(text: &str) -> Result<Value, Error> {
    from_slice(text.as_bytes())
}

/// Reads JSON into a `map[string]interface {}`: `null` gives an empty one, anything but an object is an error.
pub fn object_from_slice(bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    let (value, out_of_range) = read::from_slice::<Value>(bytes)?;
    let object = into_object(value)?;
    out_of_range.map_or(Ok(object), Err)
}

/// Reads JSON into an `[]interface {}`: `null` gives an empty one, anything but an array is an error.
pub fn array_from_slice(bytes: &[u8]) -> Result<Vec<Value>, Error> {
    let (value, out_of_range) = read::from_slice::<Value>(bytes)?;
    let array = into_array(value)?;
    out_of_range.map_or(Ok(array), Err)
}

pub(crate) fn into_object(value: Value) -> Result<Map<String, Value>, Error> {
    match value {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Map::new()),
        other => Err(mismatch(&other, "map[string]interface {}")),
    }
}

pub(crate) fn into_array(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(array) => Ok(array),
        Value::Null => Ok(Vec::new()),
        other => Err(mismatch(&other, "[]interface {}")),
    }
}

fn mismatch(value: &Value, wanted: &str) -> Error {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Error::Type(format!("json: cannot unmarshal {kind} into Go value of type {wanted}"))
}

/// How to write JSON. The default is what `json.Marshal` does.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether `<`, `>` and `&` are escaped. Default: `true`.
    pub escape_html: bool,
    /// Whether each value goes on its own line, indented by two spaces for each level. Default: `false`.
    pub pretty: bool,
    /// The most bytes to write; beyond that there is [`Error::TooLarge`]. Default: no limit.
    pub limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { escape_html: true, pretty: false, limit: usize::MAX }
    }
}

/// Writes a value as `json.Marshal` does: the keys of maps sorted, the fields of structs in their own order, `<`, `>` and `&`
/// escaped.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    to_string_with(value, Options::default())
}

/// As [`to_string`], with options.
pub fn to_string_with<T: Serialize + ?Sized>(value: &T, options: Options) -> Result<String, Error> {
    write::to_string(value, options)
}
