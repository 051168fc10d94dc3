//! From a request's body to a checked JSON object of the path's kind.

use bytes::Bytes;
use serde_json::Value;
use steersman_api::{
    http::FieldValidation,
    object, protobuf,
    schema::{self, Decoder, Schema, duplicates::Shape},
    status::{ApiError, ApiResult},
};

use crate::{call::Call, catalog::split_api_version};

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
    check_type(call, body, &value)?;
    let nameless = call.resource.custom && object::text(&value, &["kind"]).unwrap_or_default().is_empty();
    if nameless && call.subresource.as_deref() != Some("scale") {
        let text = String::from_utf8_lossy(body);
        return Err(unrecognized(call, body, &format!("Object 'Kind' is missing in '{text}'")));
    }
    if kind == call.resource.kind && call.resource.custom {
        complain_of_version(call, &value)?;
    }
    call.check_kind(&mut value, &group, &version, &kind)?;
    if kind == call.resource.kind {
        check_fields(call, &mut value)?;
    }
    Ok(value)
}

/// Refuses a body whose type can't be told.
fn check_type(call: &Call, body: &[u8], value: &Value) -> ApiResult<()> {
    for field in ["apiVersion", "kind"] {
        if let Some(odd) = value.get(field).filter(|given| !given.is_string() && !given.is_null()) {
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{field} of type string",
                go_name(odd)
            );
            return Err(unrecognized(call, body, &why));
        }
    }
    let version = object::text(value, &["apiVersion"]).unwrap_or_default();
    if version.matches('/').count() > 1 {
        return Err(unrecognized(call, body, &format!("unexpected GroupVersion string: {version}")));
    }
    Ok(())
}

/// An object in another version than the path's is judged by that version, before it is refused.
fn complain_of_version(call: &mut Call, value: &Value) -> ApiResult<()> {
    let text = |field: &str| object::text(value, &[field]).unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let resource = std::sync::Arc::clone(&call.resource);
    if group != resource.group || text("kind") != resource.kind || version == resource.version {
        return Ok(());
    }
    let found = match call.core.catalog().find_kind(group, version, &resource.kind) {
        Some(other) => {
            other.strategy.decode(version, &mut value.clone(), Decoder::Json).unwrap_or_default().unknown
        }
        None => value
            .as_object()
            .into_iter()
            .flat_map(|root| root.keys())
            .filter(|key| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
            .map(|key| format!("unknown field {}", steersman_api::status::quote(key)))
            .collect(),
    };
    let mut complaints = std::mem::take(&mut call.complaints);
    complaints.extend(found);
    complain_of(call, &resource.kind, version, complaints)
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
        // Its numbers are in order already.
        "" | "application/json" => return json(call, body),
        "application/yaml" => yaml(call, body)?,
        "application/vnd.kubernetes.protobuf" if !call.resource.custom => {
            protobuf::decode(body).map_err(|e| unrecognized(call, body, &e.to_string()))?
        }
        _ => return Err(ApiError::unsupported_media_type(&ACCEPTED)),
    };
    object::normalise_numbers(&mut value);
    Ok(value)
}

fn yaml(call: &mut Call, body: &Bytes) -> ApiResult<Value> {
    let (value, repeated) = any_yaml(call, body).map_err(|e| unrecognized(call, body, &e.to_string()))?;
    if let Some(repeated) = repeated {
        call.complaints = vec![repeated.to_string()];
    }
    Ok(value)
}

/// Reads YAML, with what a strict decoder says of keys that it repeats unless the client does not care.
///
/// # Errors
/// Those of a decoder that is not strict.
pub(crate) fn any_yaml(
    call: &Call,
    body: &[u8],
) -> Result<(Value, Option<steersman_yaml::Error>), steersman_yaml::Error> {
    if call.field_validation == FieldValidation::Ignore {
        return Ok((steersman_yaml::from_slice(body)?, None));
    }
    // Repeated keys are rare: only then the body is read once more.
    match steersman_yaml::from_slice_strict(body) {
        Ok(value) => Ok((value, None)),
        Err(repeated) => Ok((steersman_yaml::from_slice(body)?, Some(repeated))),
    }
}

