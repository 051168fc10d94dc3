//! JSON, YAML and TOML, written and read.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use steersman_gotemplate::{CallError, Funcs, List, ListType, Map, MapType, Str, Value};
use steersman_yaml::json::{self, Options};
use steersman_yaml::{Error, Node};

use super::args::define;
use super::gofmt::MAX_DEPTH;
use super::{Host, deeper, toml, unicode};

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "toYaml" (value: &Value) => steersman_yaml::to_string(value).map_or_else(|_| String::new(), trimmed);
        "toYamlPretty" (value: &Value) =>
            steersman_yaml::to_string_pretty(&without_nil(value, 0)).map_or_else(|_| String::new(), trimmed);
        "fromYaml" (text: &Str) => map_or_error(yaml_map(text));
        "fromYamlArray" (text: &Str) => list_or_error(yaml_list(text));
        "toJson" (value: &Value) => to_json(value, Options::default()).unwrap_or_default();
        "mustToJson" (value: &Value) => to_json(value, Options::default()).map_err(failed);
        "toPrettyJson" (value: &Value) => to_json(value, PRETTY).unwrap_or_default();
        "mustToPrettyJson" (value: &Value) => to_json(value, PRETTY).map_err(failed);
        // The one panics with the error that the other gives.
        "toRawJson" | "mustToRawJson" (value: &Value) => to_json(value, RAW).map_err(failed);
        "fromJson" (text: &Str) => map_or_error(json::from_slice(text).and_then(|json| match json {
            Json::Null => Ok(Map::nil(MapType::ANY)),
            _ => json::object_from_slice(text).map(json_map),
        }));
        "fromJsonArray" (text: &Str) => list_or_error(json::from_slice(text).and_then(|json| match json {
            Json::Null => Ok(List::nil(ListType::ANY)),
            _ => json::array_from_slice(text).map(json_list),
        }));
        "mustFromJson" (text: &Str) => json::from_slice(text).map(json_value).map_err(failed);
        "toToml" (value: &Value) => match value {
            Value::Nil => Err(CallError::new("reflect: call of reflect.Value.Type on zero Value")),
            value => Ok(toml::encode(value).unwrap_or_else(String::into_bytes)),
        };
        "fromToml" (text: &Str) => map_or_error(toml::decode(text));
    });
}

const PRETTY: Options = Options { escape_html: true, pretty: true };
const RAW: Options = Options { escape_html: false, pretty: false };

fn failed(error: Error) -> CallError {
    CallError::new(error.to_string())
}

fn to_json(value: &Value, options: Options) -> Result<String, Error> {
    let text = json::to_string_with(value, options)?;
    if !text.contains(char::REPLACEMENT_CHARACTER) {
        return Ok(text);
    }
    // Go escapes the U+FFFD that stands for an invalid byte, but not one that was there. A character that is never used
    // in text marks the former.
    const MARK: char = '\u{10FFFF}';
    let marked = json::to_string_with(&marked(value, MARK, 0), options)?;
    Ok(marked.replace(MARK, "\\ufffd"))
}

/// The value with its invalid bytes replaced.
fn marked(value: &Value, mark: char, depth: usize) -> Value {
    let text = |text: &Str| -> Str {
        if text.as_str().is_some() {
            return text.clone();
        }
        let replace = |(c, raw): (char, &[u8])| if raw.len() == 1 && !c.is_ascii() { mark } else { c };
        unicode::chars(text).map(replace).collect::<String>().into()
    };
    rebuilt(value, depth, &|value, depth| marked(value, mark, depth), &text)
}

/// The value with empty slices and maps in place of nil ones, which goyaml does not tell apart.
fn without_nil(value: &Value, depth: usize) -> Value {
    rebuilt(value, depth, &without_nil, &Str::clone)
}

/// The value made anew: what it contains by `inner`, keys and strings by `text`.
fn rebuilt(
    value: &Value,
    depth: usize,
    inner: &dyn Fn(&Value, usize) -> Value,
    text: &dyn Fn(&Str) -> Str,
) -> Value {
    match value {
        // One that contains itself is left for the writer to find.
        _ if depth > MAX_DEPTH => value.clone(),
        Value::String(string) => Value::String(text(string)),
        Value::List(list) => Value::List(List::new(
            list.ty(),
            list.iter().map(|item| deeper(|| inner(item, depth + 1))).collect(),
        )),
        Value::Map(map) => {
            let entries = map
                .borrow()
                .iter()
                .map(|(key, item)| (text(key), deeper(|| inner(item, depth + 1))))
                .collect();
            Value::Map(Map::with_type(map.ty(), entries))
        }
        other => other.clone(),
    }
}

fn trimmed(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// The map, or one that holds the error, as Helm gives it to templates.
fn map_or_error<E: ToString>(map: Result<Map, E>) -> Map {
    map.unwrap_or_else(|error| {
        let entries = BTreeMap::from([("Error".into(), Value::string(error.to_string()))]);
        Map::with_type(MapType::ANY, entries)
    })
}

/// The list, or one that holds the error.
fn list_or_error(list: Result<List, Error>) -> List {
    list.unwrap_or_else(|error| List::new(ListType::ANY, vec![Value::string(error.to_string())]))
}

fn yaml_map(text: &[u8]) -> Result<Map, Error> {
    match steersman_yaml::parse(text) {
        Ok(Node::Mapping(mapping)) => Ok(node_map(&mapping)),
        Ok(Node::Null) => Ok(Map::new()),
        // Read again for the error alone.
        _ => steersman_yaml::object_from_slice(text).map(json_map),
    }
}

fn yaml_list(text: &[u8]) -> Result<List, Error> {
    match steersman_yaml::parse(text) {
        Ok(Node::Sequence(items)) => Ok(List::new(ListType::ANY, items.iter().map(node_value).collect())),
        Ok(Node::Null) => Ok(List::new(ListType::ANY, Vec::new())),
        _ => steersman_yaml::array_from_slice(text).map(json_list),
    }
}

fn node_map(mapping: &steersman_yaml::Mapping<'_>) -> Map {
    Map::with_type(MapType::ANY, mapping.iter().map(|(key, node)| (key.into(), node_value(node))).collect())
}

/// Every number as a `float64`, as JSON gives them to Go.
fn node_value(node: &Node<'_>) -> Value {
    match node {
        Node::Null => Value::Nil,
        Node::Bool(b) => Value::Bool(*b),
        Node::Int(n) => Value::float(*n as f64),
        Node::Uint(n) => Value::float(*n as f64),
        Node::Float(n) => Value::float(*n),
        Node::String(text) => Value::string(&**text),
        Node::Sequence(items) => Value::list(items.iter().map(node_value).collect()),
        Node::Mapping(mapping) => Value::Map(node_map(mapping)),
    }
}

fn json_value(json: Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(b),
        Json::Number(n) => Value::float(n.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::string(text),
        Json::Array(items) => Value::List(json_list(items)),
        Json::Object(entries) => Value::Map(json_map(entries)),
    }
}

fn json_list(items: Vec<Json>) -> List {
    List::new(ListType::ANY, items.into_iter().map(json_value).collect())
}

fn json_map(entries: serde_json::Map<String, Json>) -> Map {
    Map::with_type(
        MapType::ANY,
        entries.into_iter().map(|(key, json)| (key.into(), json_value(json))).collect(),
    )
}
