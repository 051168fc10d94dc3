//! Encoding of typed structs: empty fields are omitted or written, depending on their type.

use serde_json::{Map, Value, json};

use super::{Presence, Scalar, Schema, Type, TypeId};

/// Whether a value is the zero value of its type.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Adds fields that are written even if empty, and removes other empty ones. With `for_storage`, for storage, empty lists and
/// maps count as absent, as they will when the object is decoded again.
pub(super) fn fill(schema: &Schema, id: TypeId, value: &mut Value, for_storage: bool) {
    match (schema.get(id), value) {
        (Type::Struct(ty), Value::Object(map)) => {
            map.retain(|key, child| {
                let Some(field) = ty.fields.get(key) else { return true };
                let keep = match field.presence {
                    Presence::Omitted => !is_empty(child),
                    Presence::Pointer => !child.is_null(),
                    _ => true,
                };
                if keep {
                    fill(schema, field.ty, child, for_storage);
                }
                keep
            });
            for (key, field) in &ty.always {
                let child = map.get(key);
                let missing = match field.presence {
                    Presence::Zero => child.is_none_or(|child| match child {
                        Value::Null => true,
                        Value::Array(_) | Value::Object(_) => for_storage && is_empty(child),
                        _ => false,
                    }),
                    _ => child.is_none_or(Value::is_null),
                };
                if missing {
                    let mut value = match field.presence {
                        Presence::Zero => zero(schema.get(field.ty)),
                        Presence::Struct => Value::Object(Map::new()),
                        _ => Value::Null,
                    };
                    fill(schema, field.ty, &mut value, for_storage);
                    map.insert(key.clone(), value);
                }
            }
        }
        (Type::Or(inner), value @ Value::Object(_)) => fill(schema, *inner, value, for_storage),
        (Type::Map(values), Value::Object(map)) => {
            map.values_mut().for_each(|child| fill(schema, *values, child, for_storage));
        }
        (Type::List(items), Value::Array(list)) => {
            list.iter_mut().for_each(|child| fill(schema, *items, child, for_storage));
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
        schema.decode(&mut value, Decoder::Json).unwrap();
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
