//! Decoding of a value by its type.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::{Presence, Scalar, Schema, Struct, Type, TypeId, canonical::is_empty, quantity, time};

/// Which of Go's decoders to imitate in error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoder {
    /// The JSON decoder of request bodies.
    Json,
    /// The conversion from unstructured of an applied object, after its structure has been validated.
    Conversion,
}

/// Result of decoding besides the object.
#[derive(Debug, Default)]
pub struct Decoded {
    /// Warnings about unknown fields that were dropped.
    pub unknown: Vec<String>,
    /// Paths of lists (suffixed with `[]`) and maps that were present but empty. Go keeps these apart from absent ones
    /// for the duration of a request.
    pub emptied: Vec<String>,
}

/// Handling of unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    Dropped,
    Kept,
}

/// Decodes a value like Go's decoders, in one pass: validates JSON types against the schema, and drops nulls, empty
/// values of `omitempty` fields and unknown fields.
pub(super) fn decode(
    schema: &Schema,
    value: &mut Value,
    decoder: Decoder,
    unknown: Unknown,
) -> Result<Decoded, String> {
    let walk = |value: &mut Value, ordered: bool| {
        let mut walk = Walk {
            schema,
            decoder,
            ordered,
            unknown_fields: unknown,
            silent: false,
            dropped: 0,
            found: Decoded::default(),
            error: None,
            abort: None,
        };
        walk.value(schema.root(), value, None, &Trail::ROOT);
        walk.abort.or(walk.error).map_or(Ok(walk.found), Err)
    };
    let found = walk(value, false);
    if found.is_ok() || decoder == Decoder::Json {
        return found;
    }
    // The conversion visits fields in struct order, which only matters for which error is the first.
    walk(&mut value.clone(), true).and(found)
}

/// Current path in a value. Lives on the stack, and is formatted only for errors and warnings.
#[derive(Clone, Copy)]
struct Trail<'t> {
    parent: Option<&'t Trail<'t>>,
    step: Step<'t>,
}

#[derive(Clone, Copy)]
enum Step<'t> {
    Root,
    /// A field, and the struct that contains it.
    Field(&'t str, &'t Struct),
    /// An entry of a map.
    Key(&'t str),
    /// An item of a list.
    Index(usize),
}

impl<'t> Trail<'t> {
    const ROOT: Self = Self { parent: None, step: Step::Root };

    fn then(&'t self, step: Step<'t>) -> Self {
        Self { parent: Some(self), step }
    }

    /// Formats the path from the root, with map keys formatted by `key`.
    fn written(&self, key: fn(&str) -> String) -> String {
        let mut out = self.parent.map(|parent| parent.written(key)).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Field(name, _) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Key(name) => out.push_str(&key(name)),
            Step::Index(index) => out.push_str(&format!("[{index}]")),
        }
        out
    }

    /// Returns the fields of the path, outermost first, including structs that JSON inlines.
    fn fields(&self) -> Vec<&'t str> {
        let mut names = self.parent.map(Trail::fields).unwrap_or_default();
        if let Step::Field(name, owner) = self.step {
            names.extend(crate::protobuf::inlined(&owner.full, name));
            names.push(name);
        }
        names
    }

    /// Returns the innermost field.
    fn last_field(&self) -> Option<&'t str> {
        match self.step {
            Step::Field(name, _) => Some(name),
            _ => self.parent?.last_field(),
        }
    }
}

/// The struct that contains the field being decoded.
#[derive(Clone, Copy)]
struct Owner<'a> {
    ty: &'a Struct,
    /// Nesting depth in lists and maps of the field.
    depth: usize,
}

struct Walk<'a> {
    schema: &'a Schema,
    decoder: Decoder,
    /// Whether fields are visited in struct order, to find the first error. Nothing is dropped then.
    ordered: bool,
    unknown_fields: Unknown,
    /// Whether unknown fields are dropped without a warning, as in types with a custom `UnmarshalJSON`.
    silent: bool,
    /// Number of dropped unknown fields. A value that contained one does not count as empty.
    dropped: usize,
    found: Decoded,
    /// The first error.
    error: Option<String>,
    /// Error of a type with a custom `UnmarshalJSON`, which aborts decoding.
    abort: Option<String>,
}

impl<'a> Walk<'a> {
    fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    fn abort(&mut self, error: String) {
        if self.decoder == Decoder::Json {
            self.abort.get_or_insert(error);
        } else {
            self.fail(error);
        }
    }

