//! Shared parts of creates and updates: namespace checks, typed encoding and validation errors.

use serde_json::Value;
use steersman_api::{
    fields::{FieldError, FieldErrorKind},
    object,
    status::{ApiError, ApiResult},
};

use crate::{call::Call, catalog::split_api_version};

/// The type of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// POST: creates a new object.
    Create,
    /// PUT: replaces the object.
    Replace,
    /// A patch: changes the current object.
    Patch,
    /// A binding of a pod; admission has been called for the binding.
    Bind,
    /// Server-side apply, which may create the object.
    Apply,
}

/// Checks that the object's namespace matches the path, and sets it if omitted.
pub(crate) fn match_namespace(call: &Call, object: &mut Value) -> ApiResult<()> {
    let expected = call.scope().to_owned();
    let given = object::namespace(object);
    if given.is_empty() {
        if !expected.is_empty() {
            object::metadata(object).insert("namespace".into(), expected.into());
        }
        return Ok(());
    }
    if given == expected {
        return Ok(());
    }
    if expected.is_empty() {
        // Cluster-scoped kinds ignore the namespace.
        object::metadata(object).remove("namespace");
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Re-encodes an object as a typed encoder would, in the version of the request.
pub(crate) fn encode_served(call: &Call, object: &mut Value) {
    if call.resource.strategy.typed()
        && let Some(schema) = call.resource.strategy.schema(&call.resource.version)
    {
        schema.encode(object);
    }
}

/// Re-encodes an object as a typed encoder would, in the version used for validation.
pub(crate) fn encode(call: &Call, object: &mut Value) {
    let (_, version) = split_api_version(&call.resource.storage_api_version);
    // The schema may prune fields that the apply types allow; they have been validated before.
    call.resource.strategy.prune(&call.resource.version, object);
    if call.resource.strategy.typed()
        && let Some(schema) = call.resource.strategy.stored_schema(version)
    {
        schema.encode_stored(object);
    }
}

/// Returns the "invalid" error of an object. Lists and maps that were sent empty are shown as such.
pub(crate) fn invalid(call: &Call, name: &str, mut errors: Vec<FieldError>, emptied: &[String]) -> ApiError {
    for error in &mut errors {
        let (FieldErrorKind::Invalid(shown) | FieldErrorKind::NotSupported(shown, _)) = &mut error.kind
        else {
            continue;
        };
        if !shown.is_null() {
            continue;
        }
        if emptied.contains(&error.field) {
            *shown = serde_json::json!({});
        } else if emptied.contains(&format!("{}[]", error.field)) {
            *shown = serde_json::json!([]);
        }
    }
    let resource = &call.resource;
    // Events of both groups share one internal kind.
    let (group, _) = split_api_version(&resource.storage_api_version);
    ApiError::invalid_kind(group, &resource.kind, name, errors)
}
