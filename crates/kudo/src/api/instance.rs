//! Instances: their desired state, and the status of their plans.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use super::{AppliedResource, FINALIZER, Instance, ObjectReference, is_default};

/// The desired state of an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InstanceSpec {
    /// The operator version.
    pub operator_version: ObjectReference,
    /// Parameter values that override the defaults.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The scheduled plan.
    #[serde(skip_serializing_if = "is_default")]
    pub plan_execution: PlanExecution,
}

/// A scheduled plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PlanExecution {
    /// Its name. Empty if no plan is scheduled.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan_name: String,
    /// The UID of the run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ExecutionStatus>,
    /// Parameter values for this run only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// The status of a plan, phase or step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExecutionStatus {
    /// Not started yet.
    #[default]
    NeverRun,
    /// Scheduled, but not started.
    Pending,
    /// Started.
    InProgress,
    /// Completed.
    Complete,
    /// Failed, and is retried.
    Error,
    /// Failed permanently.
    FatalError,
}

impl ExecutionStatus {
    /// Returns its value in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeverRun => "NEVER_RUN",
            Self::Pending => "PENDING",
            Self::InProgress => "IN_PROGRESS",
            Self::Complete => "COMPLETE",
            Self::Error => "ERROR",
            Self::FatalError => "FATAL_ERROR",
        }
    }

    /// Whether it has ended, successfully or not.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::FatalError)
    }

    /// Whether it is in progress.
    #[must_use]
    pub fn is_running(self) -> bool {
        matches!(self, Self::Pending | Self::InProgress | Self::Error)
    }
}

/// The status of an instance's plans.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InstanceStatus {
    /// The last run of each plan.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plan_status: BTreeMap<String, PlanStatus>,
    /// Conditions; of type `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Runs that have ended, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PlanRun>,
    /// The inventory: objects that plans applied and did not delete. They are repaired, and pruned if a new
    /// version drops them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<AppliedResource>,
}

/// The maximum number of runs kept.
const MAX_HISTORY: usize = 20;

/// A run that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PlanRun {
    /// The plan.
    pub plan: String,
    /// The run's UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Its final status.
    pub status: ExecutionStatus,
    /// The message of that status.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The operator version that it ran.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator_version: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
}

impl InstanceStatus {
    /// Records a run that has ended, and drops the oldest one beyond the limit.
    pub fn keep(&mut self, run: PlanRun) {
        self.history.retain(|kept| kept.uid != run.uid);
        self.history.insert(0, run);
        self.history.truncate(MAX_HISTORY);
    }

    /// Returns the plan that is running, else the one that ran last.
    #[must_use]
    pub fn last_plan(&self) -> Option<&PlanStatus> {
        let ran = || self.plan_status.values().filter(|plan| plan.status != ExecutionStatus::NeverRun);
        ran().find(|plan| plan.status.is_running()).or_else(|| {
            // Timestamps have a resolution of one second, in which several plans may end.
            ran().max_by_key(|plan| {
                let at = plan.last_updated_timestamp.as_ref().map(|time| time.0);
                (at, self.history.iter().position(|run| run.uid == plan.uid).map(Reverse))
            })
        })
    }
}

/// The last run of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PlanStatus {
    /// The plan.
    pub name: String,
    /// Its status.
    pub status: ExecutionStatus,
    /// The message of that status.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When its status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated_timestamp: Option<Time>,
    /// When the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The run's UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The percentage of its steps that are complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<u8>,
    /// Its phases.
    pub phases: Vec<PhaseStatus>,
}

impl PlanStatus {
    /// Returns the messages of the plan, its phases and steps.
    #[must_use]
    pub fn messages(&self) -> Vec<&str> {
        let steps = self.phases.iter().flat_map(|phase| &phase.steps).map(|step| step.message.as_str());
        let phases = self.phases.iter().map(|phase| phase.message.as_str());
        let all = std::iter::once(self.message.as_str()).chain(phases).chain(steps);
        all.filter(|message| !message.is_empty()).collect()
    }
}

/// The status of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseStatus {
    /// The phase.
    pub name: String,
    /// Its status.
    pub status: ExecutionStatus,
    /// The message of that status.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its steps.
    pub steps: Vec<StepStatus>,
}

/// The status of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StepStatus {
    /// The step.
    pub name: String,
    /// Its status.
    pub status: ExecutionStatus,
    /// The message of that status.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
}

impl Instance {
    /// Returns the namespace of its operator version: its own, unless the reference specifies one.
    #[must_use]
    pub fn operator_version_namespace(&self) -> &str {
        match self.spec.operator_version.namespace.as_str() {
            "" => self.namespace(),
            namespace => namespace,
        }
    }

    /// Whether the scheduled run has ended, judged by the status of its plan.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let run = &self.spec.plan_execution;
        let status = self.status.plan_status.get(&run.plan_name);
        !run.uid.is_empty()
            && status.is_some_and(|status| status.uid == run.uid && status.status.is_terminal())
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it has the finalizer of the cleanup plan.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
    }

    /// Whether it was created by a KudoOperator task of another instance.
    #[must_use]
    pub fn is_child(&self) -> bool {
        self.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Instance")
    }

    /// Returns the value of an annotation; empty if it is not set.
    #[must_use]
    pub fn annotation(&self, name: &str) -> &str {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(name)).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_plans_that_ended_in_one_second_the_later_one_is_the_last() {
        let plan = |name: &str| PlanStatus {
            name: name.into(),
            uid: name.into(),
            status: ExecutionStatus::Complete,
            last_updated_timestamp: Some(Time("2026-01-01T00:00:00Z".parse().unwrap())),
            ..PlanStatus::default()
        };
        let mut status = InstanceStatus::default();
        for name in ["tune", "backup"] {
            status.plan_status.insert(name.into(), plan(name));
            status.keep(PlanRun { plan: name.into(), uid: name.into(), ..PlanRun::default() });
        }
        assert_eq!(status.last_plan().unwrap().name, "backup");
    }
}
