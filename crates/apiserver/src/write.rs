//! What creates and updates have in common: the namespace, the encoded forms, and the refusal of an object.

use serde_json::Value;
use steersman_api::{
    fields::{FieldError, FieldErrorKind},
    object,
    status::{ApiError, ApiResult},
};

use crate::{call::Call, catalog::split_api_version};

/// How a write treats what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The client sent a whole object, of which there is none yet: POST.
    Create,
    /// The client sent a whole object: PUT.
    Replace,
    /// The client sent changes to whatever is there: the patches.
    Patch,
    /// The server puts a pod onto a node: admission has been asked about the binding.
    Bind,
    /// The client sent an applied configuration, which may create the object.
    Apply,
}

/// The object's namespace must be the path's; it is filled in where it is left out.
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
        // Kinds without namespaces drop what the client says.
        object::metadata(object).remove("namespace");
        return Ok(());
    }
    Err(ApiError::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Writes an object out as a typed encoder would, in the version of the request.
pub(crate) fn encode_served(call: &Call, object: &mut Value) {
    if call.resource.strategy.typed()
        && let Some(schema) = call.resource.strategy.schema(&call.resource.version)
    {
        schema.encode(object);
    }
}

/// Writes an object out as a typed encoder would, in the version in which the kind's rules speak.
pub(crate) fn encode(call: &Call, object: &mut Value) {
    let (_, version) = split_api_version(&call.resource.storage_api_version);
    // What the types of applied fields let pass, a schema may drop all the same; it is judged before.
    call.resource.strategy.prune(&call.resource.version, object);
    if call.resource.strategy.typed()
        && let Some(schema) = call.resource.strategy.stored_schema(version)
    {
        schema.encode_stored(object);
    }
}

/// Refuses an object. Lists and maps that were sent empty are shown so.
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
    // Events of both groups are one kind inside.
    let (group, _) = split_api_version(&resource.storage_api_version);
    ApiError::invalid_kind(group, &resource.kind, name, errors)
}
