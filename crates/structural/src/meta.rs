//! Object metadata: its types, decoding and validation.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_formats::names::{self, NameRule};

use crate::fields::FieldError;
use crate::go::quote;
use crate::path::{child, index, key};
use crate::prune::is_meta;
use crate::schema::Schema;

/// The type of a field of metadata.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Integer,
    Flag,
    Time,
    Raw,
    Texts,
    List(&'static Struct),
    TextMap,
}

struct Struct {
    name: &'static str,
    fields: &'static [(&'static str, Type)],
}

static OBJECT_META: Struct = Struct {
    name: "ObjectMeta",
    fields: &[
        ("name", Type::Text),
        ("generateName", Type::Text),
        ("namespace", Type::Text),
        ("selfLink", Type::Text),
        ("uid", Type::Text),
        ("resourceVersion", Type::Text),
        ("generation", Type::Integer),
        ("creationTimestamp", Type::Time),
        ("deletionTimestamp", Type::Time),
        ("deletionGracePeriodSeconds", Type::Integer),
        ("labels", Type::TextMap),
        ("annotations", Type::TextMap),
        ("ownerReferences", Type::List(&OWNER)),
        ("finalizers", Type::Texts),
        ("managedFields", Type::List(&MANAGER)),
    ],
};

static OWNER: Struct = Struct {
    name: "OwnerReference",
    fields: &[
        ("apiVersion", Type::Text),
        ("kind", Type::Text),
        ("name", Type::Text),
        ("uid", Type::Text),
        ("controller", Type::Flag),
        ("blockOwnerDeletion", Type::Flag),
    ],
};

static MANAGER: Struct = Struct {
    name: "ManagedFieldsEntry",
    fields: &[
        ("manager", Type::Text),
        ("operation", Type::Text),
        ("apiVersion", Type::Text),
        ("time", Type::Time),
        ("fieldsType", Type::Text),
        ("fieldsV1", Type::Raw),
        ("subresource", Type::Text),
    ],
};

/// Fields that Go serializes even if they are zero.
const KEPT_EMPTY: [&str; 1] = ["deletionGracePeriodSeconds"];

/// Decodes metadata as Go's typed decoder does: unknown and empty fields are dropped.
/// Unknown fields are listed under `path`. Wrong types are errors with the text of Go's decoder.
pub(crate) fn decode(metadata: &Value, path: &str, unknown: &mut Vec<String>) -> Result<Value, String> {
    let mut decoder = Decoder { unknown, prefix: path.to_owned() };
    let Value::Object(map) = metadata else {
        if metadata.is_null() {
            return Ok(json!({}));
        }
        return Err(format!(
            "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
            json_type(metadata)
        ));
    };
    Ok(Value::Object(decoder.object(map, &OBJECT_META, "", "")?))
}

/// Like [`decode`], but drops single fields of the wrong type.
fn decode_leniently(metadata: &Value) -> Option<Value> {
    let map = metadata.as_object()?;
    let mut out = Map::new();
    for (key, value) in map {
        let single = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
        if let Ok(Value::Object(decoded)) = decode(&single, "", &mut Vec::new()) {
            out.extend(decoded);
        }
    }
    Some(Value::Object(out))
}

struct Decoder<'a> {
    unknown: &'a mut Vec<String>,
    prefix: String,
}

