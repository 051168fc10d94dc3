//! Defaulting of custom resources.

use serde_json::Value;

use crate::schema::Schema;

/// Applies a schema's defaults, outermost first.
pub(crate) fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            for (key, field) in &schema.properties {
                let Some(default) = &field.default else { continue };
                let is_absent = match map.get(key) {
                    None => true,
                    // A null in a non-nullable field is replaced by the default.
                    Some(Value::Null) => !field.nullable,
                    Some(_) => false,
                };
                if is_absent {
                    map.insert(key.clone(), default.clone());
                }
            }
            for (key, value) in map {
                match schema.properties.get(key) {
                    Some(field) => fill(value, field),
                    None => fill_item(value, schema.additional()),
                }
            }
        }
        Value::Array(items) => {
            for value in items {
                fill_item(value, schema.item());
            }
        }
        _ => {}
    }
}

fn fill_item(value: &mut Value, schema: Option<&Schema>) {
    let Some(schema) = schema else { return };
    if value.is_null() && !schema.nullable {
        *value = schema.default.clone().unwrap_or_default();
    }
    fill(value, schema);
}

/// Drops nulls from non-nullable fields without a default.
pub(crate) fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(map) => map.retain(|key, value| {
            let field = schema.and_then(|s| s.field(key));
            let is_dropped =
                value.is_null() && field.is_some_and(|field| !field.nullable && field.default.is_none());
            if !is_dropped {
                drop_nulls(value, field);
            }
            !is_dropped
        }),
        Value::Array(items) => {
            let item = schema.and_then(Schema::item);
            for value in items {
                drop_nulls(value, item);
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
    fn defaults_nest_and_stand_for_nulls() {
        let schema = Schema::parse(&json!({"properties": {
            "a": {"default": {"b": 1}, "properties": {"c": {"default": "x"}}},
            "l": {"items": {"properties": {"d": {"default": true}}}},
            "n": {"default": 1, "nullable": true},
            "m": {"default": 1},
            "o": {},
        }}));
        let mut value = json!({"l": [{}, {"d": false}], "n": null, "m": null, "o": null, "p": null});
        drop_nulls(&mut value, Some(&schema));
        assert_eq!(value, json!({"l": [{}, {"d": false}], "n": null, "m": null, "p": null}));
        fill(&mut value, &schema);
        assert_eq!(
            value,
            json!({"a": {"b": 1, "c": "x"}, "l": [{"d": true}, {"d": false}], "n": null, "m": 1, "p": null})
        );
    }
}
