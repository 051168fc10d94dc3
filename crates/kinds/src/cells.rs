//! Helpers for the cells of printer columns.

use serde_json::{Map, Value};
use steersman_api::{object, table::Cell};

/// Returns the string at a path, or an empty one.
pub(crate) fn text(object: &Value, path: &[&str]) -> Cell {
    object::text(object, path).unwrap_or_default().into()
}

/// Returns the string at a path, or `otherwise`.
pub(crate) fn text_or(object: &Value, path: &[&str], otherwise: &str) -> Cell {
    object::text(object, path).unwrap_or(otherwise).into()
}

/// Returns a string, or `<none>` if it is empty.
pub(crate) fn or_none(text: impl Into<String>) -> Cell {
    let text = text.into();
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// Returns the string at a path, or `<none>` if it is absent or empty.
pub(crate) fn text_or_none(object: &Value, path: &[&str]) -> Cell {
    or_none(object::text(object, path).unwrap_or_default())
}

/// Returns the integer at a path, or 0.
pub(crate) fn number(object: &Value, path: &[&str]) -> i64 {
    object::get(object, path).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the boolean at a path, or `default`.
pub(crate) fn flag(object: &Value, path: &[&str], default: bool) -> Cell {
    object::get(object, path).and_then(Value::as_bool).unwrap_or(default).into()
}

/// Returns the list at a path, or an empty one.
pub(crate) fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    object::get(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the number of entries of the map at a path.
pub(crate) fn length(object: &Value, path: &[&str]) -> usize {
    object::get(object, path).and_then(Value::as_object).map_or(0, Map::len)
}

/// Joins one field of each item with commas.
pub(crate) fn joined(items: &[Value], key: &str) -> String {
    items.iter().filter_map(|i| i[key].as_str()).collect::<Vec<_>>().join(",")
}

/// Formats a number, or a string without quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Formats labels as `key=value`, joined with commas.
pub(crate) fn labels(map: Option<&Value>) -> String {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    pairs.map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect::<Vec<_>>().join(",")
}

/// Formats a label selector.
pub(crate) fn selector(selector: &Value) -> String {
    let mut parts: Vec<String> = vec![labels(selector.get("matchLabels"))];
    for expression in list(selector, &["matchExpressions"]) {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = list(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.retain(|p| !p.is_empty());
    parts.join(",")
}

/// Joins the first items, and appends the number of further ones.
pub(crate) fn first_of(all: &[String], most: usize, separator: &str) -> String {
    let shown = all.get(..most).unwrap_or(all).join(separator);
    match all.len().checked_sub(most) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

/// Returns `NAME`, or `NAME (default)` if an annotation marks the class as the default.
pub(crate) fn class_name(object: &Value, annotations: &[&str]) -> Cell {
    let is_default = annotations.iter().any(|a| object["metadata"]["annotations"][*a] == "true");
    let name = object::name(object);
    if is_default { format!("{name} (default)").into() } else { name.into() }
}

/// Returns cells of the columns Containers, Images and Selector, common to most workloads.
pub(crate) fn workload(column: &str, spec: &Value) -> Option<Cell> {
    let containers = list(spec, &["template", "spec", "containers"]);
    Some(match column {
        "Containers" => joined(containers, "name").into(),
        "Images" => joined(containers, "image").into(),
        "Selector" => or_none(spec.get("selector").map(selector).unwrap_or_default()),
        _ => return None,
    })
}

/// Formats access modes in their short forms.
pub(crate) fn access_modes(modes: &[Value]) -> Cell {
    let short = modes.iter().filter_map(|m| match m.as_str()? {
        "ReadWriteOnce" => Some("RWO"),
        "ReadOnlyMany" => Some("ROX"),
        "ReadWriteMany" => Some("RWX"),
        "ReadWriteOncePod" => Some("RWOP"),
        _ => None,
    });
    short.collect::<Vec<_>>().join(",").into()
}
