//! Generates changes of a sample's spec, one property at a time, that its definition's schema allows.

use serde_json::{Map, Value, json};

use crate::oracle::Objects;

/// Maximum depth of properties.
const DEPTH: usize = 12;
/// Maximum number of changes of a sample.
const CHANGES: usize = 200;

/// A change of one property, and its inverse.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PropertyChange {
    /// The property, such as `.spec.size`, and its new value.
    pub(crate) description: String,
    /// Sort order, lowest first: numbers before booleans and strings. `None` for a removal.
    pub(crate) weight: Option<u8>,
    /// The merge patch that applies it.
    pub(crate) patch: Value,
    /// The merge patch that reverts it.
    pub(crate) back: Value,
}

/// The states before, during and after a change.
#[derive(Debug)]
pub(crate) struct PropertyTrial {
    pub(crate) change: PropertyChange,
    /// The key of the object that was changed.
    pub(crate) key: String,
    pub(crate) before: Objects,
    pub(crate) after: Objects,
    pub(crate) back: Objects,
}

/// Returns all changes of an object's spec that its definition's schema allows.
pub(crate) fn changes(definition: &Value, object: &Value) -> Vec<PropertyChange> {
    let Some(schema) = spec_schema(definition, object) else { return Vec::new() };
    let mut changes = Changes { path: vec!["spec".to_owned()], found: Vec::new() };
    changes.walk(schema, object.get("spec"), true);
    changes.found.truncate(CHANGES);
    changes.found
}

/// Returns changes of existing numbers and booleans where the schema accepts anything.
///
/// This is common for definitions of roles and charts. Such a field may be unused, so its changes need not have an effect.
pub(crate) fn undeclared(definition: &Value, object: &Value) -> Vec<PropertyChange> {
    let Some(schema) = spec_schema(definition, object) else { return Vec::new() };
    let mut changes = Changes { path: vec!["spec".to_owned()], found: Vec::new() };
    changes.walk_open(schema, &object["spec"]);
    changes.found.truncate(CHANGES);
    changes.found
}

/// Returns the schema of an object's spec from its definition.
fn spec_schema<'a>(definition: &'a Value, object: &Value) -> Option<&'a Value> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let mut versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let found = versions.find(|one| one["name"] == version)?;
    Some(&found["schema"]["openAPIV3Schema"]["properties"]["spec"])
}

struct Changes {
    path: Vec<String>,
    found: Vec<PropertyChange>,
}

impl Changes {
    fn walk(&mut self, schema: &Value, value: Option<&Value>, is_required: bool) {
        if self.path.len() > DEPTH || self.found.len() >= CHANGES {
            return;
        }
        if let Some(other) = other_value(schema, value.unwrap_or(&schema["default"])) {
            self.add(&other, value);
        }
        if let (Some(value), true) =
            (value, self.path.len() > 1 && !is_required && schema["default"].is_null())
        {
            self.add(&Value::Null, Some(value));
        }
        if let (Some(Value::Object(_)) | None, Some(properties)) = (value, schema["properties"].as_object()) {
            // Creating a missing object could require more than one property.
            if value.is_none() && self.path.len() > 1 {
                return;
            }
            let required = |name: &String| {
                schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name.as_str()))
            };
            for (name, schema) in properties {
                self.path.push(name.clone());
                self.walk(schema, value.and_then(|value| value.get(name)), required(name));
                self.path.pop();
            }
        }
    }

    /// Collects changes of undeclared values below a schema that preserves unknown fields.
    fn walk_open(&mut self, schema: &Value, value: &Value) {
        if self.path.len() > DEPTH || self.found.len() >= CHANGES {
            return;
        }
        let is_open = schema.is_null() || schema["x-kubernetes-preserve-unknown-fields"] == true;
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let declared = &schema["properties"][name.as_str()];
                    if is_open || !declared.is_null() {
                        self.path.push(name.clone());
                        self.walk_open(declared, value);
                        self.path.pop();
                    }
                }
            }
            Value::Bool(_) | Value::Number(_) if schema.is_null() => {
                let kind = if value.is_boolean() { "boolean" } else { "integer" };
                if let Some(other) = other_value(&json!({ "type": kind }), value) {
                    self.add(&other, Some(value));
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, new: &Value, old: Option<&Value>) {
        let nested = |value: &Value| {
            let wrap = |inner, name: &String| Value::Object(Map::from_iter([(name.clone(), inner)]));
            self.path.iter().rev().fold(value.clone(), wrap)
        };
        let old = old.unwrap_or(&Value::Null);
        let (patch, back) = (nested(new), nested(&way_back(new, old)));
        let (shown, path) = (
            |value: &Value| if value.is_null() { "nothing".to_owned() } else { value.to_string() },
            self.path.join("."),
        );
        let description = format!(".{path} from {} to {}", shown(old), shown(new));
        let weight = match new {
            Value::Null => None,
            Value::Number(_) => Some(0),
            Value::Bool(_) => Some(1),
            Value::String(_) => Some(2),
            Value::Array(_) | Value::Object(_) => Some(3),
        };
        self.found.push(PropertyChange { description, weight, patch, back });
    }
}

