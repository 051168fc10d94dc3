//! The four patch types.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use steersman_patch::{JsonPatchError, StrategicError, json_patch, merge_patch};

use super::answer;
use crate::{
    apply,
    call::{Call, wrong_conversion},
    catalog::split_api_version,
    decode,
    fields::FieldError,
    http::{Body, FieldValidation},
    object,
    pipeline::{self, Mode},
    schema::{self, Decoder},
    status::{ApiError, ApiResult},
};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A decoded patch.
#[derive(Debug)]
enum Patch {
    Json(Bytes),
    Merge(Value),
    Strategic(Value),
}

pub(super) async fn patch(call: &mut Call, media: &str, body: &Bytes) -> ApiResult<Response<Body>> {
    if media == APPLY {
        return apply(call, body).await;
    }
    if call.options.force.is_some() {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        return Err(ApiError::invalid_kind("meta.k8s.io", "PatchOptions", "", vec![error]));
    }
    let patch = decode_patch(call, media, body)?;
    let mut complaints = Vec::new();
    let result = pipeline::update(call, Mode::Patch, |call, current| {
        let Some(current) = current else { return Err(ApiError::not_found(&call.resource, &call.name)) };
        let (patched, found) = apply_patch(call, &patch, current)?;
        complaints = found;
        Ok(patched)
    })
    .await;
    // Complaints are about the last attempt only, and are sent even if the object is refused.
    let complained = decode::complain(call, complaints);
    let (written, _) = result?;
    complained?;
    answer(call, written, StatusCode::OK)
}

fn decode_patch(call: &mut Call, media: &str, body: &Bytes) -> ApiResult<Patch> {
    match media {
        JSON => Ok(Patch::Json(body.clone())),
        MERGE => Ok(Patch::Merge(document(call, body)?)),
        STRATEGIC if !call.resource.custom => Ok(Patch::Strategic(document(call, body)?)),
        STRATEGIC => Err(ApiError::unsupported_media_type(&[JSON, MERGE, APPLY])),
        _ => Err(ApiError::unsupported_patch_type()),
    }
}

fn document(call: &mut Call, body: &Bytes) -> ApiResult<Value> {
    let (mut value, duplicates) = schema::duplicates::parse(body, None)
        .map_err(|e| ApiError::bad_request(format!("error decoding patch: {}", decode::syntax(body, &e))))?;
    object::normalise_numbers(&mut value);
    decode::complain(call, duplicates)?;
    Ok(value)
}

/// The patched object, and complaints about its fields.
fn apply_patch(call: &mut Call, patch: &Patch, current: &Value) -> ApiResult<(Value, Vec<String>)> {
    let unprocessable = || {
        ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
    };
    let mut patched = match patch {
        Patch::Json(patch) => json_patch(current, patch).map_err(|e| match e {
            JsonPatchError::Malformed(why) => {
                let text = match serde_json::from_slice::<serde::de::IgnoredAny>(patch) {
                    Err(e) => decode::syntax(patch, &e),
                    Ok(_) => why,
                };
                ApiError::bad_request(format!("error decoding patch: {text}"))
            }
            JsonPatchError::TooManyOperations(_) => {
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", e.to_string())
            }
            JsonPatchError::DoesNotApply(_) => unprocessable(),
        })?,
        Patch::Merge(patch) => merge_patch(current, patch)
            .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?,
        Patch::Strategic(patch) => {
            let version = &call.resource.version;
            let result =
                call.resource.strategy.strategic(version, current, patch).ok_or_else(unprocessable)?;
            result.map_err(|e| strategic_error(&e))?
        }
    };
    object::normalise_numbers(&mut patched);
    // A patched object that can't be read is quoted as a whole.
    let unreadable = |patched: &Value, why: String| {
        let error = FieldError::invalid("patch", patched.to_string(), why);
        ApiError::invalid_kind("", "", "", vec![error])
    };
    check_identity(call, &mut patched, current, &unreadable)?;
    let before = patched.clone();
    // A strategic merge patch is converted straight into the object, without JSON in between.
    let unreadable = |why: String| match patch {
        Patch::Strategic(patch) => {
            let error = FieldError::invalid("patch", go_print(patch), why);
            ApiError::invalid_kind("", "", "", vec![error])
        }
        _ => unreadable(&before, why),
    };
    let decoder = if matches!(patch, Patch::Strategic(_)) { Decoder::Conversion } else { Decoder::Json };
    let mut emptied = Vec::new();
    let strategy = &call.resource.strategy;
    let complaints =
        strategy.decode(&call.resource.version, &mut patched, decoder, &mut emptied).map_err(unreadable)?;
    if call.field_validation == FieldValidation::Strict && !complaints.is_empty() {
        return Err(unreadable(format!("strict decoding error: {}", complaints.join(", "))));
    }
    call.emptied = emptied;
    Ok((patched, complaints))
}

