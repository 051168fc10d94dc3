//! Walking a value along its type.

use serde_json::Value;

use super::{Scalar, Schema, Type, TypeId};

/// Removes unknown fields below `path` and lists them.
pub(super) fn prune(
    schema: &Schema,
    id: TypeId,
    value: &mut Value,
    path: &mut String,
    unknown: &mut Vec<String>,
) {
    let length = path.len();
    match (schema.get(id), value) {
        (Type::Struct(ty), Value::Object(map)) => {
            map.retain(|key, child| {
                push_key(path, key);
                let keep = match ty.fields.get(key) {
                    Some(field) => {
                        prune(schema, field.ty, child, path, unknown);
                        true
                    }
                    None if ty.open => true,
                    None => {
                        unknown.push(format!("unknown field {}", crate::status::quote(path)));
                        false
                    }
                };
                path.truncate(length);
                keep
            });
        }
        (Type::Map { values, .. }, Value::Object(map)) => {
            for (key, child) in map {
                push_key(path, key);
                prune(schema, *values, child, path, unknown);
                path.truncate(length);
            }
        }
        (Type::List { items, .. }, Value::Array(list)) => {
            for (index, child) in list.iter_mut().enumerate() {
                path.push_str(&format!("[{index}]"));
                prune(schema, *items, child, path, unknown);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// Compares JSON types with the schema's, the way Go's decoder does, and drops nulls, which it takes for absence.
pub(super) fn types<'a>(
    schema: &'a Schema,
    id: TypeId,
    value: &mut Value,
    path: &mut Vec<String>,
    owner: &'a str,
) -> Result<(), String> {
    let wrong = |value: &Value, path: &[String], go: &str| {
        let place = if owner.is_empty() {
            String::new()
        } else {
            format!("Go struct field {owner}.{} of type ", path.join("."))
        };
        let place = if place.is_empty() { "Go value of type ".to_owned() } else { place };
        Err(format!("json: cannot unmarshal {} into {place}{go}", json_type(value)))
    };
    match (schema.get(id), &mut *value) {
        (_, Value::Null) | (Type::Any, _) => Ok(()),
        (Type::Struct(ty), Value::Object(map)) => {
            map.retain(|_, v| !v.is_null());
            for (key, child) in map {
                let Some(field) = ty.fields.get(key) else { continue };
                path.push(key.clone());
                types(schema, field.ty, child, path, &ty.name)?;
                path.pop();
            }
            Ok(())
        }
        (Type::Map { values, .. }, Value::Object(map)) => {
            for child in map.values_mut() {
                if child.is_null() && matches!(schema.get(*values), Type::Scalar(Scalar::String)) {
                    *child = Value::String(String::new());
                }
                types(schema, *values, child, path, owner)?;
            }
            Ok(())
        }
        (Type::List { items, .. }, Value::Array(list)) => {
            for child in list {
                types(schema, *items, child, path, owner)?;
            }
            Ok(())
        }
        (Type::Scalar(scalar), v) => match (scalar, &*v) {
            (Scalar::String | Scalar::Bytes | Scalar::Time, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Number, Value::Number(_))
            | (Scalar::IntOrString, Value::String(_) | Value::Number(_)) => Ok(()),
            (Scalar::Int64, Value::Number(n)) if n.is_i64() => Ok(()),
            (Scalar::Int32, Value::Number(n)) if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => {
                Ok(())
            }
            (scalar, other) => wrong(other, path, go_type(*scalar)),
        },
        (Type::Struct(ty), v) => wrong(v, path, &format!("v1.{}", ty.name)),
        (Type::Map { .. }, v) => wrong(v, path, "map[string]string"),
        (Type::List { .. }, v) => wrong(v, path, "[]string"),
    }
}

fn json_type(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(n) if n.is_i64() => "number".into(),
        Value::Number(n) => format!("number {n}"),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
    }
}

fn go_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String | Scalar::IntOrString => "string",
        Scalar::Bytes => "[]uint8",
        Scalar::Time => "string",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Number => "float64",
        Scalar::Boolean => "bool",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::definition;

    #[test]
    fn unknown_fields_and_wrong_types_are_named() {
        let schema = definition("io.k8s.api.apps.v1.Deployment").unwrap();
        let mut value = json!({
            "spec": {"replicaz": 1, "template": {"spec": {"containers": [{"name": "a", "foo": {}}]}}},
            "metadata": {"labels": {"a": "b"}, "annotations": null},
        });
        assert!(schema.check_types(&mut value).is_ok());
        let unknown = schema.prune(&mut value);
        assert_eq!(
            unknown,
            ["unknown field \"spec.replicaz\"", "unknown field \"spec.template.spec.containers[0].foo\""]
        );
        assert!(value["metadata"].get("annotations").is_none());
        let mut wrong = json!({"spec": {"replicas": "1"}});
        assert_eq!(
            schema.check_types(&mut wrong).unwrap_err(),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
    }
}
