//! The health of an object: one of five states, derived from its status.

use serde_json::{Value, json};
use steersman_core::readiness::{Readiness, helm::pod_failure, readiness};

use crate::kinds::list;

/// The health state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Failing,
    Progressing,
    Unknown,
    Paused,
    Ready,
}

impl State {
    pub(crate) const ALL: [Self; 5] =
        [Self::Ready, Self::Progressing, Self::Failing, Self::Paused, Self::Unknown];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Progressing => "progressing",
            Self::Failing => "failing",
            Self::Paused => "paused",
            Self::Unknown => "unknown",
        }
    }
}

/// The health of an object, and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) state: State,
    reason: String,
    message: String,
    since: Option<String>,
}

/// Condition types that report a failure while their status is True.
const FAILURES: [&str; 7] =
    ["ReleaseFailed", "Irreconcilable", "Failed", "Failure", "Degraded", "Stalled", "ReconcileError"];
/// The annotation that makes chart operators leave an object alone.
pub(crate) const PAUSED: &str = "helm.steersman.dev/paused";

impl Health {
    fn new(state: State, message: impl Into<String>) -> Self {
        Self { state, reason: String::new(), message: message.into(), since: None }
    }

    fn by(state: State, condition: &Value) -> Self {
        let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        let since = Some(text("lastTransitionTime")).filter(|since| !since.is_empty());
        Self { state, reason: text("reason"), message: text("message"), since }
    }

    pub(crate) fn document(&self) -> Value {
        json!({
            "status": self.state.word(), "reason": self.reason, "message": self.message, "since": self.since,
        })
    }

    /// Determines an object's health. Without any reported status, a custom resource is unknown and an object of a
    /// built-in kind is ready.
    pub(crate) fn of(object: &Value, custom: bool) -> Self {
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return Self::new(State::Progressing, "being deleted");
        }
        if is_paused(object) {
            return Self::new(State::Paused, "paused: changes are not carried out");
        }
        let conditions = list(&object["status"]["conditions"]);
        let holds = |condition: &&Value| condition["status"] == "True";
        let named = |name: &str| conditions.iter().find(|condition| condition["type"] == name);
        if let Some(failure) = FAILURES.iter().filter_map(|name| named(name)).find(holds) {
            return Self::by(State::Failing, failure);
        }
        let main = named("Ready").or_else(|| named("Available"));
        match readiness(object) {
            Readiness::Failed(why) => Self::new(State::Failing, why),
            Readiness::Waiting(why) => {
                if let Some(failure) = (object["kind"] == "Pod").then(|| pod_failure(object)).flatten() {
                    return Self::new(State::Failing, failure);
                }
                let is_failure = |condition: &&Value| {
                    let reason = condition["reason"].as_str().unwrap_or_default();
                    ["Fail", "Error", "Invalid", "BackOff"].iter().any(|word| reason.contains(word))
                };
                match main.filter(|condition| !holds(condition)) {
                    Some(condition) if is_failure(&condition) => Self::by(State::Failing, condition),
                    Some(condition) if custom => Self::by(State::Progressing, condition),
                    _ => Self::new(State::Progressing, why),
                }
            }
            Readiness::Ready => match main {
                Some(condition) => Self::by(State::Ready, condition),
                None if custom => by_phase(object),
                None => Self::new(State::Ready, ""),
            },
        }
    }
}

fn is_paused(object: &Value) -> bool {
    let annotation = object.pointer("/metadata/annotations").and_then(|annotations| annotations.get(PAUSED));
    annotation.is_some_and(|value| value == "true")
        || object.pointer("/spec/paused") == Some(&Value::Bool(true))
        || object.pointer("/spec/suspend") == Some(&Value::Bool(true))
}

/// Falls back to a phase-like field of the status, for objects without the usual conditions.
fn by_phase(object: &Value) -> Health {
    let status = &object["status"];
    let word = ["phase", "state", "health"].iter().find_map(|name| status[*name].as_str());
    let Some(word) = word else {
        let said = status.as_object().is_some_and(|status| !status.is_empty());
        let message =
            if said { "its status has no condition Ready" } else { "no status has been reported yet" };
        return Health::new(State::Unknown, message);
    };
    let state = match word.to_ascii_lowercase().as_str() {
        "ready" | "running" | "active" | "available" | "healthy" | "bound" | "complete" | "completed"
        | "succeeded" | "ok" | "deployed" => State::Ready,
        "failed" | "failing" | "error" | "degraded" | "unhealthy" | "crashed" => State::Failing,
        "paused" | "suspended" => State::Paused,
        "pending" | "creating" | "updating" | "progressing" | "deleting" | "provisioning" | "upgrading" => {
            State::Progressing
        }
        _ => State::Unknown,
    };
    Health::new(state, word)
}

/// A very short summary of an object in a tree, such as `2/3`.
pub(crate) fn summary(object: &Value) -> String {
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController" => {
            format!(
                "{}/{}",
                number("/status/readyReplicas").unwrap_or(0),
                number("/spec/replicas").unwrap_or(1)
            )
        }
        "DaemonSet" => {
            let ready = number("/status/numberReady").unwrap_or(0);
            format!("{ready}/{}", number("/status/desiredNumberScheduled").unwrap_or(0))
        }
        "Job" => format!(
            "{}/{}",
            number("/status/succeeded").unwrap_or(0),
            number("/spec/completions").unwrap_or(1)
        ),
        "Pod" | "PersistentVolumeClaim" | "Namespace" => text("/status/phase"),
        "Service" => text("/spec/type"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(object: &Value) -> &'static str {
        Health::of(object, true).state.word()
    }

    #[test]
    fn conditions_decide() {
        let with = |conditions: Value| json!({"kind": "Shop", "status": {"conditions": conditions}});
        assert_eq!(state(&with(json!([{"type": "Ready", "status": "True"}]))), "ready");
        assert_eq!(
            state(&with(json!([{"type": "Ready", "status": "False", "reason": "Waiting"}]))),
            "progressing"
        );
        assert_eq!(
            state(&with(json!([{"type": "Ready", "status": "False", "reason": "InstallError"}]))),
            "failing"
        );
        let failed =
            json!([{"type": "Ready", "status": "True"}, {"type": "ReleaseFailed", "status": "True"}]);
        assert_eq!(state(&with(failed)), "failing");
    }

    #[test]
    fn an_object_that_says_nothing_is_unknown() {
        assert_eq!(state(&json!({"kind": "Shop"})), "unknown");
        assert_eq!(state(&json!({"kind": "Shop", "status": {"phase": "Running"}})), "ready");
        assert_eq!(state(&json!({"kind": "Shop", "status": {"phase": "Error"}})), "failing");
        assert_eq!(Health::of(&json!({"kind": "ConfigMap", "apiVersion": "v1"}), false).state, State::Ready);
    }

    #[test]
    fn paused_and_deleted_objects_are_told_apart() {
        assert_eq!(state(&json!({"spec": {"paused": true}})), "paused");
        assert_eq!(state(&json!({"metadata": {"annotations": {PAUSED: "true"}}})), "paused");
        let going =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"paused": true}});
        assert_eq!(state(&going), "progressing");
    }
}
