//! The status of a watched object: operator-sdk's conditions.

use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Map, Value, json};
use steersman::{Context, Kind};

steersman_core::vocabulary! {
    /// Conditions of an object that a role or playbook runs for, with operator-sdk's names.
    pub const CONDITIONS = {
        /// True while the object is being reconciled or awaits its next run; `ansibleResult` counts the tasks
        /// of the last run.
        pub(crate) const RUNNING = "Running";
        /// True if the last run succeeded.
        pub(crate) const SUCCESSFUL = "Successful";
        /// True if the last run failed; the message has the failed tasks.
        pub(crate) const FAILURE = "Failure";
        /// True if all workloads created by runs are ready; the message names those that are not. Not in
        /// operator-sdk.
        pub(crate) const READY = "Ready";
    };

    /// Reasons of these conditions. Those that are False may have none.
    pub const REASONS = {
        /// `Running`: a run is in progress, or the last run failed.
        const IS_RUNNING = "Running";
        /// `Running`, `Successful`: the last run succeeded.
        const HAS_SUCCEEDED = "Successful";
        /// `Failure`, `Ready`: the last run failed.
        pub(crate) const HAS_FAILED = "Failed";
        /// `Ready`: all workloads are ready.
        pub(crate) const WORKLOADS_READY = "WorkloadsReady";
        /// `Ready`: some workloads are not ready.
        pub(crate) const WORKLOADS_NOT_READY = "WorkloadsNotReady";
    };

    /// Reasons of events about the object.
    pub const EVENTS = {
        /// Warning: a task failed; the message has its name, file, line and error.
        pub(crate) const TASK_FAILED = "TaskFailed";
        /// Warning: an annotation of the object is invalid. The object is reconciled again when the
        /// annotation changes.
        pub(crate) const INVALID_ANNOTATION = "InvalidAnnotation";
        /// Warning: two keys of the spec map to the same variable, or a key has the name of a variable set by
        /// the operator.
        pub(crate) const VARIABLE_HIDDEN = "VariableHidden";
    };
}

/// The field of a condition by which `kubectl wait` notices that it describes an older spec.
pub(crate) const OBSERVED_GENERATION: &str = "observedGeneration";
/// The number of attempts to write a status when it conflicts.
const ATTEMPTS: usize = 8;

/// A result to report in an object's conditions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// A run has started.
    Running,
    /// A run succeeded.
    Succeeded { result: Option<Value> },
    /// A run, or its preparation, failed.
    Failed { message: String, result: Option<Value> },
    /// The readiness of the workloads.
    Ready { is_ready: bool, reason: &'static str, message: String },
}

/// The generation that a condition describes, and the time.
#[derive(Clone, Copy)]
struct Observation<'a> {
    generation: Option<i64>,
    now: &'a str,
}

/// A status that is read, modified and written back. Fields and conditions of other writers are kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    fields: Map<String, Value>,
    conditions: Vec<Value>,
}

impl Status {
    pub(crate) fn read(status: Option<&Value>) -> Self {
        let mut fields = status.and_then(Value::as_object).cloned().unwrap_or_default();
        let conditions = match fields.remove("conditions") {
            Some(Value::Array(conditions)) => conditions.into_iter().filter(Value::is_object).collect(),
            _ => Vec::new(),
        };
        Self { fields, conditions }
    }

    /// Sets the conditions for a verdict on a generation of the object.
    pub(crate) fn set(&mut self, verdict: &Verdict, generation: Option<i64>, now: &str) {
        let at = Observation { generation, now };
        match verdict {
            Verdict::Running => {
                if self.find(SUCCESSFUL).is_some() {
                    self.put(SUCCESSFUL, "False", "", "", None, at);
                }
                self.put(RUNNING, "True", IS_RUNNING, "Running reconciliation", None, at);
            }
            Verdict::Succeeded { result } => {
                self.put(RUNNING, "True", HAS_SUCCEEDED, "Awaiting next reconciliation", result.as_ref(), at);
                self.put(SUCCESSFUL, "True", HAS_SUCCEEDED, "Last reconciliation succeeded", None, at);
                self.put(FAILURE, "False", "", "", None, at);
            }
            Verdict::Failed { message, result } => {
                if self.find(RUNNING).is_some() {
                    self.put(RUNNING, "False", IS_RUNNING, "Running reconciliation", None, at);
                }
                self.put(SUCCESSFUL, "False", "", "", None, at);
                self.put(FAILURE, "True", HAS_FAILED, message, result.as_ref(), at);
            }
            Verdict::Ready { is_ready, reason, message } => {
                self.put(READY, if *is_ready { "True" } else { "False" }, reason, message, None, at);
            }
        }
    }

    /// Whether it reports that the last run was for this generation and succeeded.
    pub(crate) fn is_settled(&self, generation: Option<i64>) -> bool {
        self.observes(generation) && self.is_successful()
    }

    /// Whether it reports that the last run succeeded.
    pub(crate) fn is_successful(&self) -> bool {
        let is = |kind: &str, status: &str, reason: &str| {
            self.find(kind).is_some_and(|one| one["status"] == status && one["reason"] == reason)
        };
        is(RUNNING, "True", HAS_SUCCEEDED)
            && is(SUCCESSFUL, "True", HAS_SUCCEEDED)
            && is(FAILURE, "False", "")
    }

    /// Whether the last reported run was for this generation. False if the definition's schema drops the field, or operator-sdk
    /// wrote the status.
    pub(crate) fn observes(&self, generation: Option<i64>) -> bool {
        let observed = self.find(RUNNING).and_then(|running| running[OBSERVED_GENERATION].as_i64());
        observed.is_some() && observed == generation
    }

