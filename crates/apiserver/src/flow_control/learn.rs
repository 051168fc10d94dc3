//! Maintains FlowSchemas: recreates the mandatory objects and updates the `Dangling` condition.

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

/// Names of the mandatory objects of both kinds.
const MANDATORY: [&str; 2] = ["exempt", CATCH_ALL];
/// The field manager of the conditions written here.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
/// Reconciles after a change of a FlowSchema or PriorityLevelConfiguration.
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

/// Updates a schema's condition that its priority level is missing.
/// On a conflict, it is reconciled again.
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

/// Records the condition in managedFields as applied by the server.
fn own(object: &mut Value, now: &str) {
    let api_version = object["apiVersion"].clone();
    let metadata = object::metadata(object);
    let managed = metadata.entry("managedFields").or_insert_with(|| json!([]));
    let Some(managed) = managed.as_array_mut() else { return };
    managed.retain(|entry| entry["manager"] != MANAGER);
    let condition = json!({".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {}, "f:type": {}});
    // `Apply` entries precede `Update` entries.
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
