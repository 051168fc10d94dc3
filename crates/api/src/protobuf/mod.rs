//! Kubernetes protobuf: decodes request bodies to JSON, and encodes JSON for responses.
//! Hand-written, driven by a table of messages: a general decoder (prost-reflect) would need the full descriptors, and
//! most of the work is in the types with JSON that differs from their messages anyway.

mod encode;
mod wire;

use std::{collections::HashMap, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

pub use encode::{encode, encode_event};
use wire::{Reader, Wire};

/// Magic number of the envelope, `runtime.Unknown`.
const MAGIC: &[u8] = b"k8s\0";
const MAX_DEPTH: usize = 100;

/// An error while decoding protobuf.
#[derive(Debug, thiserror::Error)]
pub enum ProtobufError {
    /// The input is empty.
    #[error("empty data")]
    Empty,
    /// The envelope's magic number is missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoEnvelope,
    /// The envelope is empty.
    #[error("empty body")]
    NoBody,
    /// The input ends early.
    #[error("unexpected EOF")]
    Short,
    /// The message does not match its type.
    #[error("malformed protobuf message")]
    Malformed,
}

/// Field number, JSON name, type.
type FieldData = (u32, String, String);

static MESSAGES: LazyLock<HashMap<String, Vec<FieldData>>> = LazyLock::new(|| {
    // The file is compiled in; a test checks that it parses.
    serde_json::from_str(include_str!("../../data/protobuf.json")).unwrap_or_default()
});

/// Decodes an object in its envelope. For unknown kinds, decodes only apiVersion and kind.
pub fn decode(bytes: &[u8]) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Err(ProtobufError::Empty);
    }
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::NoEnvelope)?;
    if envelope.is_empty() {
        return Err(ProtobufError::NoBody);
    }
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &b""[..]);
    let mut reader = Reader::new(envelope);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(meta)) => {
                let mut reader = Reader::new(meta);
                while let Some((number, wire)) = reader.next()? {
                    match (number, wire) {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(body)) => raw = body,
            _ => {}
        }
    }
    let mut value = match message_name(&api_version, &kind) {
        Some(name) => message(name, raw, 0)?,
        None => json!({}),
    };
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), api_version.into());
        map.insert("kind".into(), kind.into());
    }
    Ok(value)
}

/// Returns the message name of a kind: its group without domain is the package.
fn message_name(api_version: &str, kind: &str) -> Option<&'static str> {
    let (group, version) = crate::group_version::split_api_version(api_version);
    let package = match group.split('.').next().unwrap_or_default() {
        "" => "core",
        first => first,
    };
    let candidates = [
        format!("k8s.io.api.{package}.{version}.{kind}"),
        format!("k8s.io.apimachinery.pkg.apis.meta.v1.{kind}"),
        format!("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.{version}.{kind}"),
        format!("k8s.io.kube_aggregator.pkg.apis.apiregistration.{version}.{kind}"),
    ];
    candidates.iter().find_map(|name| MESSAGES.get_key_value(name.as_str()).map(|(k, _)| k.as_str()))
}

/// Returns the structs that JSON inlines between a type and one of its fields, outermost first. `owner` is the type's
/// OpenAPI name.
pub fn inlined(owner: &str, field: &str) -> Vec<&'static str> {
    fn search(message: &str, field: &str, depth: usize) -> Option<Vec<&'static str>> {
        let fields = MESSAGES.get(message).filter(|_| depth < MAX_DEPTH)?;
        if fields.iter().any(|(_, name, _)| name == field) {
            return Some(Vec::new());
        }
        fields.iter().filter(|(_, name, _)| name.is_empty()).find_map(|(_, _, inner)| {
            let mut names = search(inner, field, depth + 1)?;
            names.insert(0, inner.rsplit('.').next().unwrap_or_default());
            Some(names)
        })
    }
    let message = owner.replacen("io.k8s.", "k8s.io.", 1);
    search(&message, field, 0).unwrap_or_default()
}

/// Returns a field's number in its type, which sorts metadata first and unknown fields last. `owner` is the type's
/// OpenAPI name.
pub fn position(owner: &str, field: &str) -> u32 {
    let fields = MESSAGES.get(&owner.replacen("io.k8s.", "k8s.io.", 1)).map_or(&[][..], Vec::as_slice);
    fields.iter().find(|(_, name, _)| name == field).map_or(u32::MAX, |(number, _, _)| *number)
}

fn utf8(bytes: &[u8]) -> Result<String, ProtobufError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ProtobufError::Malformed)
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::Malformed);
    }
    if let Some(value) = special(name, bytes, depth)? {
        return Ok(value);
    }
    let fields = MESSAGES.get(name).ok_or(ProtobufError::Malformed)?;
    let mut out = Map::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        // Unknown field numbers are sent by newer clients.
        let Some((_, key, kind)) = fields.iter().find(|(n, _, _)| *n == number) else { continue };
        if let Some(inner) = kind.strip_prefix('*') {
            let list = out.entry(key.as_str()).or_insert_with(|| json!([]));
            let Some(list) = list.as_array_mut() else { continue };
            match wire {
                Wire::Bytes(packed) if is_number(inner) => {
                    let mut reader = Reader::new(packed);
                    while let Some(n) = reader.number()? {
                        list.push(scalar(inner, Wire::Number(n))?);
                    }
                }
                wire => list.push(field(inner, wire, depth)?),
            }
        } else if let Some(inner) = kind.strip_prefix("map:") {
            let (entry_key, entry_value) = map_entry(inner, wire, depth)?;
            let map = out.entry(key.as_str()).or_insert_with(|| json!({}));
            if let Some(map) = map.as_object_mut() {
                map.insert(entry_key, entry_value);
            }
        } else {
            let value = field(kind, wire, depth)?;
            match value {
                Value::Object(inner) if key.is_empty() => out.extend(inner),
                value => {
                    // Go's encoder writes empty strings and zeros that JSON omits.
                    let empty = match &value {
                        Value::String(s) => s.is_empty(),
                        Value::Null => true,
                        // Schemas in lists are not re-encoded by type later, which would drop these.
                        Value::Bool(false) => name.ends_with(".JSONSchemaProps"),
                        _ => false,
                    };
                    if !empty {
                        out.insert(key.clone(), value);
                    }
                }
            }
        }
    }
    if name.ends_with(".ExtraValue") || name.ends_with(".Verbs") {
        // A plain list in JSON and in Go.
        return Ok(out.remove("items").unwrap_or_default());
    }
    Ok(Value::Object(out))
}

