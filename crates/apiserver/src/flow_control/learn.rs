//! What is kept of FlowSchemas: those that must be there, and whether the priority level of each is.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_api::{
    environment::EnvironmentExt as _,
    object,
    status::quote,
    store::{Draft, Entry},
};

use super::{CATCH_ALL, FLOW_SCHEMAS, PRIORITY_LEVELS};
use crate::{bootstrap, conditions, core::Core};

/// Objects of both kinds that are always there.
const MANDATORY: [&str; 2] = ["exempt", CATCH_ALL];
/// The manager of the conditions that are written here.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
/// Takes over a change of what is stored, and keeps what the schemas say of their priority levels.
pub(crate) fn learn(core: &Arc<Core>, storage: &str, key: &str) {
    if !matches!(storage, FLOW_SCHEMAS | PRIORITY_LEVELS) {
        return;
    }
    if MANDATORY.contains(&key) && core.store.get(storage, key).is_none() {
        bootstrap::recreate(core, storage, key);
    }
    for entry in core.store.snapshot(FLOW_SCHEMAS, "", None).entries {
        if storage == PRIORITY_LEVELS || entry.key() == key {
            judge(core, &entry);
        }
    }
    core.flow_control.forget(storage);
}

/// Writes whether the priority level of a schema is missing. A writer that is quicker has the schema looked at again.
fn judge(core: &Core, entry: &Entry) {
    let old = entry.value();
    let level = object::text(&old, &["spec", "priorityLevelConfiguration", "name"]).unwrap_or_default();
    let about =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {}", quote(level));
    let (dangling, reason, message) = match core.store.get(PRIORITY_LEVELS, level) {
        Some(_) => ("False", "Found", format!("{about} and it exists")),
        None => ("True", "NotFound", format!("{about} but there is no such object")),
    };
    let mut next = old.clone();
    let now = core.environment.now_string();
    conditions::set(object::child(&mut next, "status"), "Dangling", dangling, reason, &message, &now);
    if next == old {
        return;
    }
    own(&mut next, &now);
    if let Ok(draft) = Draft::new(&next, Vec::new()) {
        let _ = core.store.update(FLOW_SCHEMAS, entry.key(), entry.revision(), draft);
    }
}

/// Records the condition as applied by the server.
fn own(object: &mut Value, now: &str) {
    let api_version = object["apiVersion"].clone();
    let metadata = object::metadata(object);
    let managed = metadata.entry("managedFields").or_insert_with(|| json!([]));
    let Some(managed) = managed.as_array_mut() else { return };
    managed.retain(|entry| entry["manager"] != MANAGER);
    let condition = json!({".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {}, "f:type": {}});
    // What is applied comes before what is updated.
    managed.insert(
        0,
        json!({
            "apiVersion": api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:conditions": {r#"k:{"type":"Dangling"}"#: condition}}},
            "manager": MANAGER,
            "operation": "Apply",
            "subresource": "status",
            "time": now,
        }),
    );
}
