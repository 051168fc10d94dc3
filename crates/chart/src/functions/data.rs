//! Encoding and decoding JSON, YAML and TOML.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use steersman_gotemplate::{Budget, CallError, Exceeded, Funcs, List, ListType, Map, MapType, Str, Value};
use steersman_yaml::json::{self, Options};
use steersman_yaml::{Error, Node};

use super::args::define;
use super::gofmt::MAX_DEPTH;
use super::{Host, TEXT, deeper, map_memory, toml, unicode};

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "toYaml" [budget] (value: &Value) => {
            let yaml = steersman_yaml::to_string_within(budget.remaining_memory(), &value.within(budget));
            or_else(written(budget, yaml).map(trimmed), |_| String::new())?
        };
        "toYamlPretty" [budget] (value: &Value) => {
            let value = without_nil(budget, value, 0)?;
            let yaml = steersman_yaml::to_string_pretty_within(budget.remaining_memory(), &value.within(budget));
            or_else(written(budget, yaml).map(trimmed), |_| String::new())?
        };
        "fromYaml" [budget] (text: &Str) => or_else(yaml_map(budget, text), error_map)?;
        "fromYamlArray" [budget] (text: &Str) => or_else(yaml_list(budget, text), error_list)?;
        "toJson" [budget] (value: &Value) =>
            or_else(to_json(budget, value, Options::default()), |_| String::new())?;
        "mustToJson" [budget] (value: &Value) => to_json(budget, value, Options::default()).map_err(failed);
        "toPrettyJson" [budget] (value: &Value) => or_else(to_json(budget, value, PRETTY), |_| String::new())?;
        "mustToPrettyJson" [budget] (value: &Value) => to_json(budget, value, PRETTY).map_err(failed);
        // One panics with the error that the other returns.
        "toRawJson" | "mustToRawJson" [budget] (value: &Value) => to_json(budget, value, RAW).map_err(failed);
        "fromJson" [budget] (text: &Str) => or_else(json_object(budget, text), error_map)?;
        "fromJsonArray" [budget] (text: &Str) => or_else(json_array(budget, text), error_list)?;
        "mustFromJson" [budget] (text: &Str) => match from_json(budget, text) {
            Ok(json) => json_value(budget, json),
            Err(failure) => Err(failed(failure)),
        };
        "toToml" [budget] (value: &Value) => match value {
            Value::Nil => Err(CallError::new("reflect: call of reflect.Value.Type on zero Value")),
            value => Ok(toml::encode(budget, value).unwrap_or_else(String::into_bytes)),
        };
        "fromToml" [budget] (text: &Str) => {
            budget.charge_cost(text.len() / 2)?;
            budget.ensure_memory(toml::reading_memory(text))?;
            let map = toml::decode(text).unwrap_or_else(error_map);
            budget.charge_memory(size_of_map(&map))?;
            map
        };
    });
}

const PRETTY: Options = Options { escape_html: true, pretty: true, limit: usize::MAX };
const RAW: Options = Options { escape_html: false, pretty: false, limit: usize::MAX };

/// Why encoding or decoding failed.
enum Failure {
    /// Ends the render, as when the budget is exhausted.
    Call(CallError),
    /// The input is invalid, which some functions do not treat as a failure.
    Invalid(Error),
}

impl<E: Into<CallError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Call(error.into())
    }
}

fn failed(failure: Failure) -> CallError {
    match failure {
        Failure::Call(error) => error,
        Failure::Invalid(error) => CallError::new(error.to_string()),
    }
}

/// Returns the result, or `instead` of the error if the input is invalid.
fn or_else<T>(result: Result<T, Failure>, instead: impl FnOnce(Error) -> T) -> Result<T, CallError> {
    match result {
        Ok(value) => Ok(value),
        Err(Failure::Invalid(error)) => Ok(instead(error)),
        Err(Failure::Call(error)) => Err(error),
    }
}

/// Checks the result of encoding within the remaining memory; an output too large exhausts the budget.
fn written(budget: &Budget, text: Result<String, Error>) -> Result<String, Failure> {
    if let Err(Error::TooLarge { .. }) = &text {
        budget.charge_memory(usize::MAX)?;
    }
    budget.check()?;
    text.map_err(Failure::Invalid)
}

/// Fails unless there is memory to decode the text.
fn ensure_readable(budget: &Budget, text: &[u8]) -> Result<(), Exceeded> {
    // A byte or two are read in the time that a cost of 1 stands for.
    budget.charge_cost(text.len() / 2)?;
    budget.ensure_memory(steersman_yaml::reading_memory(text))
}