impl Decoder<'_> {
    fn object(
        &mut self,
        map: &Map<String, Value>,
        ty: &Struct,
        go_path: &str,
        path: &str,
    ) -> Result<Map<String, Value>, String> {
        let mut out = Map::new();
        for (name, value) in map {
            let place = child(path, name);
            let Some((_, field)) = ty.fields.iter().find(|(known, _)| known == name) else {
                self.unknown.push(format!("{}.{place}", self.prefix));
                continue;
            };
            if value.is_null() {
                continue;
            }
            let decoded = self.field(value, *field, ty, &child(go_path, name), &place)?;
            if KEPT_EMPTY.contains(&name.as_str()) || !is_empty(&decoded, *field) {
                out.insert(name.clone(), decoded);
            }
        }
        Ok(out)
    }

    fn field(
        &mut self,
        value: &Value,
        field: Type,
        owner: &Struct,
        go_path: &str,
        path: &str,
    ) -> Result<Value, String> {
        let wrong = |value: &Value, go: &str| {
            Err(format!(
                "json: cannot unmarshal {} into Go struct field {}.{go_path} of type {go}",
                json_type(value),
                owner.name
            ))
        };
        let number = |value: &Value, go: &str| match value {
            Value::Number(n) => {
                let text = n.to_string();
                Err(format!(
                    "json: cannot unmarshal number {text} into Go struct field {}.{go_path} of type {go}",
                    owner.name
                ))
            }
            other => wrong(other, go),
        };
        match (field, value) {
            (Type::Text, Value::String(_)) | (Type::Flag, Value::Bool(_)) | (Type::Raw, _) => {
                Ok(value.clone())
            }
            (Type::Text, other) => wrong(other, "string"),
            (Type::Flag, other) => wrong(other, "bool"),
            (Type::Integer, Value::Number(n)) if n.is_i64() => Ok(value.clone()),
            (Type::Integer, other) => number(other, "int64"),
            (Type::Time, Value::String(text)) => time(text),
            (Type::Time, other) => {
                Err(format!("json: cannot unmarshal {} into Go value of type string", json_type(other)))
            }
            (Type::Texts, Value::Array(items)) => {
                for item in items {
                    if !item.is_string() && !item.is_null() {
                        return wrong(item, "string");
                    }
                }
                Ok(Value::Array(items.iter().map(or_empty_text).collect()))
            }
            (Type::Texts, other) => wrong(other, "[]string"),
            (Type::TextMap, Value::Object(map)) => {
                for item in map.values() {
                    if !item.is_string() && !item.is_null() {
                        return wrong(item, "string");
                    }
                }
                Ok(Value::Object(map.iter().map(|(k, v)| (k.clone(), or_empty_text(v))).collect()))
            }
            (Type::TextMap, other) => wrong(other, "map[string]string"),
            (Type::List(ty), Value::Array(items)) => {
                let mut out = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    out.push(Value::Object(match item {
                        Value::Object(map) => self.object(map, ty, go_path, &index(path, i))?,
                        Value::Null => Map::new(),
                        other => return wrong(other, &format!("v1.{}", ty.name)),
                    }));
                }
                if std::ptr::eq(ty, &raw const OWNER) {
                    out.iter_mut().for_each(fill_owner);
                }
                Ok(Value::Array(out))
            }
            (Type::List(ty), other) => wrong(other, &format!("[]v1.{}", ty.name)),
        }
    }
}

/// The name fields of an owner reference are serialized even if empty.
fn fill_owner(owner: &mut Value) {
    if let Some(owner) = owner.as_object_mut() {
        for name in ["apiVersion", "kind", "name", "uid"] {
            owner.entry(name).or_insert_with(|| "".into());
        }
    }
}

fn or_empty_text(value: &Value) -> Value {
    if value.is_null() { "".into() } else { value.clone() }
}

fn is_empty(value: &Value, field: Type) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && !matches!(field, Type::Raw),
        Value::Number(n) => n.as_i64() == Some(0),
        Value::Null => true,
        Value::Bool(_) => false,
    }
}

fn time(text: &str) -> Result<Value, String> {
    const LAYOUT: &str = "\"2006-01-02T15:04:05Z07:00\"";
    match steersman_formats::parse_timestamp(text) {
        Some(at) => Ok(Value::String(seconds(at))),
        None => {
            let quoted = quote(text);
            let year: String = text.chars().take(4).collect();
            if year.len() < 4 || !year.bytes().all(|b| b.is_ascii_digit()) {
                return Err(format!("parsing time {quoted} as {LAYOUT}: cannot parse {quoted} as \"2006\""));
            }
            Err(format!("parsing time {quoted} as {LAYOUT}: cannot parse it"))
        }
    }
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
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

/// How to handle wrongly typed metadata of embedded resources.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvalidMetadataPolicy {
    Refuse,
    Drop,
}

