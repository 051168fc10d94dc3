//! JSON as Go's `encoding/json` reads and writes it.

mod read;
mod write;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::Error;

/// A type that JSON is read into, built bottom-up.
pub trait FromJson: Sized {
    /// `null`.
    fn null() -> Self;
    /// `true` or `false`.
    fn bool(value: bool) -> Self;
    /// A number, as spelled in the input; `None` if it is out of range.
    fn number(text: &str) -> Option<Self>;
    /// A string.
    fn string(text: String) -> Self;
    /// An array.
    fn array(items: Vec<Self>) -> Self;
    /// An object, in input order; of repeated keys the last one wins.
    fn object(entries: Vec<(String, Self)>) -> Self;
}

/// As [`from_slice`], into a type that chooses its own representation of numbers.
pub fn read_from_slice<T: FromJson>(bytes: &[u8]) -> Result<T, Error> {
    let (value, out_of_range) = read::from_slice(bytes)?;
    out_of_range.map_or(Ok(value), Err)
}

/// Reads JSON as `json.Unmarshal` does into an `interface {}`.
///
/// Every number is an `f64`, of repeated keys the last one wins, and invalid UTF-8 and lone surrogates become U+FFFD.
pub fn from_slice(bytes: &[u8]) -> Result<Value, Error> {
    let (value, out_of_range) = read::from_slice(bytes)?;
    out_of_range.map_or(Ok(value), Err)
}

/// As [`from_slice`], from a string.
pub fn from_str(text: &str) -> Result<Value, Error> {
    from_slice(text.as_bytes())
}

/// Reads JSON into a `map[string]interface {}`.
///
/// `null` results in an empty map; any other value than an object is an error.
pub fn object_from_slice(bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    let (value, out_of_range) = read::from_slice::<Value>(bytes)?;
    let object = into_object(value)?;
    out_of_range.map_or(Ok(object), Err)
}

/// Reads JSON into an `[]interface {}`.
///
/// `null` results in an empty one; any other value than an array is an error.
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
    /// Whether each value is on its own line, indented by two spaces per level. Default: `false`.
    pub pretty: bool,
    /// Maximum size in bytes; a longer result is [`Error::TooLarge`]. Default: no limit.
    pub limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { escape_html: true, pretty: false, limit: usize::MAX }
    }
}

/// Writes a value as `json.Marshal` does.
///
/// The keys of maps are sorted, the fields of structs keep their order, and `<`, `>` and `&` are escaped.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    to_string_with(value, Options::default())
}

/// As [`to_string`], with options.
pub fn to_string_with<T: Serialize + ?Sized>(value: &T, options: Options) -> Result<String, Error> {
    write::to_string(value, options)
}