    fn mismatch(&mut self, id: TypeId, value: &Value, owner: Option<Owner<'a>>, at: &Trail<'_>) {
        let go = owner.and_then(|owner| go(owner, at)).map_or_else(|| self.go_type(id), str::to_owned);
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
            Some(owner) => format!("Go struct field {}.{}", owner.ty.name, at.fields().join(".")),
            None => "Go value".to_owned(),
        };
        self.fail(format!("json: cannot unmarshal {what} into {place} of type {go}"));
    }

    /// Returns the conversion's error message for a value of the wrong type.
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
            (Type::Any | Type::Or(_), kind) => format!("unrecognized type: {kind}"),
        }
    }

    /// Returns the Go name of a type.
    fn go_type(&self, id: TypeId) -> String {
        match self.schema.get(id) {
            Type::Any | Type::Or(_) => "interface {}".to_owned(),
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

    /// Returns the owner for an item of the current list or map.
    fn inner(owner: Option<Owner<'a>>) -> Option<Owner<'a>> {
        owner.map(|owner| Owner { depth: owner.depth + 1, ..owner })
    }

    /// Decodes a field. Returns whether to keep it.
    fn field(&mut self, ty: &'a Struct, key: &str, child: &mut Value, at: &Trail<'_>) -> bool {
        if child.is_null() {
            return false;
        }
        let at = at.then(Step::Field(key, ty));
        let Some(field) = ty.fields.get(key) else { return self.stranger(ty, &at) };
        let before = self.dropped;
        self.value(field.ty, child, Some(Owner { ty, depth: 0 }), &at);
        if self.error.is_some() || self.abort.is_some() {
            // Decoding fails, so the result no longer matters.
            return true;
        }
        let empty = self.dropped == before && is_empty(child);
        let collection = matches!(self.schema.get(field.ty), Type::List(_) | Type::Map(_));
        if collection && empty {
            let place = at.written(|key| format!("[{key}]"));
            self.found.emptied.push(if child.is_array() { format!("{place}[]") } else { place });
        }
        match field.presence {
            Presence::Pointer | Presence::Null => true,
            Presence::Zero if collection => true,
            _ => !empty,
        }
    }

    /// Handles an unknown field. Returns whether to keep it.
    fn stranger(&mut self, ty: &Struct, at: &Trail<'_>) -> bool {
        if ty.open || self.unknown_fields == Unknown::Kept {
            return true;
        }
        self.dropped += 1;
        if !self.silent {
            let place = at.written(|key| format!(".{key}"));
            self.found.unknown.push(format!("unknown field {}", crate::status::quote(&place)));
        }
        false
    }

    /// Decodes the fields in struct order.
    fn in_order(&mut self, ty: &'a Struct, map: &mut Map<String, Value>, at: &Trail<'_>) {
        let mut fields: Vec<(&String, &mut Value)> = map.iter_mut().filter(|(_, v)| !v.is_null()).collect();
        fields.sort_by_cached_key(|(key, _)| crate::protobuf::position(&ty.full, key));
        for (key, child) in fields {
            self.field(ty, key, child, at);
        }
    }

    fn value(&mut self, id: TypeId, value: &mut Value, owner: Option<Owner<'a>>, at: &Trail<'_>) {
        let schema = self.schema;
        match (schema.get(id), &mut *value) {
            (Type::Scalar(scalar), v) if !v.is_null() => self.scalar(id, *scalar, value, owner, at),
            (_, Value::Null) | (Type::Any, _) => {}
            (Type::Or(inner), value) => {
                if value.is_object() {
                    let silent = std::mem::replace(&mut self.silent, true);
                    self.value(*inner, value, owner, at);
                    self.silent = silent;
                }
            }
            (Type::Struct(ty), Value::Object(map)) if self.ordered => self.in_order(ty, map, at),
            (Type::Struct(ty), Value::Object(map)) => {
                map.retain(|key, child| self.field(ty, key, child, at));
            }
            (Type::Map(values), Value::Object(map)) => {
                for (key, child) in map {
                    if child.is_null() {
                        *child = match schema.get(*values) {
                            Type::Scalar(Scalar::String | Scalar::Bytes) => Value::String(String::new()),
                            Type::Scalar(Scalar::Quantity) => Value::from("0"),
                            _ => Value::Null,
                        };
                    }
                    self.value(*values, child, Self::inner(owner), &at.then(Step::Key(key)));
                }
            }
            (Type::List(items), Value::Array(list)) => {
                for (index, child) in list.iter_mut().enumerate() {
                    self.value(*items, child, Self::inner(owner), &at.then(Step::Index(index)));
                    // A null item becomes the zero value of its type.
                    if child.is_null() {
                        *child = match schema.get(*items) {
                            Type::Struct(_) => Value::Object(Map::new()),
                            Type::Scalar(Scalar::String) => Value::String(String::new()),
                            Type::Scalar(Scalar::Int32 | Scalar::Int64) => Value::from(0),
                            _ => continue,
                        };
                    }
                }
            }
            (_, v) => self.mismatch(id, v, owner, at),
        }
    }

    fn scalar(
        &mut self,
        id: TypeId,
        scalar: Scalar,
        value: &mut Value,
        owner: Option<Owner<'a>>,
        at: &Trail<'_>,
    ) {
        match (scalar, &*value) {
            (Scalar::String | Scalar::IntOrString, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Number, Value::Number(_)) => {}
            (Scalar::Int64, Value::Number(n)) if n.is_i64() => {}
            (Scalar::Int32 | Scalar::IntOrString, Value::Number(n)) if n.is_i64() => {
                let number = n.as_i64().unwrap_or_default();
                match i32::try_from(number) {
                    Ok(_) => {}
                    // The conversion truncates integers that are too large.
                    Err(_) if self.decoder == Decoder::Conversion && scalar == Scalar::Int32 => {
                        #[allow(clippy::cast_possible_truncation)]
                        let cut = number as i32;
                        *value = Value::from(cut);
                    }
                    Err(_) => self.scalar_mismatch(id, scalar, value, owner, at),
                }
            }
            (Scalar::Bytes, Value::String(text)) => {
                let byte = match STANDARD.decode(text.as_bytes()) {
                    Ok(_) => return,
                    Err(
                        base64::DecodeError::InvalidByte(at, _)
                        | base64::DecodeError::InvalidLastSymbol(at, _),
                    ) => at,
                    Err(_) => text.len() / 4 * 4,
                };
                let prefix =
                    if self.decoder == Decoder::Conversion { "error decoding from json: " } else { "" };
                self.fail(format!("{prefix}illegal base64 data at input byte {byte}"));
            }
            (Scalar::Time | Scalar::MicroTime, Value::String(text)) => match time::read(text, scalar) {
                // Go's zero time is null in JSON.
                Ok(text) if text.starts_with("0001-01-01T00:00:00") => *value = Value::Null,
                Ok(text) => *value = Value::String(text),
                Err(why) => self.abort(why),
            },
            (Scalar::Quantity, Value::String(text)) if quantity::is_canonical(text) => {}
            (Scalar::Quantity, v) => {
                let text = v.as_str().map_or_else(|| v.to_string(), str::to_owned);
                match quantity::canonical(&text) {
                    Some(text) => *value = Value::String(text),
                    None => self.abort("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".into()),
                }
            }
            _ => self.scalar_mismatch(id, scalar, value, owner, at),
        }
    }

    /// Types with a custom `UnmarshalJSON` do not know their path, but the JSON decoder adds it.
    fn scalar_mismatch(
        &mut self,
        id: TypeId,
        scalar: Scalar,
        value: &Value,
        owner: Option<Owner<'a>>,
        at: &Trail<'_>,
    ) {
        let go = match scalar {
            Scalar::IntOrString => "int32",
            Scalar::Time | Scalar::MicroTime => "string",
            _ => return self.mismatch(id, value, owner, at),
        };
        let what = match value {
            Value::Number(number) if go == "int32" => format!("number {number}"),
            value => json_type(value).to_owned(),
        };
        let place = match owner.filter(|_| self.decoder == Decoder::Json) {
            Some(owner) => format!("Go struct field {}.{}", owner.ty.name, at.fields().join(".")),
            None => "Go value".to_owned(),
        };
        self.abort(format!("json: cannot unmarshal {what} into {place} of type {go}"));
    }
}

/// Returns the Go type of the current value where it differs from the schema's. Only errors use it.
fn go(owner: Owner<'_>, at: &Trail<'_>) -> Option<&'static str> {
    let whole = super::go_type(&owner.ty.full, at.last_field()?)?;
    (0..owner.depth).try_fold(whole, |go, _| {
        let inner = go
            .strip_prefix("[]")
            .or_else(|| go.strip_prefix("map[").and_then(|go| Some(go.split_once(']')?.1)));
        inner.map(|go| go.trim_start_matches('*'))
    })
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
        assert_eq!(
            schema.decode(&mut value, Decoder::Json).unwrap().unknown,
            ["unknown field \"spec.replicaz\"", "unknown field \"spec.template.spec.containers[0].foo\""]
        );
        assert!(value["metadata"].get("annotations").is_none());
        let mut wrong = json!({"spec": {"replicas": "1"}});
        assert_eq!(
            schema.decode(&mut wrong, Decoder::Json).unwrap_err(),
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
        );
    }
}