/// Normalizes the metadata of embedded resources and lists its unknown fields.
/// With `is_resource`, the value itself is a resource.
pub(crate) fn coerce(
    value: &mut Value,
    schema: &Schema,
    path: &str,
    is_resource: bool,
    wrong: InvalidMetadataPolicy,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    match value {
        Value::Object(map) => {
            if is_resource || schema.embedded_resource {
                coerce_resource(map, path, wrong, unknown)?;
            }
            for (name, value) in map {
                if let Some(field) = schema.properties.get(name) {
                    coerce(value, field, &child(path, name), false, wrong, unknown)?;
                } else if let Some(values) = schema.additional() {
                    coerce(value, values, &key(path, name), false, wrong, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(item) = schema.item() else { return Ok(()) };
            for (i, value) in items.iter_mut().enumerate() {
                coerce(value, item, &index(path, i), false, wrong, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_resource(
    map: &mut Map<String, Value>,
    path: &str,
    wrong: InvalidMetadataPolicy,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    for name in ["apiVersion", "kind"] {
        let Some(value) = map.get(name).filter(|v| !v.is_string()) else { continue };
        if wrong == InvalidMetadataPolicy::Refuse {
            return Err(FieldError::invalid(child(path, name), value.clone(), "must be a string"));
        }
        map.remove(name);
    }
    let Some(metadata) = map.get("metadata") else { return Ok(()) };
    let place = child(path, "metadata");
    let decoded = match decode(metadata, &place, unknown) {
        Ok(decoded) => Some(decoded),
        Err(_) if wrong == InvalidMetadataPolicy::Drop => decode_leniently(metadata),
        Err(why) => return Err(FieldError::invalid(place, metadata.clone(), why)),
    };
    if let Some(decoded) = decoded {
        map.insert("metadata".into(), decoded);
    }
    Ok(())
}

/// Validates type and metadata of embedded resources.
/// With `is_resource`, the value itself is a resource.
pub(crate) fn check_embedded(
    value: &Value,
    schema: &Schema,
    path: &str,
    is_resource: bool,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(map) => {
            if is_resource || schema.embedded_resource {
                check_resource(map, path, errors);
            }
            for (name, value) in map {
                if let Some(field) = schema.properties.get(name) {
                    check_embedded(value, field, &child(path, name), false, errors);
                } else if let Some(values) = schema.additional() {
                    check_embedded(value, values, &key(path, name), false, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(item) = schema.item() else { return };
            for (i, value) in items.iter().enumerate() {
                check_embedded(value, item, &index(path, i), false, errors);
            }
        }
        _ => {}
    }
}

fn check_resource(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        if !map.contains_key(name) {
            errors.push(FieldError::required(child(path, name), ""));
        }
    }
    for (name, value) in map.iter().filter(|(name, _)| is_meta(name)) {
        let place = child(path, name);
        let text = value.as_str();
        match (name.as_str(), text) {
            ("metadata", _) => match decode(value, "", &mut Vec::new()) {
                Ok(metadata) => {
                    let namespaced = metadata.get("namespace").is_some();
                    let rule = Rules { name: None, namespaced };
                    check(&metadata, rule, &place, errors);
                }
                Err(why) => errors.push(FieldError::invalid(place, value.clone(), why)),
            },
            (_, None) => errors.push(FieldError::invalid(place, value.clone(), "must be a string")),
            (_, Some("")) => errors.push(FieldError::invalid(place, "", "must not be empty")),
            ("apiVersion", Some(text)) => {
                if text.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {text}");
                    errors.push(FieldError::invalid(place, text, detail));
                }
            }
            (_, Some(text)) => {
                let complaints = names::label_1035(&text.to_lowercase());
                if !complaints.is_empty() {
                    let detail =
                        format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
                    errors.push(FieldError::invalid(place, text, detail));
                }
            }
        }
    }
}

/// Requirements on metadata.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The format of names. Without one, a name is optional and must only be a valid path segment.
    pub name: Option<NameRule>,
    /// Whether a namespace is required; otherwise it is forbidden.
    pub namespaced: bool,
}

/// Validates the metadata at a path.
pub fn check(metadata: &Value, rules: Rules, path: &str, errors: &mut Vec<FieldError>) {
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    let rule = rules.name.unwrap_or(NameRule::PathSegment);
    let generate = text("generateName");
    if !generate.is_empty() {
        for complaint in names::check(rule, generate, true) {
            errors.push(FieldError::invalid(child(path, "generateName"), generate, complaint));
        }
    }
    let name = text("name");
    if !name.is_empty() {
        for complaint in names::check(rule, name, false) {
            errors.push(FieldError::invalid(child(path, "name"), name, complaint));
        }
    } else if rules.name.is_some() {
        errors.push(FieldError::required(child(path, "name"), "name or generateName is required"));
    }
    let namespace = text("namespace");
    let place = child(path, "namespace");
    if rules.namespaced {
        if namespace.is_empty() {
            errors.push(FieldError::required(place, ""));
        } else {
            for complaint in names::label(namespace) {
                errors.push(FieldError::invalid(place.as_str(), namespace, complaint));
            }
        }
    } else if !namespace.is_empty() {
        errors.push(FieldError::forbidden(place, "not allowed on this type"));
    }
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(child(path, "generation"), generation, detail));
    }
    labels(metadata.get("labels"), &child(path, "labels"), errors);
    annotations(metadata.get("annotations"), &child(path, "annotations"), errors);
    owners(metadata.get("ownerReferences"), &child(path, "ownerReferences"), errors);
    finalizers(metadata.get("finalizers"), &child(path, "finalizers"), errors);
}

fn pairs(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let map = map.and_then(Value::as_object).into_iter().flatten();
    map.map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
}

/// Validates the labels at a path.
pub fn labels(labels: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in pairs(labels) {
        for complaint in names::qualified(key) {
            errors.push(FieldError::invalid(path, key, complaint));
        }
        for complaint in names::label_value(value) {
            errors.push(FieldError::invalid(path, value, complaint));
        }
    }
}

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

fn annotations(annotations: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in pairs(annotations) {
        for complaint in names::qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path, key, complaint));
        }
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path, ANNOTATIONS_LIMIT));
    }
}