fn json(call: &mut Call, body: &Bytes) -> ApiResult<Value> {
    if call.field_validation == FieldValidation::Ignore {
        let mut value = serde_json::from_slice(body).map_err(|e| malformed(call, body, &e))?;
        object::normalise_numbers(&mut value);
        return Ok(value);
    }
    // Typed decoders find unknown and repeated fields in one go, in the order of the document.
    let whole = call.subresource.as_deref().is_none_or(|s| s == "status");
    let schema = call
        .resource
        .strategy
        .schema(&call.resource.version)
        .filter(|_| call.resource.strategy.typed() && whole && !call.reads_options);
    let shape = schema.as_deref().map_or(Shape::Any, Shape::of);
    let (value, complaints) =
        schema::duplicates::parse(body, shape).map_err(|e| malformed(call, body, &e))?;
    call.complaints = complaints;
    Ok(value)
}

fn malformed(call: &Call, body: &Bytes, error: &serde_json::Error) -> ApiError {
    let why = format!("couldn't get version/kind; json parse error: {}", schema::syntax(body, error));
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

/// Refuses, reports or drops what the schema does not know, as the client wishes.
pub(crate) fn check_fields(call: &mut Call, value: &mut Value) -> ApiResult<()> {
    let decoded = call.resource.strategy.decode(&call.resource.version, value, Decoder::Json);
    let found = decoded.map_err(|detail| {
        ApiError::bad_request(format!(
            "{} in version {} cannot be handled as a {}: {detail}",
            call.resource.kind,
            steersman_api::status::quote(&call.resource.version),
            call.resource.kind
        ))
    })?;
    call.emptied = found.emptied;
    let mut complaints = std::mem::take(&mut call.complaints);
    complaints.extend(found.unknown);
    complain(call, complaints)
}

/// Reads an object of a kind without a resource of its own: refuses, reports or drops what its type does not know.
pub(crate) fn typed(
    call: &mut Call,
    value: &mut Value,
    schema: &Schema,
    kind: &str,
    version: &str,
) -> ApiResult<()> {
    let decoded = schema.decode(value, Decoder::Json).map_err(|why| {
        let version = steersman_api::status::quote(version);
        ApiError::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {why}"))
    })?;
    let mut complaints = std::mem::take(&mut call.complaints);
    complaints.extend(decoded.unknown);
    complain_of(call, kind, version, complaints)
}

/// Turns complaints about fields into an error, warnings, or nothing.
pub(crate) fn complain(call: &mut Call, complaints: Vec<String>) -> ApiResult<()> {
    let resource = std::sync::Arc::clone(&call.resource);
    complain_of(call, &resource.kind, &resource.version, complaints)
}

/// The same for an object of another kind than the path's.
pub(crate) fn complain_of(
    call: &mut Call,
    kind: &str,
    version: &str,
    complaints: Vec<String>,
) -> ApiResult<()> {
    if complaints.is_empty() {
        return Ok(());
    }
    match call.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => call.warnings.extend(complaints.iter().flat_map(|c| warnings(c))),
        FieldValidation::Strict => {
            let joined = complaints.join(", ");
            return Err(ApiError::bad_request(format!(
                "{kind} in version {} cannot be handled as a {kind}: strict decoding error: {joined}",
                steersman_api::status::quote(version)
            )));
        }
    }
    Ok(())
}

/// A complaint as warnings: that of a YAML decoder holds one on each line.
fn warnings(complaint: &str) -> Vec<String> {
    const HEAD: &str = "yaml: unmarshal errors:\n";
    let text = complaint.strip_prefix("error converting YAML to JSON: ").unwrap_or(complaint);
    match text.strip_prefix(HEAD) {
        Some(lines) => lines.lines().map(|line| line.trim().to_owned()).collect(),
        None => vec![complaint.to_owned()],
    }
}
