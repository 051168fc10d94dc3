//! Defaults of structural schemas.

use serde_json::Value;

/// Fills in the defaults that `schema` names, from the outside in.
pub(super) fn apply(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, property) in schema["properties"].as_object().into_iter().flatten() {
                let default = property.get("default").filter(|d| !d.is_null());
                let nullable = property["nullable"] == true;
                match (map.get(key), default) {
                    (None, Some(default)) => {
                        map.insert(key.clone(), default.clone());
                    }
                    // A null that the field can't hold stands for the default.
                    (Some(Value::Null), Some(default)) if !nullable => {
                        map.insert(key.clone(), default.clone());
                    }
                    (Some(Value::Null), None) if !nullable => {
                        map.remove(key);
                    }
                    _ => {}
                }
                if let Some(child) = map.get_mut(key) {
                    apply(property, child);
                }
            }
            if let Some(additional) = schema.get("additionalProperties").filter(|a| a.is_object()) {
                let known = schema["properties"].as_object();
                for (key, child) in map.iter_mut() {
                    if known.is_none_or(|k| !k.contains_key(key)) {
                        apply(additional, child);
                    }
                }
            }
        }
        Value::Array(list) => {
            for item in list {
                apply(&schema["items"], item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_nest() {
        let schema = json!({"properties": {
            "a": {"default": {"b": 1}, "properties": {"c": {"default": "x"}}},
            "l": {"items": {"properties": {"d": {"default": true}}}},
            "n": {"default": 1, "nullable": true},
            "m": {"default": 1},
        }});
        let mut value = json!({"l": [{}, {"d": false}], "n": null, "m": null});
        apply(&schema, &mut value);
        assert_eq!(
            value,
            json!({"a": {"b": 1, "c": "x"}, "l": [{"d": true}, {"d": false}], "n": null, "m": 1})
        );
    }
}