/// Returns the merge patch that restores a value.
fn way_back(new: &Value, old: &Value) -> Value {
    let (Value::Object(new), Value::Object(old)) = (new, old) else { return old.clone() };
    let added = new.keys().filter(|key| !old.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    Value::Object(old.iter().map(|(key, value)| (key.clone(), value.clone())).chain(added).collect())
}

/// Returns a different valid value of a property.
fn other_value(schema: &Value, value: &Value) -> Option<Value> {
    if let Some(allowed) = schema["enum"].as_array() {
        return allowed.iter().find(|allowed| *allowed != value).cloned();
    }
    let bound = |name: &str| schema[name].as_i64();
    match (schema["type"].as_str().unwrap_or_default(), value) {
        ("boolean", value) => Some(json!(value != true)),
        ("integer" | "number" | "", Value::Number(number)) => {
            let number = number.as_i64()?;
            let higher =
                number.checked_add(1).filter(|next| bound("maximum").is_none_or(|most| *next <= most));
            let lower =
                number.checked_sub(1).filter(|next| bound("minimum").is_none_or(|least| *next >= least));
            higher.or(lower).map(Value::from)
        }
        ("string", Value::String(text)) if schema["pattern"].is_null() && schema["format"].is_null() => {
            let longer = format!("{text}-changed");
            let length = i64::try_from(longer.chars().count()).ok()?;
            bound("maxLength").is_none_or(|most| length <= most).then(|| longer.into())
        }
        ("array", Value::Array(items)) => {
            let least = bound("minItems").unwrap_or_default();
            let (_, shorter) = items.split_last()?;
            (i64::try_from(shorter.len()).ok()? >= least).then(|| shorter.into())
        }
        ("object", value) if schema["additionalProperties"]["type"] == "string" => {
            let mut entries = value.as_object().cloned().unwrap_or_default();
            entries.insert("simulated".into(), "changed".into());
            Some(Value::Object(entries))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_is_changed_by_itself_and_back() {
        let definition = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": {
            "type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "maximum": 2},
                "paused": {"type": "boolean"},
                "image": {"type": "string"},
                "host": {"type": "string", "pattern": "^[a-z]+$"},
                "level": {"type": "string", "enum": ["low", "high"], "default": "low"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "nested": {"type": "object", "properties": {"ports": {"type": "array", "items": {"type": "integer"}}}},
                "absent": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
            },
        }}}}}]}});
        let object = json!({"apiVersion": "example.com/v1", "spec": {
            "size": 2, "image": "busybox", "host": "a", "labels": {"a": "b"}, "nested": {"ports": [1, 2]},
        }});
        let found = changes(&definition, &object);
        let descriptions: Vec<&str> = found.iter().map(|change| change.description.as_str()).collect();
        assert_eq!(
            descriptions,
            [
                ".spec.host from \"a\" to nothing",
                ".spec.image from \"busybox\" to \"busybox-changed\"",
                ".spec.image from \"busybox\" to nothing",
                ".spec.labels from {\"a\":\"b\"} to {\"a\":\"b\",\"simulated\":\"changed\"}",
                ".spec.labels from {\"a\":\"b\"} to nothing",
                ".spec.level from nothing to \"high\"",
                ".spec.nested from {\"ports\":[1,2]} to nothing",
                ".spec.nested.ports from [1,2] to [1]",
                ".spec.nested.ports from [1,2] to nothing",
                ".spec.paused from nothing to true",
                ".spec.size from 2 to 1",
            ]
        );
        assert_eq!(found[3].back, json!({"spec": {"labels": {"a": "b", "simulated": null}}}));
        assert_eq!(found[10].patch, json!({"spec": {"size": 1}}));
        assert_eq!(found[10].back, json!({"spec": {"size": 2}}));
        assert_eq!(found[9].back, json!({"spec": {"paused": null}}));
    }

    #[test]
    fn what_a_schema_leaves_open_is_changed_where_the_object_has_it() {
        let found = |spec: Value| {
            let schema = json!({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "declared": {"type": "integer"},
                "closed": {"type": "object", "properties": {"open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            }}});
            let version = json!({"name": "v1", "schema": {"openAPIV3Schema": {"properties": schema}}});
            let definition = json!({"spec": {"versions": [version]}});
            let object = json!({"apiVersion": "example.com/v1", "spec": spec});
            let found = undeclared(&definition, &object);
            found.into_iter().map(|change| change.description).collect::<Vec<_>>()
        };
        let spec = json!({
            "size": 3, "image": "busybox", "nested": {"paused": true, "ratio": 0.5}, "declared": 1, "ports": [1],
            "closed": {"open": {"count": 1}, "unknown": 1},
        });
        assert_eq!(
            found(spec),
            [
                ".spec.closed.open.count from 1 to 2",
                ".spec.nested.paused from true to false",
                ".spec.size from 3 to 4",
            ]
        );
        assert!(found(json!(null)).is_empty());
    }
}