/// Strategic merge patches fail in three ways, and the words tell which one it is.
fn strategic_error(error: &StrategicError) -> ApiError {
    let message = error.to_string();
    match message.as_str() {
        "invalid JSON document"
        | "invalid patch format of primitive list"
        | "invalid patch format of retainKeys"
        | "invalid patch format of setElementOrder list"
        | "strategic merge patch format is not supported" => ApiError::bad_request(message),
        "lists of lists are not supported" | "patch content doesn't match retainKeys list" => {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "", message)
        }
        _ => ApiError::unforeseen(message),
    }
}

/// A value as Go prints it.
fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_print).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_print(v))).collect();
            entries.sort_unstable();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// A patch can't turn an object into another one.
fn check_identity(
    call: &Call,
    patched: &mut Value,
    current: &Value,
    unreadable: &dyn Fn(&Value, String) -> ApiError,
) -> ApiResult<()> {
    if !patched.is_object() {
        return Err(ApiError::bad_request("the patched object is not an object"));
    }
    for field in ["kind", "apiVersion"] {
        if object::text(patched, &[field]).unwrap_or_default().is_empty() {
            object::carry(current, patched, field);
        }
    }
    let given = |field: &str| object::text(patched, &[field]).unwrap_or_default();
    let (version, kind) = (given("apiVersion"), given("kind"));
    if call.resource.custom {
        let mut errors = Vec::new();
        if kind != call.resource.kind {
            let detail = format!("must be {}", call.resource.kind);
            errors.push(FieldError::invalid("kind", kind, detail));
        }
        if version != call.resource.api_version() {
            let detail = format!("must be {}", call.resource.api_version());
            errors.push(FieldError::invalid("apiVersion", version, detail));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid_kind(&call.resource.group, kind, &call.name, errors));
        }
    } else if version != call.resource.api_version() || kind != call.resource.kind {
        let (group, short) = split_api_version(version);
        let known = call.core.catalog().find_kind(group, short, kind).is_some();
        let why = wrong_conversion(known, version, kind, &call.resource.group, &call.resource.kind);
        return Err(unreadable(patched, why));
    }
    check_name(call, patched)
}

/// A patch can't rename an object.
fn check_name(call: &Call, patched: &Value) -> ApiResult<()> {
    let given = object::name(patched);
    if given.is_empty() {
        return Err(ApiError::bad_request(decode::no_name(&call.name)));
    }
    if given != call.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            call.name
        )));
    }
    Ok(())
}

async fn apply(call: &mut Call, body: &Bytes) -> ApiResult<Response<Body>> {
    if call.options.field_manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid_kind("meta.k8s.io", "PatchOptions", "", vec![error]));
    }
    // Nearly every client sends JSON, which is read much faster as what it is.
    let mut intent = match serde_json::from_slice(body) {
        Ok(intent) => intent,
        Err(_) => steersman_yaml::from_slice(body).map_err(|e| {
            ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {e}"))
        })?,
    };
    object::normalise_numbers(&mut intent);
    let resource = std::sync::Arc::clone(&call.resource);
    let given = |field: &str| object::text(&intent, &[field]).unwrap_or_default();
    let (version, kind) = (given("apiVersion"), given("kind"));
    let (group, short) = split_api_version(version);
    if kind != resource.kind || group != resource.group || version.is_empty() {
        return Err(ApiError::bad_request(format!("invalid object type: {group}/{short}, Kind={kind}")));
    }
    if !object::get(&intent, &["metadata", "managedFields"]).is_none_or(Value::is_null) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let known = call.core.catalog().find_kind(group, short, kind).is_some();
    if version != resource.api_version() && !known {
        return Err(ApiError::bad_request(format!("invalid object type: {group}/{short}, Kind={kind}")));
    }
    let result = pipeline::update(call, Mode::Apply, |call, current| {
        let object = apply::apply(call, current, &intent)?;
        check_name(call, &object)?;
        Ok(object)
    })
    .await;
    let (written, created) = result?;
    answer(call, written, if created { StatusCode::CREATED } else { StatusCode::OK })
}
