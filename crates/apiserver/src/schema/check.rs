//! Walking a value along its type.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{Scalar, Schema, Type, TypeId, quantity};

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
        (Type::Map(values), Value::Object(map)) => {
            for (key, child) in map {
                push_key(path, key);
                prune(schema, *values, child, path, unknown);
                path.truncate(length);
            }
        }
        (Type::List(items), Value::Array(list)) => {
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
        (Type::Map(values), Value::Object(map)) => {
            for child in map.values_mut() {
                if child.is_null() && matches!(schema.get(*values), Type::Scalar(Scalar::String)) {
                    *child = Value::String(String::new());
                }
                types(schema, *values, child, path, owner)?;
            }
            Ok(())
        }
        (Type::List(items), Value::Array(list)) => {
            for child in list {
                types(schema, *items, child, path, owner)?;
            }
            Ok(())
        }
        (Type::Scalar(scalar), v) => {
            let place = |go: &str| wrong(v, path, go);
            match (scalar, &*v) {
                (Scalar::String | Scalar::IntOrString, Value::String(_))
                | (Scalar::Boolean, Value::Bool(_))
                | (Scalar::Number, Value::Number(_)) => Ok(()),
                (Scalar::Int64, Value::Number(n)) if n.is_i64() => Ok(()),
                (Scalar::Int32 | Scalar::IntOrString, Value::Number(n))
                    if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) =>
                {
                    Ok(())
                }
                (Scalar::Bytes, Value::String(text)) => match STANDARD.decode(text.as_bytes()) {
                    Ok(_) => Ok(()),
                    Err(
                        base64::DecodeError::InvalidByte(at, _)
                        | base64::DecodeError::InvalidLastSymbol(at, _),
                    ) => Err(format!("illegal base64 data at input byte {at}")),
                    Err(_) => Err(format!("illegal base64 data at input byte {}", text.len() / 4 * 4)),
                },
                (Scalar::Time | Scalar::MicroTime, Value::String(text)) => {
                    match text.parse::<jiff::Timestamp>() {
                        Ok(at) => {
                            let text = if *scalar == Scalar::Time {
                                crate::environment::seconds(at)
                            } else {
                                at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
                            };
                            *value = Value::String(text);
                            Ok(())
                        }
                        Err(_) => Err(bad_time(text, *scalar)),
                    }
                }
                (Scalar::Quantity, Value::String(_) | Value::Number(_)) => {
                    let text = v.as_str().map_or_else(|| v.to_string(), str::to_owned);
                    match quantity::canonical(&text) {
                        Some(text) => {
                            *value = Value::String(text);
                            Ok(())
                        }
                        None => Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into()),
                    }
                }
                (scalar, _) => place(go_type(*scalar)),
            }
        }
        (Type::Struct(ty), v) => wrong(v, path, &format!("v1.{}", ty.name)),
        (Type::Map(_), v) => wrong(v, path, "map[string]string"),
        (Type::List(_), v) => wrong(v, path, "[]string"),
    }
}

fn bad_time(text: &str, scalar: Scalar) -> String {
    let layout =
        if scalar == Scalar::Time { "2006-01-02T15:04:05Z07:00" } else { "2006-01-02T15:04:05.000000Z07:00" };
    let quoted = crate::status::quote(text);
    let year: String = text.chars().take(4).collect();
    if year.len() < 4 || !year.bytes().all(|b| b.is_ascii_digit()) {
        return format!("parsing time {quoted} as {layout:?}: cannot parse {quoted} as \"2006\"");
    }
    format!("parsing time {quoted} as {layout:?}: cannot parse it")
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
        Scalar::Time | Scalar::MicroTime | Scalar::Quantity => "string",
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
        assert!(schema.decode(&mut value).is_ok());
        let unknown = schema.prune(&mut value);
        assert_eq!(
            unknown,
            ["unknown field \"spec.replicaz\"", "unknown field \"spec.template.spec.containers[0].foo\""]
        );
        assert!(value["metadata"].get("annotations").is_none());
        let mut wrong = json!({"spec": {"replicas": "1"}});
        assert_eq!(
            schema.decode(&mut wrong).unwrap_err(),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
    }
}