fn from_json(budget: &Budget, text: &[u8]) -> Result<Json, Failure> {
    ensure_readable(budget, text)?;
    json::from_slice(text).map_err(Failure::Invalid)
}

fn json_object(budget: &Budget, text: &[u8]) -> Result<Map, Failure> {
    match from_json(budget, text)? {
        Json::Null => Ok(Map::nil(MapType::ANY)),
        Json::Object(entries) => Ok(json_map(budget, entries)?),
        // Decoded again only for the error.
        _ => json::object_from_slice(text).map(|_| Map::new()).map_err(Failure::Invalid),
    }
}

fn json_array(budget: &Budget, text: &[u8]) -> Result<List, Failure> {
    match from_json(budget, text)? {
        Json::Null => Ok(List::nil(ListType::ANY)),
        Json::Array(items) => Ok(json_list(budget, items)?),
        _ => json::array_from_slice(text).map(|_| List::nil(ListType::ANY)).map_err(Failure::Invalid),
    }
}

fn to_json(budget: &Budget, value: &Value, options: Options) -> Result<String, Failure> {
    let limited = || Options { limit: budget.remaining_memory(), ..options };
    let text = written(budget, json::to_string_with(&value.within(budget), limited()))?;
    if !text.contains(char::REPLACEMENT_CHARACTER) {
        return Ok(text);
    }
    budget.charge_memory(text.len())?;
    // Go escapes the U+FFFD that replaces an invalid byte, but not one in the input. A character that never occurs in
    // text marks the former.
    const MARK: char = '\u{10FFFF}';
    let marked = marked(budget, value, MARK, 0)?;
    let text = written(budget, json::to_string_with(&marked.within(budget), limited()))?;
    Ok(text.replace(MARK, "\\ufffd"))
}

/// Replaces invalid bytes by `mark`.
fn marked(budget: &Budget, value: &Value, mark: char, depth: usize) -> Result<Value, Exceeded> {
    let text = |text: &Str| -> Result<Str, Exceeded> {
        if text.as_str().is_some() {
            return Ok(text.clone());
        }
        // The mark is four bytes long.
        budget.charge_memory(text.len().saturating_mul(4))?;
        let replace = |(c, raw): (char, &[u8])| if raw.len() == 1 && !c.is_ascii() { mark } else { c };
        Ok(unicode::chars(text).map(replace).collect::<String>().into())
    };
    rebuilt(budget, value, depth, &|value, depth| marked(budget, value, mark, depth), &text)
}

/// Replaces nil slices and maps by empty ones, which goyaml writes alike.
fn without_nil(budget: &Budget, value: &Value, depth: usize) -> Result<Value, Exceeded> {
    rebuilt(budget, value, depth, &|value, depth| without_nil(budget, value, depth), &|text| Ok(text.clone()))
}

/// Rebuilds a value: its elements with `inner`, its keys and strings with `text`.
fn rebuilt(
    budget: &Budget,
    value: &Value,
    depth: usize,
    inner: &dyn Fn(&Value, usize) -> Result<Value, Exceeded>,
    text: &dyn Fn(&Str) -> Result<Str, Exceeded>,
) -> Result<Value, Exceeded> {
    Ok(match value {
        // A value that contains itself is left to the encoder to detect.
        _ if depth > MAX_DEPTH => value.clone(),
        Value::String(string) => Value::String(text(string)?),
        Value::List(list) => {
            budget.charge_elements(2 + list.len())?;
            let items = list.iter().map(|item| deeper(|| inner(item, depth + 1)));
            Value::List(List::new(list.ty(), items.collect::<Result<_, _>>()?))
        }
        Value::Map(map) => {
            budget.charge_memory(map_memory(map.len()))?;
            let entries = map
                .borrow()
                .iter()
                .map(|(key, item)| Ok((text(key)?, deeper(|| inner(item, depth + 1))?)))
                .collect::<Result<_, Exceeded>>()?;
            Value::Map(Map::with_type(map.ty(), entries))
        }
        other => other.clone(),
    })
}

