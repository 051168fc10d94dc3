//! From a request's body to a checked JSON object of the path's kind.

use bytes::Bytes;
use serde_json::Value;

use crate::{
    call::Call,
    http::FieldValidation,
    object, protobuf,
    schema::{self, Decoder},
    status::{ApiError, ApiResult},
};

/// Media types of whole objects.
const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Reads the body as an object of the call's resource (or of its subresource's kind).
pub(crate) fn object(call: &mut Call, media: &str, body: &Bytes) -> ApiResult<Value> {
    let (group, version, kind) = match call.subresource.as_deref().and_then(|s| call.resource.subresource(s))
    {
        Some(sub) => (sub.group.clone(), sub.version.clone(), sub.kind.clone()),
        None => (call.resource.group.clone(), call.resource.version.clone(), call.resource.kind.clone()),
    };
    let mut value = plain(call, media, body)?;
    if value.is_null() && !call.resource.custom {
        value = Value::Object(serde_json::Map::new());
    }
    if !value.is_object() {
        return Err(unrecognized(call, body, &without_kind(&value)));
    }
    let nameless = call.resource.custom && object::text(&value, &["kind"]).unwrap_or_default().is_empty();
    if nameless && call.subresource.as_deref() != Some("scale") {
        let text = String::from_utf8_lossy(body);
        return Err(unrecognized(call, body, &format!("Object 'Kind' is missing in '{text}'")));
    }
    call.check_kind(&mut value, &group, &version, &kind)?;
    if kind == call.resource.kind {
        check_fields(call, &mut value)?;
    }
    Ok(value)
}

/// What Go's decoder calls a JSON value that is no object.
pub(crate) fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Object(_) => "object",
        _ => "bool",
    }
}

/// The words for a document that cannot name its kind, as it is no object.
pub(crate) fn without_kind(value: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        go_name(value)
    )
}

/// Reads the body as JSON, whatever it means.
pub(crate) fn plain(call: &mut Call, media: &str, body: &Bytes) -> ApiResult<Value> {
    let mut value = match media {
        "" | "application/json" => json(call, body)?,
        "application/yaml" => steersman_yaml::from_slice(body)
            .map_err(|e| ApiError::bad_request(format!("error converting YAML to JSON: {e}")))?,
        "application/vnd.kubernetes.protobuf" if !call.resource.custom => {
            protobuf::decode(body).map_err(|e| ApiError::bad_request(e.to_string()))?
        }
        _ => return Err(ApiError::unsupported_media_type(&ACCEPTED)),
    };
    object::normalise_numbers(&mut value);
    Ok(value)
}

fn json(call: &mut Call, body: &Bytes) -> ApiResult<Value> {
    if call.field_validation == FieldValidation::Ignore {
        return serde_json::from_slice(body).map_err(|e| malformed(call, body, &e));
    }
    // Typed decoders find unknown and repeated fields in one go, in the order of the document.
    let whole = call.subresource.as_deref().is_none_or(|s| s == "status");
    let schema = call
        .resource
        .strategy
        .schema(&call.resource.version)
        .filter(|_| call.resource.strategy.typed() && whole && !call.reads_options);
    let (value, complaints) =
        schema::duplicates::parse(body, schema.as_deref()).map_err(|e| malformed(call, body, &e))?;
    call.complaints = complaints;
    Ok(value)
}

/// The words of Go's decoder for bytes that are not JSON.
pub(crate) fn syntax(body: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() || body.is_empty() {
        return "unexpected end of JSON input".into();
    }
    let line = body.split(|b| *b == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let found = line.get(error.column().saturating_sub(1)).copied().unwrap_or(b' ');
    let found = match found {
        0..0x20 | 0x7f => format!("\\x{found:02x}"),
        0x80..=0xa0 | 0xad => format!("\\u{found:04x}"),
        _ => char::from(found).to_string(),
    };
    format!("invalid character '{found}' looking for beginning of value")
}

fn malformed(call: &Call, body: &Bytes, error: &serde_json::Error) -> ApiError {
    let why = format!("couldn't get version/kind; json parse error: {}", syntax(body, error));
    if call.reads_options { ApiError::bad_request(why) } else { unrecognized(call, body, &why) }
}

fn unrecognized(call: &Call, body: &[u8], why: &str) -> ApiError {
    let summary = match body {
        [] => "<empty>".to_owned(),
        [b'{', ..] => {
            let text = String::from_utf8_lossy(body);
            if text.len() > 30 {
                format!("{} ...", text.chars().take(30).collect::<String>())
            } else {
                text.into_owned()
            }
        }
        bytes => bytes.iter().take(64).map(|b| format!("{b:02x}")).collect(),
    };
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({summary})",
        call.resource.kind
    ))
}

/// What a name that is nowhere to be found is called.
pub(crate) fn no_name(url: &str) -> String {
    format!("the name of the object ({url} based on URL) was undeterminable: name must be provided")
}

/// Refuses, reports or drops what the schema does not know, as the client wishes.
pub(crate) fn check_fields(call: &mut Call, value: &mut Value) -> ApiResult<()> {
    let mut emptied = Vec::new();
    let strategy = &call.resource.strategy;
    let found = strategy.decode(&call.resource.version, value, Decoder::Json, &mut emptied);
    call.emptied = emptied;
    let found = found.map_err(|detail| {
        ApiError::bad_request(format!(
            "{} in version {} cannot be handled as a {}: {detail}",
            call.resource.kind,
            crate::status::quote(&call.resource.version),
            call.resource.kind
        ))
    })?;
    let mut complaints = std::mem::take(&mut call.complaints);
    complaints.extend(found);
    complain(call, complaints)
}

/// Turns complaints about fields into an error, warnings, or nothing.
pub(crate) fn complain(call: &mut Call, complaints: Vec<String>) -> ApiResult<()> {
    if complaints.is_empty() {
        return Ok(());
    }
    match call.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => call.warnings.extend(complaints),
        FieldValidation::Strict => {
            let list: Vec<&str> = complaints.iter().map(String::as_str).collect();
            let kind = &call.resource.kind;
            let joined = list.join(", ");
            return Err(ApiError::bad_request(format!(
                "{kind} in version {} cannot be handled as a {kind}: strict decoding error: {joined}",
                crate::status::quote(&call.resource.version)
            )));
        }
    }
    Ok(())
}
