//! Conversion between objects and their `Scale`.

use std::sync::LazyLock;

use serde_json::{Value, json};
use steersman_api::{object, resource::Resource, strategy::ScalePaths};

/// Returns the `Scale` of an object in the version of the request.
pub(crate) fn scale_of(resource: &Resource, object: &Value) -> Value {
    to_scale(resource, paths(resource), object)
}

/// Copies the replicas of a `Scale` to its object.
pub(crate) fn take_scale(resource: &Resource, object: &mut Value, scale: &Value) {
    let replicas = object::get(scale, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    set(object, &paths(resource).replicas, replicas.into());
}

/// Returns the paths of the fields that a `Scale` maps to.
pub(crate) fn paths(resource: &Resource) -> &ScalePaths {
    static USUAL: LazyLock<ScalePaths> =
        LazyLock::new(|| ScalePaths::new("spec.replicas", "status.replicas", "spec.selector"));
    resource.strategy.scale_paths(&resource.version).unwrap_or(&USUAL)
}

/// Returns the value at a path.
pub(crate) fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |v, key| v.get(key))
}

/// Returns the `Scale` of an object, with given paths.
pub(crate) fn to_scale(resource: &Resource, paths: &ScalePaths, object: &Value) -> Value {
    let mut metadata = serde_json::Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata.insert(key.into(), value.clone());
        }
    }
    let mut status = json!({"replicas": at(object, &paths.status).and_then(Value::as_i64).unwrap_or(0)});
    let selector = match at(object, &paths.selector) {
        Some(Value::String(text)) => text.clone(),
        Some(selector @ Value::Object(_)) => {
            selector_text(selector, resource.plural == "replicationcontrollers")
        }
        _ => String::new(),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut spec = serde_json::Map::new();
    let replicas = at(object, &paths.replicas).and_then(Value::as_i64).unwrap_or(0);
    if replicas != 0 {
        spec.insert("replicas".into(), replicas.into());
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// Formats a selector object as a string.
fn selector_text(selector: &Value, plain: bool) -> String {
    let labels = if plain { Some(selector) } else { selector.get("matchLabels") };
    let mut parts: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten().filter(|_| !plain) {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.sort();
    parts.join(",")
}

/// Sets the value at a path.
pub(crate) fn set(value: &mut Value, path: &[String], leaf: Value) {
    let Some((last, head)) = path.split_last() else { return };
    let mut at = value;
    for key in head {
        at = object::ensure(at).entry(key.as_str()).or_insert(Value::Null);
    }
    object::ensure(at).insert(last.clone(), leaf);
}