fn trimmed(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// Builds a map with an error, as Helm returns it to templates.
fn error_map(error: impl ToString) -> Map {
    let entries = BTreeMap::from([("Error".into(), Value::string(error.to_string()))]);
    Map::with_type(MapType::ANY, entries)
}

/// Builds a list with an error, as Helm returns it to templates.
fn error_list(error: Error) -> List {
    List::new(ListType::ANY, vec![Value::string(error.to_string())])
}

fn yaml_map(budget: &Budget, text: &[u8]) -> Result<Map, Failure> {
    ensure_readable(budget, text)?;
    match steersman_yaml::parse(text) {
        Ok(Node::Mapping(mapping)) => Ok(node_map(budget, &mapping)?),
        Ok(Node::Null) => Ok(Map::new()),
        // Decoded again only for the error.
        _ => steersman_yaml::object_from_slice(text).map(|_| Map::new()).map_err(Failure::Invalid),
    }
}

fn yaml_list(budget: &Budget, text: &[u8]) -> Result<List, Failure> {
    ensure_readable(budget, text)?;
    match steersman_yaml::parse(text) {
        Ok(Node::Sequence(items)) => {
            let items = items.iter().map(|item| node_value(budget, item));
            Ok(List::new(ListType::ANY, items.collect::<Result<_, _>>()?))
        }
        Ok(Node::Null) => Ok(List::new(ListType::ANY, Vec::new())),
        _ => {
            let list = steersman_yaml::array_from_slice(text);
            list.map(|_| List::new(ListType::ANY, Vec::new())).map_err(Failure::Invalid)
        }
    }
}

fn node_map(budget: &Budget, mapping: &steersman_yaml::Mapping<'_>) -> Result<Map, Exceeded> {
    budget.charge_memory(map_memory(mapping.len()) + mapping.len() * TEXT)?;
    let entries = mapping.iter().map(|(key, node)| Ok((key.into(), node_value(budget, node)?)));
    Ok(Map::with_type(MapType::ANY, entries.collect::<Result<_, Exceeded>>()?))
}

/// Converts a node, with every number a `float64`, as JSON decodes in Go.
fn node_value(budget: &Budget, node: &Node<'_>) -> Result<Value, Exceeded> {
    Ok(match node {
        Node::Null => Value::Nil,
        Node::Bool(b) => Value::Bool(*b),
        Node::Int(n) => Value::float(*n as f64),
        Node::Uint(n) => Value::float(*n as f64),
        Node::Float(n) => Value::float(*n),
        Node::String(text) => made_text(budget, text)?,
        Node::Sequence(items) => {
            budget.charge_elements(2 + items.len())?;
            let items = items.iter().map(|item| node_value(budget, item));
            Value::list(items.collect::<Result<_, _>>()?)
        }
        Node::Mapping(mapping) => Value::Map(node_map(budget, mapping)?),
    })
}

fn made_text(budget: &Budget, text: &str) -> Result<Value, Exceeded> {
    budget.charge_memory(TEXT + text.len())?;
    Ok(Value::string(text))
}

fn json_value(budget: &Budget, json: Json) -> Result<Value, CallError> {
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(b),
        Json::Number(n) => Value::float(n.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => made_text(budget, &text)?,
        Json::Array(items) => Value::List(json_list(budget, items)?),
        Json::Object(entries) => Value::Map(json_map(budget, entries)?),
    })
}

fn json_list(budget: &Budget, items: Vec<Json>) -> Result<List, CallError> {
    budget.charge_elements(2 + items.len())?;
    let items = items.into_iter().map(|item| json_value(budget, item));
    Ok(List::new(ListType::ANY, items.collect::<Result<_, _>>()?))
}

fn json_map(budget: &Budget, entries: serde_json::Map<String, Json>) -> Result<Map, CallError> {
    budget.charge_memory(map_memory(entries.len()) + entries.len() * TEXT)?;
    let entries = entries.into_iter().map(|(key, json)| Ok((key.into(), json_value(budget, json)?)));
    Ok(Map::with_type(MapType::ANY, entries.collect::<Result<_, CallError>>()?))
}

/// Returns the memory of a newly created map with all its contents.
fn size_of_map(map: &Map) -> usize {
    let entries = map.borrow();
    let inside = entries.iter().map(|(key, value)| TEXT + key.len() + size_of_value(value));
    map_memory(entries.len()) + inside.sum::<usize>()
}

fn size_of_value(value: &Value) -> usize {
    match value {
        Value::String(text) | Value::Bytes(text) => TEXT + text.len(),
        Value::List(items) => {
            items.iter().map(|item| size_of::<Value>() + deeper(|| size_of_value(item))).sum()
        }
        Value::Map(map) => deeper(|| size_of_map(map)),
        _ => 0,
    }
}
