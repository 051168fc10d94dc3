//! Decodes request bodies into validated JSON objects of the expected kind.

use bytes::Bytes;
use serde_json::Value;
use steersman_api::{
    fields::FieldError,
    http::FieldValidation,
    object, protobuf,
    schema::{self, Decoder, Schema, duplicates::Shape},
    status::{ApiError, ApiResult},
};

use crate::{
    call::{Call, Decoded},
    catalog::{api_version, internal_package, split_api_version},
};

/// Supported media types of objects.
const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// A body decoded as JSON, not yet validated.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    /// Unknown or duplicate fields, reported once the kind is known.
    complaints: Vec<String>,
}

/// Decodes the body as an object of the call's resource.
pub(crate) fn object(
    call: &Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Decoded> {
    let document = part(call, media, body, warnings)?;
    let kind = call.subresource.as_deref().and_then(|name| call.resource.subresource(name));
    if kind.is_some_and(|part| part.kind != call.resource.kind) {
        return Ok(document.value.into());
    }
    check_fields(call, document, warnings)
}

/// Decodes the body as the kind of the call's subresource. Fields are left for the caller to check.
pub(crate) fn part(
    call: &Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Document> {
    let resource = &*call.resource;
    let (group, version, kind) = match call.subresource.as_deref().and_then(|s| resource.subresource(s)) {
        Some(sub) => (&sub.group, &sub.version, &sub.kind),
        None => (&resource.group, &resource.version, &resource.kind),
    };
    let mut document = plain(call, media, body)?;
    if document.value.is_null() && !resource.custom {
        document.value = Value::Object(serde_json::Map::new());
    }
    if !document.value.is_object() {
        return Err(unrecognized(call, body, &without_kind(&document.value)));
    }
    check_type(call, body, &document.value)?;
    let nameless = resource.custom && object::text(&document.value, &["kind"]).unwrap_or_default().is_empty();
    if nameless && call.subresource.as_deref() != Some("scale") {
        let text = String::from_utf8_lossy(body);
        return Err(unrecognized(call, body, &format!("Object 'Kind' is missing in '{text}'")));
    }
    if *kind == resource.kind && resource.custom {
        complain_of_version(call, &mut document, warnings)?;
    }
    check_kind(call, &mut document.value, group, version, kind)?;
    Ok(document)
}

/// Rejects a body with an invalid apiVersion or kind.
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

/// Reports field errors of an object in another version by that version's schema; it is rejected later.
fn complain_of_version(call: &Call, document: &mut Document, warnings: &mut Vec<String>) -> ApiResult<()> {
    let Document { value, complaints } = document;
    let text = |field: &str| object::text(value, &[field]).unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let resource = &call.resource;
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
    complaints.extend(found);
    complain_of(call, &resource.kind, version, &std::mem::take(complaints), warnings)
}

/// Returns the name Go's decoder uses for a JSON value other than an object.
pub(crate) fn go_name(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Object(_) => "object",
        _ => "bool",
    }
}

/// Returns the error for a document that is not an object and so has no kind.
pub(crate) fn without_kind(value: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        go_name(value)
    )
}

/// Decodes the body as JSON, without looking at its kind.
pub(crate) fn plain(call: &Call, media: &str, body: &Bytes) -> ApiResult<Document> {
    let mut document = match media {
        // JSON numbers are already normalized.
        "" | "application/json" => return json(call, body),
        "application/yaml" => yaml(call, body)?,
        "application/vnd.kubernetes.protobuf" if !call.resource.custom => {
            let value = protobuf::decode(body).map_err(|e| unrecognized(call, body, &e.to_string()))?;
            Document { value, complaints: Vec::new() }
        }
        _ => return Err(ApiError::unsupported_media_type(&ACCEPTED)),
    };
    object::normalise_numbers(&mut document.value);
    Ok(document)
}

fn yaml(call: &Call, body: &Bytes) -> ApiResult<Document> {
    let (value, repeated) = any_yaml(call, body).map_err(|e| unrecognized(call, body, &e.to_string()))?;
    Ok(Document { value, complaints: repeated.iter().map(ToString::to_string).collect() })
}

