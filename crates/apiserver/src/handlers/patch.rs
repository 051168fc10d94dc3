//! The four patch types.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;
use steersman_patch::{JsonPatchError, StrategicError, json_patch, merge_patch};

use super::answer;
use crate::{
    apply,
    call::Call,
    decode,
    fields::FieldError,
    http::Body,
    object,
    pipeline::{self, Mode},
    schema,
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
    // Complaints are about the last attempt only.
    let (written, _) = result?;
    decode::complain(call, complaints)?;
    answer(call, written, StatusCode::OK)
}

fn decode_patch(call: &mut Call, media: &str, body: &Bytes) -> ApiResult<Patch> {
    match media {
        JSON => Ok(Patch::Json(body.clone())),
        MERGE => Ok(Patch::Merge(document(call, body)?)),
        STRATEGIC if !call.resource.custom => Ok(Patch::Strategic(document(call, body)?)),
        _ => {
            let mut accepted = vec![JSON, MERGE];
            if !call.resource.custom {
                accepted.push(STRATEGIC);
            }
            accepted.push(APPLY);
            Err(ApiError::unsupported_media_type(&accepted))
        }
    }
}

fn document(call: &mut Call, body: &Bytes) -> ApiResult<Value> {
    let (mut value, duplicates) = schema::duplicates::parse(body)
        .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?;
    object::normalise_numbers(&mut value);
    decode::complain(call, duplicates)?;
    Ok(value)
}

/// The patched object, and complaints about its fields.
fn apply_patch(call: &Call, patch: &Patch, current: &Value) -> ApiResult<(Value, Vec<String>)> {
    let unprocessable = || {
        ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
    };
    let mut patched = match patch {
        Patch::Json(patch) => json_patch(current, patch).map_err(|e| match e {
            JsonPatchError::Malformed(_) => ApiError::bad_request(format!("error decoding patch: {e}")),
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
            result.map_err(|e| match e {
                StrategicError::Malformed(_) => ApiError::bad_request(e.to_string()),
                StrategicError::Schema(_) => ApiError::internal(e),
            })?
        }
    };
    object::normalise_numbers(&mut patched);
    check_identity(call, &mut patched, current)?;
    let complaints = match call.resource.strategy.schema(&call.resource.version) {
        Some(schema) => {
            if call.resource.strategy.typed() {
                schema.decode(&mut patched).map_err(|detail| {
                    let mut error = unprocessable();
                    error.message = detail;
                    error
                })?;
            }
            schema.prune(&mut patched)
        }
        None => Vec::new(),
    };
    if call.field_validation == crate::http::FieldValidation::Strict && !complaints.is_empty() {
        let mut error = unprocessable();
        error.message = format!("strict decoding error: {}", complaints.join(", "));
        return Err(error);
    }
    Ok((patched, complaints))
}

/// A patch can't turn an object into another one.
fn check_identity(call: &Call, patched: &mut Value, current: &Value) -> ApiResult<()> {
    if !patched.is_object() {
        return Err(ApiError::bad_request("the patched object is not an object"));
    }
    for field in ["kind", "apiVersion"] {
        if patched.get(field) != current.get(field) {
            let given = patched.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            if given.is_empty() {
                object::carry(current, patched, field);
                continue;
            }
            return Err(ApiError::bad_request(format!(
                "the {field} in the patch ({given}) does not match the object's ({})",
                current.get(field).and_then(Value::as_str).unwrap_or_default()
            )));
        }
    }
    if object::name(patched) != call.name {
        let given = object::name(patched);
        if given.is_empty() {
            object::metadata(patched).insert("name".into(), call.name.as_str().into());
        } else {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                call.name
            )));
        }
    }
    Ok(())
}

async fn apply(call: &mut Call, body: &Bytes) -> ApiResult<Response<Body>> {
    if call.options.field_manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid_kind("meta.k8s.io", "PatchOptions", "", vec![error]));
    }
    let mut intent = steersman_yaml::from_slice(body)
        .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
    object::normalise_numbers(&mut intent);
    let resource = std::sync::Arc::clone(&call.resource);
    call.check_kind(&mut intent, &resource.group, &resource.version, &resource.kind)?;
    let given = object::name(&intent);
    if !given.is_empty() && given != call.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            call.name
        )));
    }
    object::metadata(&mut intent).insert("name".into(), call.name.as_str().into());
    if !object::get(&intent, &["metadata", "managedFields"]).is_none_or(Value::is_null) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    if let Some(schema) = resource.strategy.schema(&resource.version) {
        if resource.strategy.typed() {
            schema.decode(&mut intent).map_err(ApiError::bad_request)?;
        }
        // Undeclared fields are refused by the merge itself, in its own words.
        let mut pruned = intent.clone();
        let unknown = schema.prune(&mut pruned);
        decode::complain(call, unknown)?;
    }
    let result =
        pipeline::update(call, Mode::Apply, |call, current| apply::apply(call, current, &intent)).await;
    let (written, created) = result?;
    answer(call, written, if created { StatusCode::CREATED } else { StatusCode::OK })
}
