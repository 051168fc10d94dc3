//! Walking a value along its type.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{Scalar, Schema, Type, TypeId, quantity, time};

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

/// Whose words are used for what does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// The decoder of requests.
    Json,
    /// The conversion of an applied object, whose shape has been checked before.
    Conversion,
}

/// Compares JSON types with the schema's, the way Go's decoders do, and drops nulls, which they take for absence.
pub(super) fn types(schema: &Schema, value: &mut Value, decoder: Decoder) -> Result<(), String> {
    let mut walk = Walk { schema, decoder, path: Vec::new(), error: None };
    walk.value(schema.root(), value, None);
    walk.error.map_or(Ok(()), Err)
}

/// The struct whose field is being read.
#[derive(Clone, Copy)]
struct Owner<'a> {
    name: &'a str,
    /// The Go type of the field, as far as it differs from what the schema says.
    go: Option<&'static str>,
}

struct Walk<'a> {
    schema: &'a Schema,
    decoder: Decoder,
    path: Vec<String>,
    /// The first thing that is wrong.
    error: Option<String>,
}

impl<'a> Walk<'a> {
    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    fn mismatch(&mut self, id: TypeId, value: &Value, owner: Option<Owner<'a>>) {
        let go = owner.and_then(|owner| owner.go).map_or_else(|| self.go_type(id), str::to_owned);
        let integer = matches!(self.schema.get(id), Type::Scalar(Scalar::Int32 | Scalar::Int64));
        if self.decoder == Decoder::Conversion {
            let why = self.unconvertible(id, value, &go);
            return self.fail(why);
        }
        let what = match value {
            Value::Number(number) if integer => format!("number {number}"),
            value => json_type(value).to_owned(),
        };
        let place = match owner {
            Some(owner) => format!("Go struct field {}.{}", owner.name, self.path.join(".")),
            None => "Go value".to_owned(),
        };
        self.fail(format!("json: cannot unmarshal {what} into {place} of type {go}"));
    }

    /// The words of the conversion for what can't be converted.
    fn unconvertible(&self, id: TypeId, value: &Value, go: &str) -> String {
        let kind = match value {
            Value::Null => "invalid",
            Value::Bool(_) => "bool",
            Value::Number(number) if number.is_f64() => "float64",
            Value::Number(_) => "int64",
            Value::String(_) => "string",
            Value::Array(_) => "slice",
            Value::Object(_) => "map",
        };
        match (self.schema.get(id), kind) {
            (Type::Struct(_), kind) => format!("cannot restore struct from: {kind}"),
            (Type::Map(_), kind) => format!("cannot restore map from {kind}"),
            (Type::List(_) | Type::Scalar(Scalar::Bytes), kind) => {
                format!("cannot restore slice from {kind}")
            }
            (Type::Scalar(Scalar::Int32 | Scalar::Int64), "float64")
            | (Type::Scalar(Scalar::String), "int64") => {
                format!("cannot convert {kind} to {go}")
            }
            (Type::Scalar(scalar), _) => {
                let kind = match scalar {
                    Scalar::Int32 => "int32",
                    Scalar::Int64 => "int64",
                    Scalar::Number => "float64",
                    Scalar::Boolean => "bool",
                    _ => "string",
                };
                format!("unrecognized type: {kind}")
            }
            (Type::Any, kind) => format!("unrecognized type: {kind}"),
        }
    }

    /// What a type is called in Go if it has no name of its own.
    fn go_type(&self, id: TypeId) -> String {
        match self.schema.get(id) {
            Type::Any => "interface {}".to_owned(),
            Type::List(items) => format!("[]{}", self.go_type(*items)),
            Type::Map(values) => format!("map[string]{}", self.go_type(*values)),
            Type::Struct(ty) => {
                let package = ty.full.rsplit('.').nth(1).unwrap_or("v1");
                format!("{package}.{}", ty.name)
            }
            Type::Scalar(scalar) => match scalar {
                Scalar::String => "string",
                Scalar::Bytes => "[]uint8",
                Scalar::Time => "v1.Time",
                Scalar::MicroTime => "v1.MicroTime",
                Scalar::Quantity => "resource.Quantity",
                Scalar::IntOrString => "intstr.IntOrString",
                Scalar::Int32 => "int32",
                Scalar::Int64 => "int64",
                Scalar::Number => "float64",
                Scalar::Boolean => "bool",
            }
            .to_owned(),
        }
    }

