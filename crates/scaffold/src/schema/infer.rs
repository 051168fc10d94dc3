//! Infers schemas from default values.

use serde_json::{Map, Value, json};

use super::{Builder, entries, open, set_default};

/// Keys whose values Kubernetes accepts as integers or strings.
const INT_OR_STRING: [&str; 4] = ["maxSurge", "maxUnavailable", "minAvailable", "targetPort"];
/// Keys of quantities, whose values may be numbers or strings.
const QUANTITIES: [&str; 3] = ["limits", "requests", "resources"];

impl Builder<'_> {
    /// Infers the schema of a chart's values.
    pub(super) fn infer_root(&mut self, values: &Value) -> Value {
        let mut schema = self.infer_object(values, &mut Vec::new());
        schema["type"] = "object".into();
        schema
    }

    fn infer_object<'v>(&mut self, object: &'v Value, path: &mut Vec<&'v str>) -> Value {
        let mut properties = Map::new();
        for (key, value) in entries(object) {
            path.push(key);
            if self.has_room(path) {
                let mut schema = self.infer(key, value, path);
                self.describe(&mut schema, path);
                properties.insert(key.clone(), schema);
            }
            path.pop();
        }
        let mut schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        schema
    }

    fn infer<'v>(&mut self, key: &str, value: &'v Value, path: &mut Vec<&'v str>) -> Value {
        if matches!(value, Value::Number(_) | Value::String(_)) && INT_OR_STRING.contains(&key) {
            let mut schema = json!({ "x-kubernetes-int-or-string": true });
            set_default(&mut schema, Some(value));
            return schema;
        }
        let mut schema = match value {
            // Null has no type, and an empty string is often used in its place.
            Value::Null => return open(),
            Value::String(text) if text.is_empty() => return open(),
            Value::Object(_) if QUANTITIES.contains(&key) => {
                json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
            }
            Value::Object(_) => self.infer_object(value, path),
            Value::Array(items) => json!({ "type": "array", "items": items_of(items) }),
            scalar => json!({ "type": scalar_type(scalar) }),
        };
        set_default(&mut schema, Some(value));
        schema
    }
}

/// Returns the schema that all items have in common.
fn items_of(items: &[Value]) -> Value {
    let mut kinds = items.iter().map(scalar_type);
    let Some(first) = kinds.next() else { return open() };
    match first {
        "string" | "boolean" | "integer" if kinds.all(|kind| kind == first) => json!({ "type": first }),
        _ => open(),
    }
}

/// Returns the schema type of a value.
pub(super) fn scalar_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