fn is_number(kind: &str) -> bool {
    matches!(kind, "bool" | "int32" | "int64" | "uint32" | "uint64")
}

fn map_entry(kind: &str, wire: Wire<'_>, depth: usize) -> Result<(String, Value), ProtobufError> {
    let Wire::Bytes(bytes) = wire else { return Err(ProtobufError::Malformed) };
    let mut key = String::new();
    let mut value = match kind {
        "string" | "bytes" => Value::String(String::new()),
        _ => Value::Null,
    };
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(text)) => key = utf8(text)?,
            (2, wire) => value = field(kind, wire, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn field(kind: &str, wire: Wire<'_>, depth: usize) -> Result<Value, ProtobufError> {
    match wire {
        Wire::Bytes(bytes) if kind.contains('.') => message(kind, bytes, depth + 1),
        wire => scalar(kind, wire),
    }
}

fn scalar(kind: &str, wire: Wire<'_>) -> Result<Value, ProtobufError> {
    Ok(match (kind, wire) {
        ("string", Wire::Bytes(text)) => utf8(text)?.into(),
        ("bytes", Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        ("bool", Wire::Number(n)) => (n != 0).into(),
        ("int32" | "int64", Wire::Number(n)) => n.cast_signed().into(),
        ("uint32" | "uint64", Wire::Number(n)) => n.into(),
        ("double", Wire::Fixed64(bits)) => json!(f64::from_bits(bits)),
        ("float", Wire::Fixed32(bits)) => json!(f32::from_bits(bits)),
        _ => return Err(ProtobufError::Malformed),
    })
}

/// Decodes messages with JSON that is not an object of their fields.
fn special(name: &str, bytes: &[u8], depth: usize) -> Result<Option<Value>, ProtobufError> {
    let short = match name.strip_prefix("k8s.io.apimachinery.pkg.") {
        Some(short) => short,
        None => match name.rsplit('.').next().unwrap_or_default() {
            short @ ("JSON"
            | "JSONSchemaPropsOrArray"
            | "JSONSchemaPropsOrBool"
            | "JSONSchemaPropsOrStringArray")
                if name.contains("apiextensions") =>
            {
                short
            }
            _ => return Ok(None),
        },
    };
    if !matches!(
        short,
        "apis.meta.v1.Time"
            | "apis.meta.v1.MicroTime"
            | "api.resource.Quantity"
            | "util.intstr.IntOrString"
            | "runtime.RawExtension"
            | "apis.meta.v1.FieldsV1"
            | "JSON"
            | "JSONSchemaPropsOrArray"
            | "JSONSchemaPropsOrBool"
            | "JSONSchemaPropsOrStringArray"
    ) {
        return Ok(None);
    }
    let mut numbers = [0_u64; 4];
    let mut texts: [Option<&[u8]>; 4] = [None; 4];
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.next()? {
        let Ok(index) = usize::try_from(number) else { continue };
        match wire {
            Wire::Number(n) => {
                if let Some(slot) = numbers.get_mut(index) {
                    *slot = n;
                }
            }
            Wire::Bytes(b) => {
                if let Some(slot) = texts.get_mut(index) {
                    *slot = Some(b);
                }
            }
            _ => {}
        }
    }
    let text = |index: usize| texts.get(index).copied().flatten();
    let value = match short {
        "apis.meta.v1.Time" | "apis.meta.v1.MicroTime" => {
            if bytes.is_empty() {
                Value::Null
            } else {
                let nanos = i32::try_from(numbers[2].cast_signed()).unwrap_or_default();
                let at = jiff::Timestamp::new(numbers[1].cast_signed(), nanos)
                    .map_err(|_| ProtobufError::Malformed)?;
                if short.ends_with("MicroTime") {
                    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into()
                } else {
                    crate::environment::seconds(at).into()
                }
            }
        }
        "api.resource.Quantity" => utf8(text(1).unwrap_or_default())?.into(),
        "util.intstr.IntOrString" => {
            if numbers[1] == 1 {
                utf8(text(3).unwrap_or_default())?.into()
            } else {
                numbers[2].cast_signed().into()
            }
        }
        "runtime.RawExtension" | "apis.meta.v1.FieldsV1" | "JSON" => match text(1) {
            None | Some(b"") => Value::Null,
            Some(raw) => serde_json::from_slice(raw).map_err(|_| ProtobufError::Malformed)?,
        },
        // The remaining types are a schema or a simpler value.
        other => {
            let props = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
            match (other, text(1), text(2)) {
                ("JSONSchemaPropsOrArray", Some(schema), _) | ("JSONSchemaPropsOrBool", _, Some(schema)) => {
                    message(props, schema, depth + 1)?
                }
                ("JSONSchemaPropsOrBool", _, _) => (numbers[1] != 0).into(),
                (_, Some(schema), _) => message(props, schema, depth + 1)?,
                _ => Value::Null,
            }
        }
    };
    Ok(Some(value))
}

#[cfg(test)]
mod tests;