    /// What items of a field are called, from what the field is called.
    fn inner(owner: Option<Owner<'a>>) -> Option<Owner<'a>> {
        owner.map(|owner| {
            let go = owner.go.and_then(|go| {
                go.strip_prefix("[]")
                    .or_else(|| go.strip_prefix("map[").and_then(|go| Some(go.split_once(']')?.1)))
            });
            Owner { go: go.map(|go| go.trim_start_matches('*')), ..owner }
        })
    }

    fn value(&mut self, id: TypeId, value: &mut Value, owner: Option<Owner<'a>>) {
        let schema = self.schema;
        match (schema.get(id), &mut *value) {
            (Type::Scalar(scalar), v) if !v.is_null() => self.scalar(id, *scalar, value, owner),
            (_, Value::Null) | (Type::Any, _) => {}
            (Type::Struct(ty), Value::Object(map)) => {
                map.retain(|_, v| !v.is_null());
                for (key, child) in map {
                    let Some(field) = ty.fields.get(key) else { continue };
                    self.path.push(key.clone());
                    let owner = Owner { name: &ty.name, go: super::go_type(&ty.full, key) };
                    self.value(field.ty, child, Some(owner));
                    self.path.pop();
                }
            }
            (Type::Map(values), Value::Object(map)) => {
                for child in map.values_mut() {
                    if child.is_null() {
                        *child = match schema.get(*values) {
                            Type::Scalar(Scalar::String) => Value::String(String::new()),
                            Type::Scalar(Scalar::Quantity) => Value::from("0"),
                            _ => Value::Null,
                        };
                    }
                    self.value(*values, child, Self::inner(owner));
                }
            }
            (Type::List(items), Value::Array(list)) => {
                for child in list.iter_mut() {
                    self.value(*items, child, Self::inner(owner));
                    // What is nothing in a list becomes something empty.
                    if child.is_null() {
                        *child = match schema.get(*items) {
                            Type::Struct(_) => Value::Object(serde_json::Map::new()),
                            Type::Scalar(Scalar::String) => Value::String(String::new()),
                            Type::Scalar(Scalar::Int32 | Scalar::Int64) => Value::from(0),
                            _ => continue,
                        };
                    }
                }
            }
            (_, v) => {
                let v = v.clone();
                self.mismatch(id, &v, owner);
            }
        }
    }

    fn scalar(&mut self, id: TypeId, scalar: Scalar, value: &mut Value, owner: Option<Owner<'a>>) {
        match (scalar, &*value) {
            (Scalar::String | Scalar::IntOrString, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Number, Value::Number(_)) => {}
            (Scalar::Int64, Value::Number(n)) if n.is_i64() => {}
            (Scalar::Int32 | Scalar::IntOrString, Value::Number(n)) if n.is_i64() => {
                let number = n.as_i64().unwrap_or_default();
                match i32::try_from(number) {
                    Ok(_) => {}
                    // The conversion cuts off what is too large.
                    Err(_) if self.decoder == Decoder::Conversion && scalar == Scalar::Int32 => {
                        #[allow(clippy::cast_possible_truncation)]
                        let cut = number as i32;
                        *value = Value::from(cut);
                    }
                    Err(_) => self.scalar_mismatch(id, scalar, value, owner),
                }
            }
            (Scalar::Bytes, Value::String(text)) => {
                let at = match STANDARD.decode(text.as_bytes()) {
                    Ok(_) => return,
                    Err(
                        base64::DecodeError::InvalidByte(at, _)
                        | base64::DecodeError::InvalidLastSymbol(at, _),
                    ) => at,
                    Err(_) => text.len() / 4 * 4,
                };
                let prefix =
                    if self.decoder == Decoder::Conversion { "error decoding from json: " } else { "" };
                self.fail(format!("{prefix}illegal base64 data at input byte {at}"));
            }
            (Scalar::Time | Scalar::MicroTime, Value::String(text)) => match time::read(text, scalar) {
                Ok(text) => *value = Value::String(text),
                Err(why) => self.fail(why),
            },
            (Scalar::Quantity, v) => {
                let text = v.as_str().map_or_else(|| v.to_string(), str::to_owned);
                match quantity::canonical(&text) {
                    Some(text) => *value = Value::String(text),
                    None => self.fail("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into()),
                }
            }
            _ => self.scalar_mismatch(id, scalar, value, owner),
        }
    }

    /// Types that read themselves do not know where they are, but the decoder around them does.
    fn scalar_mismatch(&mut self, id: TypeId, scalar: Scalar, value: &Value, owner: Option<Owner<'a>>) {
        let go = match scalar {
            Scalar::IntOrString => "int32",
            Scalar::Time | Scalar::MicroTime => "string",
            _ => return self.mismatch(id, value, owner),
        };
        let what = match value {
            Value::Number(number) if go == "int32" => format!("number {number}"),
            value => json_type(value).to_owned(),
        };
        let place = match owner.filter(|_| self.decoder == Decoder::Json) {
            Some(owner) => format!("Go struct field {}.{}", owner.name, self.path.join(".")),
            None => "Go value".to_owned(),
        };
        self.fail(format!("json: cannot unmarshal {what} into {place} of type {go}"));
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::definition, Decoder};

    #[test]
    fn unknown_fields_and_wrong_types_are_named() {
        let schema = definition("io.k8s.api.apps.v1.Deployment").unwrap();
        let mut value = json!({
            "spec": {"replicaz": 1, "template": {"spec": {"containers": [{"name": "a", "foo": {}}]}}},
            "metadata": {"labels": {"a": "b"}, "annotations": null},
        });
        assert!(schema.decode(&mut value, Decoder::Json, &mut Vec::new()).is_ok());
        let unknown = schema.prune(&mut value);
        assert_eq!(
            unknown,
            ["unknown field \"spec.replicaz\"", "unknown field \"spec.template.spec.containers[0].foo\""]
        );
        assert!(value["metadata"].get("annotations").is_none());
        let mut wrong = json!({"spec": {"replicas": "1"}});
        assert_eq!(
            schema.decode(&mut wrong, Decoder::Json, &mut Vec::new()).unwrap_err(),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
    }
}