/// Parses YAML; also returns the duplicate keys, unless field validation is `Ignore`.
///
/// # Errors
/// If the YAML is invalid even without strict checks.
pub(crate) fn any_yaml(
    call: &Call,
    body: &[u8],
) -> Result<(Value, Option<steersman_yaml::Error>), steersman_yaml::Error> {
    if call.write.field_validation == FieldValidation::Ignore {
        return Ok((steersman_yaml::from_slice(body)?, None));
    }
    // Duplicate keys are rare: only then parse the body a second time.
    match steersman_yaml::from_slice_strict(body) {
        Ok(value) => Ok((value, None)),
        Err(repeated) => Ok((steersman_yaml::from_slice(body)?, Some(repeated))),
    }
}

fn json(call: &Call, body: &Bytes) -> ApiResult<Document> {
    if call.write.field_validation == FieldValidation::Ignore {
        let mut value = serde_json::from_slice(body).map_err(|e| malformed(call, body, &e))?;
        object::normalise_numbers(&mut value);
        return Ok(Document { value, complaints: Vec::new() });
    }
    // Typed decoders report unknown and duplicate fields together, in document order.
    let whole = call.subresource.as_deref().is_none_or(|s| s == "status");
    let schema = call
        .resource
        .strategy
        .schema(&call.resource.version)
        .filter(|_| call.resource.strategy.typed() && whole && !call.verb.is_delete());
    let shape = schema.as_deref().map_or(Shape::Any, Shape::of);
    let (value, complaints) =
        schema::duplicates::parse(body, shape).map_err(|e| malformed(call, body, &e))?;
    Ok(Document { value, complaints })
}

fn malformed(call: &Call, body: &Bytes, error: &serde_json::Error) -> ApiError {
    let why = format!("couldn't get version/kind; json parse error: {}", schema::syntax(body, error));
    if call.verb.is_delete() { ApiError::bad_request(why) } else { unrecognized(call, body, &why) }
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

/// Decodes an object; unknown fields are rejected, reported or dropped, depending on field validation.
fn check_fields(call: &Call, document: Document, warnings: &mut Vec<String>) -> ApiResult<Decoded> {
    let Document { value: mut object, mut complaints } = document;
    let decoded = call.resource.strategy.decode(&call.resource.version, &mut object, Decoder::Json);
    let found = decoded.map_err(|detail| {
        ApiError::bad_request(format!(
            "{} in version {} cannot be handled as a {}: {detail}",
            call.resource.kind,
            steersman_api::status::quote(&call.resource.version),
            call.resource.kind
        ))
    })?;
    complaints.extend(found.unknown);
    complain(call, &complaints, warnings)?;
    Ok(Decoded { object, emptied: found.emptied })
}

/// Decodes an object of a kind without its own resource, with field validation by its type.
pub(crate) fn typed(
    call: &Call,
    document: Document,
    schema: &Schema,
    kind: &str,
    version: &str,
    warnings: &mut Vec<String>,
) -> ApiResult<Value> {
    let Document { mut value, mut complaints } = document;
    let decoded = schema.decode(&mut value, Decoder::Json).map_err(|why| {
        let version = steersman_api::status::quote(version);
        ApiError::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {why}"))
    })?;
    complaints.extend(decoded.unknown);
    complain_of(call, kind, version, &complaints, warnings)?;
    Ok(value)
}

/// Reports field errors as an error, as warnings, or not at all, depending on field validation.
pub(crate) fn complain(call: &Call, complaints: &[String], warnings: &mut Vec<String>) -> ApiResult<()> {
    complain_of(call, &call.resource.kind, &call.resource.version, complaints, warnings)
}

/// Like [`complain`], for an object of a kind other than the path's.
pub(crate) fn complain_of(
    call: &Call,
    kind: &str,
    version: &str,
    complaints: &[String],
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    if complaints.is_empty() {
        return Ok(());
    }
    match call.write.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => warnings.extend(complaints.iter().flat_map(|c| lines(c))),
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

/// Splits a field error into warnings: YAML decoders put one error on each line.
fn lines(complaint: &str) -> Vec<String> {
    const HEAD: &str = "yaml: unmarshal errors:\n";
    let text = complaint.strip_prefix("error converting YAML to JSON: ").unwrap_or(complaint);
    match text.strip_prefix(HEAD) {
        Some(lines) => lines.lines().map(|line| line.trim().to_owned()).collect(),
        None => vec![complaint.to_owned()],
    }
}

/// Rejects a body of a kind other than the expected one, and sets the kind if it is omitted.
fn check_kind(call: &Call, object: &mut Value, group: &str, version: &str, kind: &str) -> ApiResult<()> {
    let expected = api_version(group, version);
    let given_version = object::text(object, &["apiVersion"]).unwrap_or_default().to_owned();
    let given_kind = object::text(object, &["kind"]).unwrap_or_default().to_owned();
    if call.resource.custom && call.subresource.as_deref() != Some("scale") {
        if given_version != expected {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({given_version}) does not match the expected API version ({expected})"
            )));
        }
        if given_kind != kind {
            let error = FieldError::invalid("kind", given_kind.as_str(), format!("must be {kind}"));
            let name = object::name(object);
            return Err(ApiError::invalid_kind(group, &given_kind, name, vec![error]));
        }
    }
    // The older version of evictions is still decoded, though no longer served.
    let older_eviction = call.subresource_name() == "eviction" && given_version == "policy/v1beta1";
    let same_version = given_version.is_empty() || given_version == expected || older_eviction;
    let same_kind = given_kind.is_empty() || given_kind == kind;
    if !same_version || !same_kind {
        return Err(wrong_kind(call, object, &expected, kind, &given_version, &given_kind));
    }
    let root = object::ensure(object);
    root.insert("apiVersion".into(), expected.into());
    root.insert("kind".into(), kind.into());
    Ok(())
}

