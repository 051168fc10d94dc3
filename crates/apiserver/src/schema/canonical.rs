//! What a round trip through typed structures does to JSON: empty things vanish or appear, depending on the field.

use serde_json::{Map, Value, json};

use super::{Presence, Scalar, Schema, Type, TypeId};

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Removes nulls, and empty values of fields that are left out when empty. Lists and maps that were there though they were
/// empty are noted: a typed decoder remembers them for the length of a request.
pub(super) fn drop_empty(
    schema: &Schema,
    id: TypeId,
    value: &mut Value,
    path: &mut String,
    emptied: &mut Vec<String>,
) {
    let length = path.len();
    match (schema.get(id), value) {
        (Type::Struct(ty), Value::Object(map)) => map.retain(|key, child| {
            let Some(field) = ty.fields.get(key) else { return true };
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
            drop_empty(schema, field.ty, child, path, emptied);
            let collection = matches!(schema.get(field.ty), Type::List(_) | Type::Map(_)) && !child.is_null();
            let keep = match field.presence {
                Presence::Pointer | Presence::Null => !child.is_null(),
                Presence::Zero if collection => true,
                _ => !is_empty(child),
            };
            if collection && is_empty(child) {
                emptied.push(if child.is_array() { format!("{path}[]") } else { path.clone() });
            }
            path.truncate(length);
            keep
        }),
        (Type::Map(values), Value::Object(map)) => {
            for (key, child) in map {
                path.push_str(&format!("[{key}]"));
                drop_empty(schema, *values, child, path, emptied);
                path.truncate(length);
            }
        }
        (Type::List(items), Value::Array(list)) => {
            if matches!(schema.get(*items), Type::Scalar(_)) {
                return;
            }
            for (index, child) in list.iter_mut().enumerate() {
                path.push_str(&format!("[{index}]"));
                drop_empty(schema, *items, child, path, emptied);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Adds empty values of fields that are written when empty, and removes the others. What `rests` is written as it will be
/// read again: empty lists and maps are nothing.
pub(super) fn fill(schema: &Schema, id: TypeId, value: &mut Value, rests: bool) {
    match (schema.get(id), value) {
        (Type::Struct(ty), Value::Object(map)) => {
            for (key, field) in &ty.fields {
                match field.presence {
                    Presence::Omitted => {
                        if map.get(key).is_some_and(is_empty) {
                            map.remove(key);
                        }
                    }
                    Presence::Pointer => {
                        if map.get(key).is_some_and(Value::is_null) {
                            map.remove(key);
                        }
                    }
                    Presence::Null => {
                        map.entry(key.as_str()).or_insert(Value::Null);
                    }
                    Presence::Struct => {
                        let child = map.entry(key.as_str()).or_insert(Value::Null);
                        if child.is_null() {
                            *child = Value::Object(Map::new());
                        }
                    }
                    Presence::Zero => {
                        let empty = map.get(key).is_none_or(|child| match child {
                            Value::Null => true,
                            Value::Array(_) | Value::Object(_) => rests && is_empty(child),
                            _ => false,
                        });
                        if empty {
                            map.insert(key.clone(), zero(schema.get(field.ty)));
                        }
                    }
                }
                if let Some(child) = map.get_mut(key) {
                    fill(schema, field.ty, child, rests);
                }
            }
        }
        (Type::Map(values), Value::Object(map)) => {
            map.values_mut().for_each(|child| fill(schema, *values, child, rests));
        }
        (Type::List(items), Value::Array(list)) => {
            list.iter_mut().for_each(|child| fill(schema, *items, child, rests));
        }
        _ => {}
    }
}

fn zero(ty: &Type) -> Value {
    match ty {
        Type::Scalar(Scalar::String) => json!(""),
        Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString) => json!(0),
        Type::Scalar(Scalar::Boolean) => json!(false),
        Type::Scalar(Scalar::Quantity) => json!("0"),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Decoder, definition};

    #[test]
    fn empty_things_vanish_or_appear() {
        let schema = definition("io.k8s.api.core.v1.Pod").unwrap();
        let mut value = json!({
            "metadata": {"name": "a", "labels": {}, "annotations": null},
            "spec": {
                "containers": [{"name": "c", "image": "", "args": [], "resources": {"limits": {"cpu": "1000m"}}}],
                "hostNetwork": false,
                "automountServiceAccountToken": false,
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
        });
        schema.decode(&mut value, Decoder::Json, &mut Vec::new()).unwrap();
        assert_eq!(
            value,
            json!({
                "metadata": {"name": "a"},
                "spec": {
                    "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
                    "automountServiceAccountToken": false,
                    "volumes": [{"name": "v", "emptyDir": {}}],
                },
            })
        );
        schema.encode(&mut value);
        assert_eq!(value["status"], json!({}));
        let mut bare = json!({"spec": {"containers": [{"name": "c"}]}});
        schema.encode(&mut bare);
        assert_eq!(
            bare,
            json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}, "status": {}})
        );
    }
}
