//! Status of a watched object: operator-sdk's conditions, and our own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};
use steersman::{Conditions as _, Context};
use steersman_release::{Redactor, Release};

use crate::retry::DeployFailure;

/// Maximum number of revisions in the status.
const HISTORY: usize = 10;

steersman_core::vocabulary! {
    /// Conditions of a watched object, whose release the operator manages.
    pub const CONDITIONS = {
        /// True once the operator has started to reconcile the object.
        pub(crate) const INITIALIZED = "Initialized";
        /// True while a revision of the release is deployed; its message is the chart's NOTES.txt.
        pub(crate) const DEPLOYED = "Deployed";
        /// True after an install, upgrade or uninstall failed. It is retried with exponential backoff.
        pub(crate) const RELEASE_FAILED = "ReleaseFailed";
        /// True if the object cannot be reconciled because of an error in it or its chart; the message has
        /// the error.
        pub(crate) const IRRECONCILABLE = "Irreconcilable";
        /// True while the annotation `helm.steersman.dev/paused` pauses reconciliation of the object.
        pub(crate) const PAUSED = "Paused";
        /// True while all workloads of the release are ready; otherwise the message names those that are not,
        /// and why.
        pub(crate) const READY = "Ready";
        /// False while objects that were removed from the chart could not be deleted. The condition is
        /// removed afterwards.
        pub(crate) const PRUNED = "Pruned";
    };

    /// Reasons of these conditions. Those ending in `Successful` are also reasons of events.
    pub const REASONS = {
        /// `Deployed`: the first revision was installed.
        pub(crate) const INSTALL_SUCCESSFUL = "InstallSuccessful";
        /// `Deployed`: the release was upgraded to a new revision.
        pub(crate) const UPGRADE_SUCCESSFUL = "UpgradeSuccessful";
        /// `ReleaseFailed`, `Ready`: the install failed, and the objects that it created were removed.
        pub(crate) const INSTALL_ERROR = "InstallError";
        /// `ReleaseFailed`, `Ready`: the upgrade failed, and the release was rolled back to the previous
        /// revision.
        pub(crate) const UPGRADE_ERROR = "UpgradeError";
        /// `ReleaseFailed`, `Ready`: the uninstall failed, and is retried.
        pub(crate) const UNINSTALL_ERROR = "UninstallError";
        /// `Irreconcilable`: the object, its annotations, its values or the chart are invalid, or the API
        /// server rejected a request.
        pub(crate) const RECONCILE_ERROR = "ReconcileError";
        /// `Paused`: the annotation is set.
        pub(crate) const PAUSE_ANNOTATION = "PauseReconcileAnnotationTrue";
        /// `Ready`: all workloads of the release are ready.
        pub(crate) const WORKLOADS_READY = "WorkloadsReady";
        /// `Ready`, with the status False: the message names the workloads that are not ready, and why.
        pub(crate) const WORKLOADS_NOT_READY = "WorkloadsNotReady";
        /// `Ready`, with the status False: the release's name or namespace changed, and the former release is
        /// being uninstalled.
        pub(crate) const MOVING = "Moving";
        /// `Pruned`: the API server rejected the deletion of an object; the message has its error.
        pub(crate) const DELETE_FAILED = "DeleteFailed";
    };

    /// Reasons of events about the object, in addition to the successes above.
    pub const EVENTS = {
        /// Normal: the release was uninstalled, because its object is being deleted or because its name or
        /// namespace changed.
        pub(crate) const UNINSTALL_SUCCESSFUL = "UninstallSuccessful";
        /// Normal: an object of the release was changed or deleted by another client, and was restored.
        pub(crate) const DRIFT_CORRECTED = "DriftCorrected";
        /// Warning: a value of the object is overridden by `overrideValues` of watches.yaml.
        pub(crate) const OVERRIDE_VALUES_IN_USE = "OverrideValuesInUse";
        /// Warning: the Secret with the release record was deleted by another client; the release is adopted
        /// again.
        pub(crate) const RECORD_GONE = "RecordGone";
        /// Warning: objects of a kind cannot be watched, so their drift is not detected.
        pub(crate) const WATCH_FAILED = "WatchFailed";
    };
}

