//! Conversion between `autoscaling/v1` and `autoscaling/v2`.

use serde_json::{Map, Value, json};
use steersman_api::object;

/// Converts from v1, which has CPU utilisation as its only metric, and other fields in annotations.
pub(crate) fn from_v1(object: &mut Value) {
    if let Some(behavior) = take_annotation(object, BEHAVIOR).filter(Value::is_object) {
        object::child(object, "spec").insert("behavior".into(), renamed(&behavior, lower));
    }
    if let Some(conditions) = take_annotation(object, CONDITIONS).filter(Value::is_array) {
        object::child(object, "status").insert("conditions".into(), conditions);
    }
    let spec = object::child(object, "spec");
    if let Some(target) = spec.remove("targetCPUUtilizationPercentage") {
        spec.insert(
            "metrics".into(),
            json!([{
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}},
            }]),
        );
    }
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    if let Some(current) = status.remove("currentCPUUtilizationPercentage") {
        status.insert(
            "currentMetrics".into(),
            json!([{
                "type": "Resource",
                "resource": {"name": "cpu", "current": {"averageUtilization": current}},
            }]),
        );
    }
}

/// Annotations of v1 for fields that it lacks; `behavior` has the JSON of kube-apiserver's internal type.
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// Fields of the internal types, in order.
const BEHAVIOR_FIELDS: [&str; 2] = ["scaleUp", "scaleDown"];

const RULES_FIELDS: [&str; 4] = ["stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"];

const POLICY_FIELDS: [&str; 3] = ["type", "value", "periodSeconds"];

fn behavior_text(behavior: &Value) -> String {
    let object = |value: &Value, fields: &[&str], inner: &dyn Fn(&str, &Value) -> String| {
        if value.is_null() {
            return "null".to_owned();
        }
        let fields: Vec<String> = fields
            .iter()
            .map(|field| format!("\"{}\":{}", upper(field), inner(field, &value[*field])))
            .collect();
        format!("{{{}}}", fields.join(","))
    };
    let policy = |value: &Value| object(value, &POLICY_FIELDS, &|_, value| value.to_string());
    let rules = |value: &Value| {
        object(value, &RULES_FIELDS, &|_, value| match value {
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(policy).collect();
                format!("[{}]", items.join(","))
            }
            other => other.to_string(),
        })
    };
    object(behavior, &BEHAVIOR_FIELDS, &|_, value| rules(value))
}

fn upper(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
}

fn lower(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_ascii_lowercase().to_string() + chars.as_str()).unwrap_or_default()
}

/// Renames all fields of a value, and drops null ones.
fn renamed(value: &Value, rename: fn(&str) -> String) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (rename(key), renamed(value, rename))).collect())
        }
        Value::Array(items) => items.iter().map(|item| renamed(item, rename)).collect(),
        other => other.clone(),
    }
}

fn annotate(object: &mut Value, key: &str, text: String) {
    let metadata = object::metadata(object);
    let annotations = object::ensure(metadata.entry("annotations").or_insert(Value::Null));
    annotations.insert(key.into(), text.into());
}

/// Removes an annotation, and parses its JSON.
fn take_annotation(object: &mut Value, key: &str) -> Option<Value> {
    let annotations = object.pointer_mut("/metadata/annotations")?.as_object_mut()?;
    let text = annotations.remove(key)?;
    if annotations.is_empty() {
        object::metadata(object).remove("annotations");
    }
    serde_json::from_str(text.as_str()?).ok()
}

/// Converts to v1, storing fields that it lacks in annotations.
pub(crate) fn to_v1(object: &mut Value) {
    let is_cpu = |m: &Value| m["type"] == "Resource" && m["resource"]["name"] == "cpu";
    let spec = object::child(object, "spec");
    if let Some(behavior) = spec.remove("behavior").filter(|behavior| !behavior.is_null()) {
        annotate(object, BEHAVIOR, behavior_text(&behavior));
    }
    let spec = object::child(object, "spec");
    take_metric(spec, "metrics", is_cpu, |m| m["resource"]["target"]["averageUtilization"].clone())
        .and_then(|v| spec.insert("targetCPUUtilizationPercentage".into(), v));
    let conditions =
        object.get_mut("status").and_then(Value::as_object_mut).and_then(|s| s.remove("conditions"));
    if let Some(conditions) = conditions.filter(|list| list.as_array().is_some_and(|list| !list.is_empty())) {
        annotate(object, CONDITIONS, conditions.to_string());
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        take_metric(status, "currentMetrics", is_cpu, |m| {
            m["resource"]["current"]["averageUtilization"].clone()
        })
        .and_then(|v| status.insert("currentCPUUtilizationPercentage".into(), v));
    }
}

fn take_metric(
    map: &mut Map<String, Value>,
    field: &str,
    matches: impl Fn(&Value) -> bool,
    value: impl Fn(&Value) -> Value,
) -> Option<Value> {
    let list = map.remove(field)?;
    let found = list.as_array()?.iter().find(|m| matches(m))?;
    Some(value(found)).filter(|v| !v.is_null())
}
