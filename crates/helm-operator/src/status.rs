//! The status of a watched object: operator-sdk's conditions, and ours beside them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};
use steersman::{Conditions as _, Context};
use steersman_release::{Redactor, Release};

/// Limit on the revisions in the status.
const HISTORY: usize = 10;

pub(crate) const INITIALIZED: &str = "Initialized";
pub(crate) const DEPLOYED: &str = "Deployed";
pub(crate) const RELEASE_FAILED: &str = "ReleaseFailed";
pub(crate) const IRRECONCILABLE: &str = "Irreconcilable";
pub(crate) const PAUSED: &str = "Paused";
pub(crate) const READY: &str = "Ready";
/// Only there while something could not be deleted.
pub(crate) const PRUNED: &str = "Pruned";

/// A status that is read, changed and written back. Nothing is decided by what it says: others may have written it.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) conditions: Vec<Condition>,
    fields: Map<String, Value>,
}

impl Status {
    pub(crate) fn read(object: &DynamicObject) -> Self {
        let fields = object.data.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
        let conditions = fields.get("conditions").and_then(Value::as_array).into_iter().flatten();
        // Conditions of other writers that do not parse are dropped.
        let conditions = conditions.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect();
        Self { conditions, fields }
    }

    pub(crate) fn set(
        &mut self,
        context: &Context,
        kind: &str,
        status: bool,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.put(context.condition(kind, status, reason, message));
    }

    pub(crate) fn put(&mut self, mut condition: Condition) {
        condition.observed_generation = None;
        self.conditions.set(condition);
    }

    pub(crate) fn unset(&mut self, kind: &str) {
        self.conditions.unset(kind);
    }

    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.conditions.is_true(kind)
    }

    /// Sets the deployed revision.
    pub(crate) fn set_deployed(&mut self, release: &Release, redactor: &Redactor, other_namespace: bool) {
        let manifest = redactor.redact_manifest(&release.manifest);
        let mut deployed = json!({ "name": release.name, "manifest": manifest });
        if other_namespace {
            deployed["namespace"] = json!(release.namespace);
        }
        self.fields.insert("deployedRelease".into(), deployed);
    }

    pub(crate) fn unset_deployed(&mut self) {
        self.fields.remove("deployedRelease");
    }

    /// Adds a revision to the history.
    pub(crate) fn record_revision(&mut self, release: &Release, redactor: &Redactor) {
        let history = self.fields.entry("history").or_insert_with(|| json!([]));
        let Some(history) = history.as_array_mut() else { return };
        history.retain(|entry| entry.get("revision").and_then(Value::as_i64) != Some(release.version));
        for entry in history.iter_mut() {
            if entry.get("status").and_then(Value::as_str) == Some("deployed") {
                entry["status"] = json!("superseded");
            }
        }
        history.push(json!({
            "revision": release.version,
            "status": release.info.status,
            "chart": release.chart.title(),
            "description": redactor.redact(&release.info.description),
            "updated": release.info.last_deployed.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        }));
        let surplus = history.len().saturating_sub(HISTORY);
        history.drain(..surplus);
    }

    pub(crate) fn forget_history(&mut self) {
        self.fields.remove("history");
    }

    pub(crate) async fn write(&self, context: &Context) -> steersman::Result<()> {
        let mut fields = self.fields.clone();
        fields.insert("conditions".into(), json!(self.conditions));
        context.update_status(&Value::Object(fields)).await
    }
}