/// Returns an error unless the object's name matches the path; whole objects must have a name.
pub(crate) fn check_name(call: &Call, object: &Value) -> ApiResult<()> {
    let url = &call.name;
    Err(ApiError::bad_request(match object::name(object) {
        "" => {
            format!("the name of the object ({url} based on URL) was undeterminable: name must be provided")
        }
        name if name != url => {
            format!("the name of the object ({name}) does not match the name on the URL ({url})")
        }
        _ => return Ok(()),
    }))
}

fn wrong_kind(
    call: &Call,
    object: &Value,
    expected: &str,
    kind: &str,
    given_version: &str,
    given_kind: &str,
) -> ApiError {
    let given_version = if given_version.is_empty() { expected } else { given_version };
    let given_kind = if given_kind.is_empty() { kind } else { given_kind };
    let ((given_group, version), (group, _)) =
        (split_api_version(given_version), split_api_version(expected));
    let known = call.core.catalog().find_kind(given_group, version, given_kind).is_some();
    if call.resource.custom || (known && given_group == group && given_kind == kind) {
        return ApiError::bad_request(format!(
            "the API version in the data ({given_version}) does not match the expected API version ({expected})"
        ));
    }
    let why = wrong_conversion(call, object, given_version, given_kind, group, kind);
    ApiError::bad_request(format!(
        "{given_kind} in version {} cannot be handled as a {kind}: {why}",
        steersman_api::status::quote(version)
    ))
}

/// Returns why a decoder cannot convert an object of one kind to another.
pub(crate) fn wrong_conversion(
    call: &Call,
    object: &Value,
    given_version: &str,
    given_kind: &str,
    group: &str,
    kind: &str,
) -> String {
    let (given_group, version) = split_api_version(given_version);
    let catalog = call.core.catalog();
    let Some(given) = catalog.find_kind(given_group, version, given_kind).filter(|r| !r.custom) else {
        return format!(
            "no kind \"{given_kind}\" is registered for version \"{given_version}\" in scheme \"pkg/runtime/scheme.go:111\""
        );
    };
    // First, it must decode as its own kind.
    if let Err(why) = given.strategy.decode(version, &mut object.clone(), Decoder::Json) {
        return why;
    }
    let package = internal_package(group);
    format!("converting ({version}.{given_kind}) to ({package}.{kind}): unknown conversion")
}
