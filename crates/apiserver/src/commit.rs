//! The last step of a write: checks depth and size limits, stores the object and waits for durability.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use steersman_api::{
    object,
    status::{ApiError, ApiResult, Reason},
    store::{Draft, Entry},
};

use crate::{call::Call, catalog::Resource};

/// The result of a write.
#[derive(Debug)]
pub(crate) enum Written {
    /// The object is stored.
    Stored(Arc<Entry>),
    /// The object was deleted: its last state, and the revision of the deletion, which responses show.
    Deleted(Arc<Entry>, u64),
    /// The result of a dry run, or the object whose last finalizer was removed. `fieldsV1` may be packed.
    Value(Value),
}

impl Written {
    /// Returns the current object in its storage version.
    pub(crate) fn into_value(self, resource: &Resource) -> Value {
        match self {
            Self::Stored(entry) => resource.read(&entry),
            Self::Deleted(entry, revision) => resource.read_as(&entry, revision),
            Self::Value(value) => value,
        }
    }
}

/// Creates an object in the store.
pub(crate) fn create(call: &Call, object: &Value) -> ApiResult<Written> {
    let key = object::key(call.scope(), object::name(object));
    if call.write.dry_run {
        if call.core.store.get(&call.resource.storage, &key).is_some() {
            return Err(ApiError::already_exists(&call.resource, object::name(object)));
        }
        return Ok(Written::Value(object.clone()));
    }
    // Invalid versions and version 0 count as unset. The real server checks this in its storage, which a dry run
    // never reaches.
    if object::meta_text(object, "resourceVersion").parse::<u64>().is_ok_and(|version| version != 0) {
        return Err(ApiError::unforeseen("resourceVersion should not be set on objects to be created"));
    }
    let draft = draft(call, object)?;
    match call.core.store.create(&call.resource.storage, &key, draft) {
        Ok(entry) => Ok(Written::Stored(entry)),
        Err(_) if !object::meta_text(object, "generateName").is_empty() => {
            let name = object::name(object);
            let message = format!(
                "{} {} already exists, the server was not able to generate a unique name for the object",
                call.resource.qualified(),
                steersman_api::status::quote(name)
            );
            let mut error = ApiError::new(StatusCode::CONFLICT, Reason::AlreadyExists, message).about(
                &call.resource.group,
                &call.resource.plural,
                name,
            );
            error.retry_after_seconds = Some(1);
            Err(error)
        }
        Err(_) => {
            let mut error = ApiError::already_exists(&call.resource, object::name(object));
            let held = call.core.store.get(&call.resource.storage, &key);
            if held.is_some_and(|entry| entry.is_deleting()) {
                error.message = format!("object is being deleted: {}", error.message);
            }
            Err(error)
        }
    }
}

/// Updates an object in the store; `None` if the entry it was based on changed meanwhile.
pub(crate) fn update(call: &Call, object: &Value, entry: &Arc<Entry>) -> ApiResult<Option<Written>> {
    let gone = object::is_deleting(object)
        && object::finalizers(object).is_empty()
        && object::get(object, &["metadata", "deletionGracePeriodSeconds"])
            .and_then(Value::as_i64)
            .unwrap_or(0)
            == 0
        && may_vanish(call, object);
    if call.write.dry_run {
        return Ok(Some(Written::Value(object.clone())));
    }
    let draft = draft(call, object)?;
    let (resource, key) = (&call.resource.storage, entry.key());
    if gone {
        // Like the real server, show watchers the last stored version.
        if call.core.store.delete(resource, key, entry.revision()).is_err() {
            return Ok(None);
        }
        call.resource.strategy.release(&call.core.allocators, object);
        return Ok(Some(Written::Value(object.clone())));
    }
    // A no-op write causes no event and no new resourceVersion.
    let settled = entry.revision() != entry.created() || !call.resource.strategy.stores_first_update(object);
    if settled && draft.same_but_times(entry) {
        return Ok(Some(Written::Stored(Arc::clone(entry))));
    }
    Ok(call.core.store.update(resource, key, entry.revision(), draft).ok().map(Written::Stored))
}

/// Whether a deleted object may be removed. Namespaces have additional finalizers in their spec.
pub(crate) fn may_vanish(call: &Call, object: &Value) -> bool {
    *call.resource.storage != *"namespaces"
        || object::get(object, &["spec", "finalizers"]).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Updates everything derived from the stored object, then waits until the write is durable.
pub(crate) async fn settle(call: &Call, name: &str, written: &Written) -> ApiResult<()> {
    if call.write.dry_run {
        return Ok(());
    }
    // What the server derives, such as the conditions of a definition, is part of the write.
    call.core.learn(&call.resource, name, &object::key(call.scope(), name));
    let revision = match written {
        // The conditions of a definition are a separate write.
        Written::Stored(_) if *call.resource.storage == *crate::crd::RESOURCE => call.core.store.latest(),
        Written::Stored(entry) => entry.revision(),
        // The removal of the object has a revision of its own.
        Written::Deleted(..) | Written::Value(_) => call.core.store.latest(),
    };
    call.core.store.durable(revision).await.map_err(|error| ApiError::read_only(&error))
}

/// Maximum nesting depth of stored objects.
/// Stored objects are parsed again by the server and clients, nested in lists, events and managed fields, and JSON
/// parsers are commonly limited to a depth of 128. JSON bodies cannot exceed that, but YAML bodies and patched
/// objects can.
const MAX_DEPTH: usize = 100;

pub(crate) fn check_depth(object: &Value) -> ApiResult<()> {
    if object::is_deeper(object, MAX_DEPTH) {
        return Err(ApiError::bad_request(format!(
            "object exceeds the maximum nesting depth of {MAX_DEPTH}"
        )));
    }
    Ok(())
}

/// The request size limit of etcd, applied to custom resources and definitions, stored there as JSON.
const MAX_SIZE: usize = 3 * 512 * 1024;

fn too_large() -> ApiError {
    ApiError::unforeseen("etcdserver: request is too large")
}

fn draft(call: &Call, object: &Value) -> ApiResult<Draft> {
    let draft = Draft::new(object, call.resource.strategy.selectable(object)).map_err(ApiError::internal)?;
    let is_json = call.resource.custom || *call.resource.storage == *crate::crd::RESOURCE;
    if is_json && draft.length() > MAX_SIZE {
        return Err(too_large());
    }
    Ok(draft)
}

/// Rejects oversized definitions before their schemas are validated, which takes far longer.
pub(crate) fn check_definition_size(call: &Call, object: &Value) -> ApiResult<()> {
    if *call.resource.storage != *crate::crd::RESOURCE {
        return Ok(());
    }
    let size = serde_json::to_vec(object).map_or(0, |bytes| bytes.len());
    if size > MAX_SIZE { Err(too_large()) } else { Ok(()) }
}
