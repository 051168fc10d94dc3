//! Conversion between served versions of one kind.

use serde_json::{Map, Value, json};

use crate::object;

/// Rewrites `object` from one group and version into another; `to_text` is the new apiVersion.
pub(super) fn convert(mut object: Value, from: (&str, &str), to: (&str, &str), to_text: &str) -> Value {
    match (from, to) {
        (("", "v1"), ("events.k8s.io", "v1")) => rename_event(&mut object, false),
        (("events.k8s.io", "v1"), ("", "v1")) => rename_event(&mut object, true),
        (("autoscaling", "v1"), ("autoscaling", "v2")) => autoscaler_up(&mut object),
        (("autoscaling", "v2"), ("autoscaling", "v1")) => autoscaler_down(&mut object),
        _ => {}
    }
    object::ensure(&mut object).insert("apiVersion".into(), to_text.into());
    object
}

/// Names of an Event's fields in the core group and in events.k8s.io.
const EVENT_FIELDS: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn rename_event(object: &mut Value, to_core: bool) {
    let root = object::ensure(object);
    for (core, newer) in EVENT_FIELDS {
        let (from, to) = if to_core { (newer, core) } else { (core, newer) };
        if let Some(value) = root.remove(from) {
            root.insert(to.into(), value);
        }
    }
    let (from, to) = if to_core {
        ("reportingController", "reportingComponent")
    } else {
        ("reportingComponent", "reportingController")
    };
    if let Some(value) = root.remove(from) {
        root.insert(to.into(), value);
    }
}

/// Version 1 knows one metric: a target for the use of processors.
fn autoscaler_up(object: &mut Value) {
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

fn autoscaler_down(object: &mut Value) {
    let is_cpu = |m: &Value| m["type"] == "Resource" && m["resource"]["name"] == "cpu";
    let spec = object::child(object, "spec");
    take_metric(spec, "metrics", is_cpu, |m| m["resource"]["target"]["averageUtilization"].clone())
        .and_then(|v| spec.insert("targetCPUUtilizationPercentage".into(), v));
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
