//! Encoding of JSON as protobuf.
//! Unset fields are omitted, while kube-apiserver writes the zero values of Go's structs; decoders can't tell the
//! difference.

use serde_json::Value;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{MAGIC, MAX_DEPTH, MESSAGES, message_name};

/// Encodes an object or list in Kubernetes' envelope. `None` for kinds without a message.
pub fn encode(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let name = message_name(api_version, kind)?;
    let mut type_meta = Writer::default();
    type_meta.bytes(1, api_version.as_bytes());
    type_meta.bytes(2, kind.as_bytes());
    let mut envelope = Writer(MAGIC.to_vec());
    envelope.bytes(1, &type_meta.0);
    envelope.bytes(2, &message(name, object, 0)?);
    // `contentEncoding` and `contentType` are empty.
    envelope.bytes(3, b"");
    envelope.bytes(4, b"");
    Some(envelope.0)
}

/// Encodes a length-prefixed watch event. `None` for kinds without a message.
pub fn encode_event(event: &Value) -> Option<Vec<u8>> {
    let mut object = Writer::default();
    object.bytes(1, &encode(event.get("object")?)?);
    let mut out = Writer::default();
    out.bytes(1, event.get("type")?.as_str()?.as_bytes());
    out.bytes(2, &object.0);
    let mut frame = u32::try_from(out.0.len()).ok()?.to_be_bytes().to_vec();
    frame.extend(out.0);
    Some(frame)
}

/// Writes fields in the wire format.
#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            // The low seven bits, and the continuation bit.
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn double(&mut self, field: u32, value: f64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes one value of a field. `None` if the value is of another type.
    fn value(&mut self, field: u32, kind: &str, value: &Value, depth: usize) -> Option<()> {
        match kind {
            "string" => self.bytes(field, value.as_str()?.as_bytes()),
            "bytes" => self.bytes(field, &STANDARD.decode(value.as_str()?).ok()?),
            "bool" => self.number(field, value.as_bool()?.into()),
            "int32" | "int64" => self.number(field, value.as_i64()?.cast_unsigned()),
            "uint32" | "uint64" => self.number(field, value.as_u64()?),
            "double" => self.double(field, value.as_f64()?),
            message_kind => self.bytes(field, &message(message_kind, value, depth + 1)?),
        }
        Some(())
    }
}

/// Encodes a message.
fn message(name: &str, value: &Value, depth: usize) -> Option<Vec<u8>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut out = Writer::default();
    if special(name, value, &mut out, depth)? {
        return Some(out.0);
    }
    for (number, key, kind) in MESSAGES.get(name)? {
        // Fields of an inlined struct are at the same level.
        let found = if key.is_empty() { Some(value) } else { value.get(key) };
        let Some(found) = found.filter(|found| !found.is_null()) else { continue };
        if let Some(inner) = kind.strip_prefix('*') {
            for item in found.as_array()? {
                out.value(*number, inner, item, depth)?;
            }
        } else if let Some(inner) = kind.strip_prefix("map:") {
            for (key, item) in found.as_object()? {
                let mut entry = Writer::default();
                entry.bytes(1, key.as_bytes());
                entry.value(2, inner, item, depth)?;
                out.bytes(*number, &entry.0);
            }
        } else {
            out.value(*number, kind, found, depth)?;
        }
    }
    Some(out.0)
}

/// Encodes messages with JSON that is not an object of their fields. Returns whether this is such a message.
fn special(name: &str, value: &Value, out: &mut Writer, depth: usize) -> Option<bool> {
    const SCHEMA: &str = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let short = name.strip_prefix("k8s.io.apimachinery.pkg.").unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    match (short, last) {
        ("apis.meta.v1.Time" | "apis.meta.v1.MicroTime", _) => {
            let at: jiff::Timestamp = value.as_str()?.parse().ok()?;
            out.number(1, at.as_second().cast_unsigned());
            out.number(2, u64::try_from(at.subsec_nanosecond()).unwrap_or_default());
        }
        ("api.resource.Quantity", _) => out.bytes(1, plain(value).as_bytes()),
        ("util.intstr.IntOrString", _) => match value.as_i64() {
            Some(number) => {
                out.number(1, 0);
                out.number(2, number.cast_unsigned());
            }
            None => {
                out.number(1, 1);
                out.bytes(3, value.as_str()?.as_bytes());
            }
        },
        ("runtime.RawExtension" | "apis.meta.v1.FieldsV1", _) => out.bytes(1, value.to_string().as_bytes()),
        (_, "JSON") if name.contains("apiextensions") => out.bytes(1, value.to_string().as_bytes()),
        (_, "ExtraValue" | "Verbs") if value.is_array() => {
            for item in value.as_array()? {
                out.value(1, "string", item, depth)?;
            }
        }
        (_, "JSONSchemaPropsOrArray") => match value.as_array() {
            Some(schemas) => {
                for schema in schemas {
                    out.value(2, SCHEMA, schema, depth)?;
                }
            }
            None => out.value(1, SCHEMA, value, depth)?,
        },
        (_, "JSONSchemaPropsOrBool") => match value.as_bool() {
            Some(allows) => out.number(1, allows.into()),
            None => {
                out.number(1, 1);
                out.value(2, SCHEMA, value, depth)?;
            }
        },
        (_, "JSONSchemaPropsOrStringArray") => match value.as_array() {
            Some(names) => {
                for name in names {
                    out.value(2, "string", name, depth)?;
                }
            }
            None => out.value(1, SCHEMA, value, depth)?,
        },
        _ => return Some(false),
    }
    Some(true)
}

/// Returns a string or number as a string.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
