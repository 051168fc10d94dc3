//! Instances: what is wanted of one, and how far its plans are.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use super::{AppliedResource, FINALIZER, Instance, ObjectReference, is_default};

/// What is wanted of an instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InstanceSpec {
    /// The operator version.
    pub operator_version: ObjectReference,
    /// Values that differ from the defaults.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The plan that is scheduled.
    #[serde(skip_serializing_if = "is_default")]
    pub plan_execution: PlanExecution,
}

/// A plan that is scheduled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PlanExecution {
    /// Its name. Empty: no plan is scheduled.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plan_name: String,
    /// Distinguishes one run of a plan from another.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ExecutionStatus>,
    /// Values of parameters for this run alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// How far a plan, phase or step is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExecutionStatus {
    /// It has not been started yet.
    #[default]
    NeverRun,
    /// It is about to be.
    Pending,
    /// It has been started.
    InProgress,
    /// It is done.
    Complete,
    /// It failed and is retried.
    Error,
    /// It failed for good.
    FatalError,
}

impl ExecutionStatus {
    /// As statuses show it.
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

    /// Whether it has ended, well or not.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::FatalError)
    }

    /// Whether it is under way.
    #[must_use]
    pub fn is_running(self) -> bool {
        matches!(self, Self::Pending | Self::InProgress | Self::Error)
    }
}

/// How far the plans of an instance are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InstanceStatus {
    /// The last run of each plan.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plan_status: BTreeMap<String, PlanStatus>,
    /// `Ready`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The runs that have ended, the last of them first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PlanRun>,
    /// The objects that plans applied and did not delete: what is repaired, and what a new version may prune.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<AppliedResource>,
}

/// Most runs that are kept.
const MAX_HISTORY: usize = 20;

/// A run of a plan that has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PlanRun {
    /// The plan.
    pub plan: String,
    /// The run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// How it ended.
    pub status: ExecutionStatus,
    /// Why.
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
    /// Keeps a run that has ended. The oldest goes when there are too many.
    pub fn keep(&mut self, run: PlanRun) {
        self.history.retain(|kept| kept.uid != run.uid);
        self.history.insert(0, run);
        self.history.truncate(MAX_HISTORY);
    }

    /// The plan that is running, else the one that ran last.
    #[must_use]
    pub fn last_plan(&self) -> Option<&PlanStatus> {
        let ran = || self.plan_status.values().filter(|plan| plan.status != ExecutionStatus::NeverRun);
        ran().find(|plan| plan.status.is_running()).or_else(|| {
            // Times are of whole seconds, in which several plans may end.
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
    /// How far it is.
    pub status: ExecutionStatus,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When its status changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated_timestamp: Option<Time>,
    /// When the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// How many of its steps are complete, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<u8>,
    /// Its phases.
    pub phases: Vec<PhaseStatus>,
}

impl PlanStatus {
    /// What the plan and its parts say.
    #[must_use]
    pub fn messages(&self) -> Vec<&str> {
        let steps = self.phases.iter().flat_map(|phase| &phase.steps).map(|step| step.message.as_str());
        let phases = self.phases.iter().map(|phase| phase.message.as_str());
        let all = std::iter::once(self.message.as_str()).chain(phases).chain(steps);
        all.filter(|message| !message.is_empty()).collect()
    }
}

/// How far a phase is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseStatus {
    /// The phase.
    pub name: String,
    /// How far it is.
    pub status: ExecutionStatus,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its steps.
    pub steps: Vec<StepStatus>,
}

/// How far a step is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StepStatus {
    /// The step.
    pub name: String,
    /// How far it is.
    pub status: ExecutionStatus,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
}

impl Instance {
    /// The namespace of its operator version: its own unless the reference names another.
    #[must_use]
    pub fn operator_version_namespace(&self) -> &str {
        match self.spec.operator_version.namespace.as_str() {
            "" => self.namespace(),
            namespace => namespace,
        }
    }

    /// Whether the run that is scheduled has ended, by the status of its plan.
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

    /// Whether the finalizer of the cleanup plan is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
    }

    /// Whether another instance made it, by a KudoOperator task.
    #[must_use]
    pub fn is_child(&self) -> bool {
        self.metadata.owner_references.iter().flatten().any(|owner| owner.kind == "Instance")
    }

    /// The value of an annotation, empty if it has none.
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
