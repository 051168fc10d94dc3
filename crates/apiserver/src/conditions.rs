//! Status conditions written by the server itself.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use steersman_api::store::{Draft, Entry};

use crate::{
    apply,
    call::Call,
    catalog::{Resource, Verb},
    core::Core,
};

/// Sets a condition in a status. `lastTransitionTime` changes only if its `status` changes.
pub(crate) fn set(
    status: &mut Map<String, Value>,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    match list.iter_mut().find(|c| c["type"] == kind) {
        Some(existing) => {
            if existing["status"] != value {
                existing["lastTransitionTime"] = now.into();
            }
            existing["status"] = value.into();
            existing["reason"] = reason.into();
            existing["message"] = message.into();
        }
        None => list.push(json!({
            "type": kind,
            "status": value,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        })),
    }
}

/// Stores an object's new status.
/// `None` if another write came first, after which the object is reconciled again.
pub(crate) fn store(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    entry: &Entry,
    old: &Value,
    mut next: Value,
) -> Option<Arc<Entry>> {
    let call =
        Call::internal(Arc::clone(core), Arc::clone(resource), Verb::Update, "", Some("status".into()));
    apply::track_now(&call, Some(old), &mut next, &[]);
    let draft = Draft::new(&next, Vec::new()).ok()?;
    core.store.update(&resource.storage, entry.key(), entry.revision(), draft).ok()
}