fn owners(owners: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(list) = owners.and_then(Value::as_array) else { return };
    let mut controller: Option<String> = None;
    for owner in list {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if api_version.is_empty() || api_version.ends_with('/') {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(child(path, "apiVersion"), api_version, detail));
        }
        for name in ["kind", "name", "uid"] {
            if text(name).is_empty() {
                errors.push(FieldError::invalid(child(path, name), "", "must not be empty"));
            }
        }
        if (api_version, kind) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, owner.clone(), detail));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{kind}/{}", text("name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    errors.push(FieldError::invalid(path, Value::Array(list.clone()), detail));
                }
            }
        }
    }
}

fn finalizers(finalizers: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let list: Vec<&str> =
        finalizers.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for name in &list {
        for complaint in names::qualified(name) {
            errors.push(FieldError::invalid(path, *name, complaint));
        }
    }
    if list.contains(&"orphan") && list.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, json!(list), detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_values_are_left_out_and_empty_records_are_not() {
        for empty in [json!(""), json!([]), json!({}), json!(0), json!(null)] {
            assert!(is_empty(&empty, Type::TextMap), "{empty}");
        }
        for value in [json!("a"), json!([1]), json!({"a": 1}), json!(1), json!(false)] {
            assert!(!is_empty(&value, Type::TextMap), "{value}");
        }
        assert!(!is_empty(&json!({}), Type::Raw));
    }

    #[test]
    fn annotations_may_have_a_size_together() {
        let complaints = |length: usize| {
            let mut errors = Vec::new();
            annotations(
                Some(&json!({"a": "x".repeat(length), "b": ""})),
                "metadata.annotations",
                &mut errors,
            );
            errors.len()
        };
        assert_eq!(complaints(ANNOTATIONS_LIMIT - 2), 0);
        assert_eq!(complaints(ANNOTATIONS_LIMIT - 1), 1);
    }
}
