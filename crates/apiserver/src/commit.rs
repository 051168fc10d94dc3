//! The last step of a write: the object is checked against the limits of the store, committed and made durable.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use steersman_api::{
    object,
    status::{ApiError, ApiResult, Reason},
    store::{Draft, Entry},
};

use crate::{call::Call, catalog::Resource};

/// What a write ended in.
#[derive(Debug)]
pub(crate) enum Written {
    /// The object is stored.
    Stored(Arc<Entry>),
    /// The object is gone: its last state, and the revision of its deletion, which answers show.
    Deleted(Arc<Entry>, u64),
    /// The object as it would have been stored, or as it was when its last finalizer went. Its records of fields may be packed.
    Value(Value),
}

impl Written {
    /// The object as it reads today, in the stored version.
    pub(crate) fn into_value(self, resource: &Resource) -> Value {
        match self {
            Self::Stored(entry) => resource.read(&entry),
            Self::Deleted(entry, revision) => resource.read_as(&entry, revision),
            Self::Value(value) => value,
        }
    }
}

/// Stores a new object.
pub(crate) fn create(call: &Call, object: &Value) -> ApiResult<Written> {
    let key = object::key(call.scope(), object::name(object));
    if call.write.dry_run {
        if call.core.store.get(&call.resource.storage, &key).is_some() {
            return Err(ApiError::already_exists(&call.resource, object::name(object)));
        }
        return Ok(Written::Value(object.clone()));
    }
    // What is no version, or version nought, counts as none. The real server's store judges this, to which a dry run never comes.
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

/// Stores the object; nothing if the one that it was made from changed meanwhile.
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
        // Watchers see the last stored version, as the real server shows it.
        if call.core.store.delete(resource, key, entry.revision()).is_err() {
            return Ok(None);
        }
        call.resource.strategy.release(&call.core.allocators, object);
        return Ok(Some(Written::Value(object.clone())));
    }
    // A write that changes nothing is none: no event, no new version.
    let settled = entry.revision() != entry.created() || !call.resource.strategy.settles_late(object);
    if settled && draft.same_but_times(entry) {
        return Ok(Some(Written::Stored(Arc::clone(entry))));
    }
    Ok(call.core.store.update(resource, key, entry.revision(), draft).ok().map(Written::Stored))
}

/// A namespace has a second list of finalizers in its spec.
pub(crate) fn may_vanish(call: &Call, object: &Value) -> bool {
    *call.resource.storage != *"namespaces"
        || object::get(object, &["spec", "finalizers"]).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// Waits for durability, and lets the server learn from what was stored.
pub(crate) async fn settle(call: &Call, name: &str, written: &Written) -> ApiResult<()> {
    if call.write.dry_run {
        return Ok(());
    }
    // What the server does about it, such as conditions of a definition, is part of the write.
    call.core.learn(&call.resource, name, &object::key(call.scope(), name));
    let revision = match written {
        // The conditions of a definition are another write.
        Written::Stored(_) if *call.resource.storage == *crate::crd::RESOURCE => call.core.store.latest(),
        Written::Stored(entry) => entry.revision(),
        // The object is gone with its last finalizer, which has a revision of its own.
        Written::Deleted(..) | Written::Value(_) => call.core.store.latest(),
    };
    call.core.store.durable(revision).await.map_err(|error| ApiError::read_only(&error))
}

/// What is stored has to be read again, by us and by clients, within lists, events and records of fields: readers of JSON
/// commonly go 128 deep. Bodies in JSON can't be deeper, but those in YAML can, and what patches make.
const MAX_DEPTH: usize = 100;

pub(crate) fn check_depth(object: &Value) -> ApiResult<()> {
    if object::is_deeper(object, MAX_DEPTH) {
        return Err(ApiError::bad_request(format!(
            "the object is nested more than {MAX_DEPTH} deep, which is not stored"
        )));
    }
    Ok(())
}

/// What etcd takes in one request. Custom resources and their definitions rest there as JSON, so it is their limit.
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

/// Refuses a definition that is too large before its schemas are looked at, which takes far longer than to see that.
pub(crate) fn check_definition_size(call: &Call, object: &Value) -> ApiResult<()> {
    if *call.resource.storage != *crate::crd::RESOURCE {
        return Ok(());
    }
    let size = serde_json::to_vec(object).map_or(0, |bytes| bytes.len());
    if size > MAX_SIZE { Err(too_large()) } else { Ok(()) }
}
