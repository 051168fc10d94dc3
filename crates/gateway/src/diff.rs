//! Differences between two objects: field by field, and as a unified diff of their YAML.

use serde_json::{Value, json};

use crate::field::join;

/// Metadata fields that the API server sets on every write.
const SERVER_SIDE: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];
/// The maximum number of changes listed.
const MOST: usize = 1000;

/// Returns the object without the fields that the API server sets on every write.
pub(crate) fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !SERVER_SIDE.contains(&name.as_str()));
    }
    object
}

/// Lists the changes between two values, by path. Null at the top level means that there is no
/// object.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    found.truncate(MOST);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<Value>) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                match new.get(key) {
                    Some(other) => compare(&join(path, key), value, other, found),
                    None => found.push(
                        json!({"path": join(path, key), "op": "remove", "before": value, "after": null}),
                    ),
                }
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                found.push(json!({"path": join(path, key), "op": "add", "before": null, "after": value}));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (index, value) in old.iter().enumerate() {
                let path = format!("{path}[{index}]");
                match new.get(index) {
                    Some(other) => compare(&path, value, other, found),
                    None => found.push(json!({"path": path, "op": "remove", "before": value, "after": null})),
                }
            }
            for (index, value) in new.iter().enumerate().skip(old.len()) {
                found.push(
                    json!({"path": format!("{path}[{index}]"), "op": "add", "before": null, "after": value}),
                );
            }
        }
        (Value::Null, Value::Object(new)) if path.is_empty() => {
            for (key, value) in new {
                found.push(json!({"path": join("", key), "op": "add", "before": null, "after": value}));
            }
        }
        (Value::Object(old), Value::Null) if path.is_empty() => {
            for (key, value) in old {
                found.push(json!({"path": join("", key), "op": "remove", "before": value, "after": null}));
            }
        }
        _ => found.push(json!({"path": path, "op": "replace", "before": before, "after": after})),
    }
}

/// Returns the difference as a unified diff of the YAML; empty if there is none.
pub(crate) fn yaml(before: &Value, after: &Value, from: &str, to: &str) -> String {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        value => steersman_yaml::to_string(value).unwrap_or_default(),
    };
    let (before, after) = (text(before), text(after));
    similar::TextDiff::from_lines(&before, &after)
        .unified_diff()
        .context_radius(3)
        .header(from, to)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_by_path() {
        let before = json!({"a": 1, "list": [1, {"x": 1}], "gone": true, "m": {"k.v": "1"}});
        let after = json!({"a": 2, "list": [1, {"x": 2}, 3], "m": {"k.v": "2"}, "new": {"y": 1}});
        let found = changes(&before, &after);
        let paths: Vec<_> =
            found.iter().map(|change| format!("{} {}", change["op"], change["path"])).collect();
        assert_eq!(
            paths,
            [
                "\"replace\" \"a\"",
                "\"remove\" \"gone\"",
                "\"replace\" \"list[1].x\"",
                "\"add\" \"list[2]\"",
                "\"replace\" \"m[\\\"k.v\\\"]\"",
                "\"add\" \"new\"",
            ]
        );
        assert!(changes(&before, &before).is_empty());
    }

    #[test]
    fn yaml_is_a_unified_diff() {
        let text = yaml(&json!({"a": 1, "b": 2}), &json!({"a": 1, "b": 3}), "live", "dry run");
        assert_eq!(text, "--- live\n+++ dry run\n@@ -1,2 +1,2 @@\n a: 1\n-b: 2\n+b: 3\n");
        assert_eq!(yaml(&json!({"a": 1}), &json!({"a": 1}), "x", "y"), "");
    }
}