/// A status that is read, changed and written back. No decision depends on it: others may have written it.
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

    /// Sets the conditions of a failed release.
    pub(crate) fn set_release_failed(&mut self, context: &Context, failure: &DeployFailure) {
        self.set(context, RELEASE_FAILED, true, failure.reason, failure.message.clone());
        self.set(context, READY, false, failure.reason, failure.message.clone());
    }

    /// Removes the error conditions.
    pub(crate) fn unset_errors(&mut self) {
        self.unset(IRRECONCILABLE);
        self.unset(RELEASE_FAILED);
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

#[cfg(test)]
mod tests {
    use steersman_release::{Info, Status as ReleaseStatus};

    use super::*;

    fn status(status: Value) -> Status {
        let object =
            json!({ "apiVersion": "a/v1", "kind": "A", "metadata": { "name": "a" }, "status": status });
        Status::read(&serde_json::from_value(object).unwrap())
    }

    fn release(version: i64, status: ReleaseStatus) -> Release {
        let info = Info {
            status,
            description: format!("made {version}"),
            last_deployed: Some("2026-01-02T03:04:05.678Z".parse().unwrap()),
            ..Info::default()
        };
        Release { name: "a".into(), namespace: "lab".into(), version, info, ..Release::default() }
    }

    #[test]
    fn conditions_are_read_as_far_as_they_parse() {
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        let read = status(json!({ "conditions": [{ "type": 1 }, ready], "own": 1 }));
        assert_eq!(read.conditions.len(), 1);
        assert!(read.is_true("Ready") && !read.is_true("Deployed"));
        assert_eq!(read.fields["own"], 1);
        let mut read = read;
        read.unset("Ready");
        assert!(!read.is_true("Ready"));
        assert!(status(json!(null)).conditions.is_empty());
    }

    #[test]
    fn a_condition_that_is_put_says_no_generation() {
        let mut read = status(json!({}));
        let condition = json!({
            "type": "Open", "status": "False", "reason": "r", "message": "m", "observedGeneration": 7,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        read.put(serde_json::from_value(condition).unwrap());
        assert_eq!((read.conditions.len(), read.conditions[0].observed_generation), (1, None));
        assert!(!read.is_true("Open"));
    }

    #[test]
    fn a_history_has_each_revision_once() {
        let mut read = status(json!({}));
        let redactor = Redactor::default();
        read.record_revision(&release(1, ReleaseStatus::Deployed), &redactor);
        read.record_revision(&release(2, ReleaseStatus::Failed), &redactor);
        read.record_revision(&release(3, ReleaseStatus::Deployed), &redactor);
        read.record_revision(&release(3, ReleaseStatus::Deployed), &redactor);
        let history = read.fields["history"].as_array().unwrap();
        let told: Vec<_> =
            history.iter().map(|one| (one["revision"].as_i64(), one["status"].as_str())).collect();
        let superseded = (Some(1), Some("superseded"));
        assert_eq!(told, [superseded, (Some(2), Some("failed")), (Some(3), Some("deployed"))]);
        assert_eq!(history[0]["description"], "made 1");
        assert_eq!(
            (&history[0]["updated"], &history[0]["chart"]),
            (&json!("2026-01-02T03:04:05Z"), &json!("MISSING"))
        );
        for version in 4..=14 {
            read.record_revision(&release(version, ReleaseStatus::Deployed), &redactor);
        }
        let history = read.fields["history"].as_array().unwrap();
        assert_eq!(
            (history.len(), &history[0]["revision"], &history[9]["revision"]),
            (10, &json!(5), &json!(14))
        );
        read.forget_history();
        assert!(!read.fields.contains_key("history"));
        // What other writers put there is kept.
        let mut odd = status(json!({ "history": "odd" }));
        odd.record_revision(&release(1, ReleaseStatus::Deployed), &redactor);
        assert_eq!(odd.fields["history"], "odd");
    }

    #[test]
    fn the_deployed_release_says_where_it_is_if_that_is_elsewhere() {
        let mut read = status(json!({}));
        let made = Release { manifest: "kind: A\n".into(), ..release(1, ReleaseStatus::Deployed) };
        read.set_deployed(&made, &Redactor::default(), false);
        assert_eq!(read.fields["deployedRelease"], json!({ "name": "a", "manifest": "---\nkind: A\n" }));
        read.set_deployed(&made, &Redactor::default(), true);
        assert_eq!(read.fields["deployedRelease"]["namespace"], "lab");
        read.unset_deployed();
        assert!(!read.fields.contains_key("deployedRelease"));
    }
}
