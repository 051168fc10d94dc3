//! The encoding of typed structures: empty fields vanish or appear, depending on their type.

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

/// Adds empty values of fields that are written when empty, and removes the others. What `rests` is written as it will be
/// read again: empty lists and maps are nothing.
pub(super) fn fill(schema: &Schema, id: TypeId, value: &mut Value, rests: bool) {
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
                    fill(schema, field.ty, child, rests);
                }
                keep
            });
            for (key, field) in &ty.always {
                let child = map.get(key);
                let missing = match field.presence {
                    Presence::Zero => child.is_none_or(|child| match child {
                        Value::Null => true,
                        Value::Array(_) | Value::Object(_) => rests && is_empty(child),
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
                    fill(schema, field.ty, &mut value, rests);
                    map.insert(key.clone(), value);
                }
            }
        }
        (Type::Or(inner), value @ Value::Object(_)) => fill(schema, *inner, value, rests),
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