    fn find(&self, kind: &str) -> Option<&Value> {
        self.conditions.iter().find(|condition| condition["type"] == kind)
    }

    fn put(
        &mut self,
        kind: &str,
        status: &str,
        reason: &str,
        message: &str,
        result: Option<&Value>,
        at: Observation<'_>,
    ) {
        let since = self.find(kind).filter(|old| old["status"] == status);
        let since = since.and_then(|old| old["lastTransitionTime"].as_str()).unwrap_or(at.now);
        let mut condition = json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since,
        });
        if let Some(generation) = at.generation {
            condition[OBSERVED_GENERATION] = json!(generation);
        }
        if let Some(result) = result {
            condition["ansibleResult"] = result.clone();
        }
        match self.conditions.iter_mut().find(|old| old["type"] == kind) {
            Some(old) => *old = condition,
            None => self.conditions.push(condition),
        }
    }

    fn into_value(self) -> Value {
        let mut fields = self.fields;
        fields.insert("conditions".into(), Value::Array(self.conditions));
        Value::Object(fields)
    }
}

/// Writes a verdict on a generation into an object's live status, keeping what others wrote there. An object that was deleted or
/// recreated is left alone.
pub(crate) async fn write(
    api: &Api<DynamicObject>,
    kind: &Kind,
    object: &DynamicObject,
    verdict: &Verdict,
    generation: Option<i64>,
    context: &Context,
) -> kube::Result<()> {
    let name = context.name();
    let now = now(context);
    let mut attempts = 0;
    loop {
        let Some(mut live) = api.get_opt(name).await? else { return Ok(()) };
        if live.metadata.uid != object.metadata.uid {
            return Ok(());
        }
        let before = Status::read(live.data.get("status"));
        let mut status = before.clone();
        status.set(verdict, generation, &now);
        if status == before {
            return Ok(());
        }
        live.data["status"] = status.into_value();
        let written = api.replace_status(name, &PostParams::default(), &live).await;
        attempts += 1;
        match written {
            Ok(written) => {
                // The next run has to see this run's status. A status written outside of runs is left to the watch, which knows
                // the previous version: the runs' controller would treat another controller's own write like a new object.
                let is_of_run = !matches!(verdict, Verdict::Ready { .. });
                if is_of_run && let Err(error) = context.observe_dynamic(kind, &written) {
                    tracing::debug!(%error, "cannot parse a response");
                }
                return Ok(());
            }
            Err(kube::Error::Api(status)) if status.code == 409 && attempts < ATTEMPTS => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {
                // A kind without the status subresource has its status in the object.
                return match api.replace(name, &PostParams::default(), &live).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    other => other.map(|_| ()),
                };
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the current time in the format of conditions.
pub(crate) fn now(context: &Context) -> String {
    let seconds = context.now().as_second();
    jiff::Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(status: &mut Status, verdict: Verdict, now: &str) -> Value {
        status.set(&verdict, Some(3), now);
        status.clone().into_value()
    }

    #[test]
    fn conditions_have_operator_sdks_words() {
        let live = json!({ "nodes": 3, "conditions": [{ "type": "Mine", "status": "True" }] });
        let mut status = Status::read(Some(&live));
        let running = set(&mut status, Verdict::Running, "t1");
        let expected = json!({ "nodes": 3, "conditions": [
            { "type": "Mine", "status": "True" },
            { "type": "Running", "status": "True", "reason": "Running", "message": "Running reconciliation",
                "lastTransitionTime": "t1", "observedGeneration": 3 },
        ]});
        assert_eq!(running, expected);
        let result = json!({ "ok": 1, "changed": 0, "skipped": 0, "failures": 0, "completion": "c" });
        let done = set(&mut status, Verdict::Succeeded { result: Some(result.clone()) }, "t2");
        assert_eq!(
            done["conditions"][1],
            json!({ "type": "Running", "status": "True", "reason": "Successful",
                "message": "Awaiting next reconciliation", "lastTransitionTime": "t1", "observedGeneration": 3, "ansibleResult": result })
        );
        assert_eq!(done["conditions"][2]["message"], "Last reconciliation succeeded");
        assert_eq!(done["conditions"][3]["status"], "False");
        assert!(status.is_successful() && status.is_settled(Some(3)) && !status.is_settled(Some(4)));
        assert!(status.observes(Some(3)) && !status.observes(Some(4)) && !status.observes(None));
        let failed = set(&mut status, Verdict::Failed { message: "no\nway".into(), result: None }, "t3");
        let states: Vec<_> = failed["conditions"].as_array().unwrap()[1..]
            .iter()
            .map(|one| format!("{}={} {}", one["type"], one["status"], one["reason"]).replace('"', ""))
            .collect();
        assert_eq!(states, ["Running=False Running", "Successful=False ", "Failure=True Failed"]);
        assert_eq!(failed["conditions"][3]["message"], "no\nway");
        assert!(!status.is_successful() && !status.is_settled(Some(3)));
    }

    #[test]
    fn a_status_without_a_generation_observes_none() {
        let status = Status::read(Some(&json!({ "conditions": [{ "type": RUNNING, "status": "True" }] })));
        assert!(!status.observes(None) && !status.observes(Some(1)));
    }

    #[test]
    fn a_status_that_is_no_status_is_replaced() {
        for wrong in [json!("x"), json!({ "conditions": "x" }), json!({ "conditions": [1] })] {
            let mut status = Status::read(Some(&wrong));
            let value = set(&mut status, Verdict::Running, "t");
            assert_eq!(value["conditions"].as_array().unwrap().len(), 1);
        }
    }
}
