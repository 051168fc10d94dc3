//! From a request's body to a checked JSON object of the path's kind.

use bytes::Bytes;
use serde_json::Value;

use crate::{
    call::Call,
    http::FieldValidation,
    object, protobuf, schema,
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
    call.check_kind(&mut value, &group, &version, &kind)?;
    if kind == call.resource.kind {
        check_fields(call, &mut value)?;
    }
    Ok(value)
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
    let (value, duplicates) = schema::duplicates::parse(body).map_err(|e| malformed(call, body, &e))?;
    complain(call, duplicates)?;
    Ok(value)
}

fn malformed(call: &Call, body: &Bytes, error: &serde_json::Error) -> ApiError {
    let _ = body;
    if call.resource.custom {
        return ApiError::bad_request(format!("error decoding patch: {error}"));
    }
    ApiError::bad_request(format!(
        "{} in version {} cannot be handled as a {}: {error}",
        call.resource.kind,
        crate::status::quote(&call.resource.version),
        call.resource.kind
    ))
}

/// Refuses, reports or drops what the schema does not know, as the client wishes.
pub(crate) fn check_fields(call: &mut Call, value: &mut Value) -> ApiResult<()> {
    let Some(schema) = call.resource.strategy.schema(&call.resource.version) else { return Ok(()) };
    if call.resource.strategy.typed() {
        schema.decode(value).map_err(|detail| {
            ApiError::bad_request(format!(
                "{} in version {} cannot be handled as a {}: {detail}",
                call.resource.kind,
                crate::status::quote(&call.resource.version),
                call.resource.kind
            ))
        })?;
    }
    let unknown = schema.prune(value);
    complain(call, unknown)
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
            return Err(ApiError::bad_request(if call.resource.custom {
                format!("strict decoding error: {joined}")
            } else {
                format!(
                    "{kind} in version {} cannot be handled as a {kind}: strict decoding error: {joined}",
                    crate::status::quote(&call.resource.version)
                )
            }));
        }
    }
    Ok(())
}
