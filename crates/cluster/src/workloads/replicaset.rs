//! ReplicaSets and ReplicationControllers.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
        core::v1::{
            Pod, PodTemplateSpec, ReplicationController, ReplicationControllerCondition,
            ReplicationControllerStatus,
        },
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, Time},
};
use kube::ResourceExt as _;

use super::pods;
use crate::control_loop::{ControlLoop, Controller, Kind, NewEvent};

/// A kind that keeps a number of identical pods.
pub(super) trait Replicated: Kind {
    /// The reporting component of its events.
    const NAME: &'static str;
    /// Its controller.
    const CONTROLLER: Controller;

    /// Returns its desired pods.
    fn desired(&self) -> Option<DesiredReplicas>;

    /// Returns a copy with a status of `counts`.
    fn with_status(&self, counts: ReplicaCounts) -> Self;

    /// Whether both have the same status.
    fn has_same_status(&self, other: &Self) -> bool;
}

/// Desired pods of a set.
pub(super) struct DesiredReplicas {
    replicas: i32,
    selector: LabelSelector,
    template: PodTemplateSpec,
    min_ready_seconds: i32,
}

/// Actual pods of a set.
pub(super) struct ReplicaCounts {
    replicas: i32,
    labeled: Option<i32>,
    ready: Option<i32>,
    available: Option<i32>,
    terminating: Option<i32>,
    /// Why not all desired pods could be created.
    failure: Option<String>,
    now: Time,
}

/// Builds the conditions for these counts. Both kinds have a condition type of their own with equal fields.
macro_rules! conditions {
    ($kind:ident, $old:expr, $counts:expr) => {{
        let mut conditions: Vec<$kind> = $old.unwrap_or_default();
        let known = conditions.iter().any(|c| c.type_ == "ReplicaFailure");
        match $counts.failure {
            Some(message) if !known => conditions.push($kind {
                type_: "ReplicaFailure".into(),
                status: "True".into(),
                reason: Some("FailedCreate".into()),
                message: Some(message),
                last_transition_time: Some($counts.now),
            }),
            None => conditions.retain(|c| c.type_ != "ReplicaFailure"),
            Some(_) => {}
        }
        (!conditions.is_empty()).then_some(conditions)
    }};
}

impl Replicated for ReplicaSet {
    const NAME: &'static str = "replicaset-controller";
    const CONTROLLER: Controller = Controller::ReplicaSet;

    fn desired(&self) -> Option<DesiredReplicas> {
        let spec = self.spec.clone()?;
        Some(DesiredReplicas {
            replicas: spec.replicas.unwrap_or(1),
            selector: spec.selector,
            template: spec.template.unwrap_or_default(),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or_default(),
        })
    }

    fn with_status(&self, counts: ReplicaCounts) -> Self {
        let old = self.status.clone().and_then(|s| s.conditions);
        let status = ReplicaSetStatus {
            replicas: counts.replicas,
            fully_labeled_replicas: counts.labeled,
            ready_replicas: counts.ready,
            available_replicas: counts.available,
            terminating_replicas: counts.terminating,
            observed_generation: self.metadata.generation,
            conditions: conditions!(ReplicaSetCondition, old, counts),
        };
        Self { status: Some(status), ..self.clone() }
    }

    fn has_same_status(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl Replicated for ReplicationController {
    const NAME: &'static str = "replication-controller";
    const CONTROLLER: Controller = Controller::ReplicationController;

    fn desired(&self) -> Option<DesiredReplicas> {
        let spec = self.spec.clone()?;
        Some(DesiredReplicas {
            replicas: spec.replicas.unwrap_or(1),
            selector: LabelSelector { match_labels: spec.selector, ..LabelSelector::default() },
            template: spec.template.unwrap_or_default(),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or_default(),
        })
    }

    fn with_status(&self, counts: ReplicaCounts) -> Self {
        let old = self.status.clone().and_then(|s| s.conditions);
        let status = ReplicationControllerStatus {
            replicas: counts.replicas,
            fully_labeled_replicas: counts.labeled,
            ready_replicas: counts.ready,
            available_replicas: counts.available,
            observed_generation: self.metadata.generation,
            conditions: conditions!(ReplicationControllerCondition, old, counts),
        };
        Self { status: Some(status), ..self.clone() }
    }

    fn has_same_status(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

pub(super) async fn reconcile<K: Replicated>(
    control: &mut ControlLoop,
    namespace: &str,
    name: &str,
) -> kube::Result<()> {
    let Some(set) = K::cache(&control.caches).get(namespace, name) else { return Ok(()) };
    let Some(desired) = set.desired() else { return Ok(()) };
    let pods: Vec<Arc<Pod>> = pods::claim(control, &*set, &desired.selector).await?;
    let failure = if pods::is_deleting(&*set) { None } else { manage(control, &*set, &desired, &pods).await };
    // The caches already include the pods that were created and deleted.
    let uid = set.uid().unwrap_or_default();
    let pods: Vec<Arc<Pod>> = control.caches.pods.controlled_by(&uid).cloned().collect();
    update_status(control, &*set, &desired, &pods, failure.as_ref()).await?;
    match failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Creates or deletes pods, and returns the first error.
async fn manage<K: Replicated>(
    control: &mut ControlLoop,
    set: &K,
    desired: &DesiredReplicas,
    pods: &[Arc<Pod>],
) -> Option<kube::Error> {
    let wanted = usize::try_from(desired.replicas).unwrap_or_default();
    let mut active: Vec<Arc<Pod>> = pods.iter().filter(|p| pods::is_active(p)).cloned().collect();
    for _ in active.len()..wanted {
        if control.should_hold_back_pods(&set.namespace().unwrap_or_default()) {
            return pods::record_held_back(control, set, K::NAME).await.err();
        }
        let pod = pods::from_template(set, &desired.template, pods::generated(&set.name_any()));
        match control.create(&pod).await {
            Ok(made) => {
                let message = format!("Created pod: {}", made.name_any());
                record_event(control, set, false, "SuccessfulCreate", &message).await;
            }
            Err(error) => {
                record_event(
                    control,
                    set,
                    true,
                    "FailedCreate",
                    &format!("Error creating: {}", message(&error)),
                )
                .await;
                return Some(error);
            }
        }
    }
    if active.len() > wanted {
        pods::sort_for_deletion(&mut active);
        for pod in &active[..active.len() - wanted] {
            if control.is_spent() {
                break;
            }
            if let Err(error) = control.delete(&**pod, None).await {
                return Some(error);
            }
            record_event(
                control,
                set,
                false,
                "SuccessfulDelete",
                &format!("Deleted pod: {}", pod.name_any()),
            )
            .await;
        }
    }
    None
}

async fn record_event<K: Replicated>(
    control: &mut ControlLoop,
    set: &K,
    warning: bool,
    reason: &'static str,
    message: &str,
) {
    control.record_event(set, NewEvent { component: K::NAME, warning, reason, message }).await;
}

async fn update_status<K: Replicated>(
    control: &mut ControlLoop,
    set: &K,
    desired: &DesiredReplicas,
    pods: &[Arc<Pod>],
    failure: Option<&kube::Error>,
) -> kube::Result<()> {
    let now = control.now();
    let wait = desired.min_ready_seconds;
    let labels = desired.template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|p| pods::is_active(p)).collect();
    let count = |test: &dyn Fn(&Pod) -> bool| {
        i32::try_from(active.iter().filter(|p| test(p)).count()).unwrap_or(i32::MAX)
    };
    let terminating = pods.iter().filter(|p| pods::is_deleting(&***p) && !pods::is_terminal(p)).count();
    let nonzero = |n: i32| (n != 0).then_some(n);
    let updated = set.with_status(ReplicaCounts {
        replicas: count(&|_| true),
        labeled: nonzero(count(&|p| labels.iter().all(|(k, v)| p.labels().get(k) == Some(v)))),
        ready: nonzero(count(&pods::is_ready)),
        available: nonzero(count(&|p| pods::is_available(p, wait, now))),
        terminating: i32::try_from(terminating).ok(),
        failure: failure.map(message),
        now: control.time(),
    });
    // Reconciles again when a ready pod becomes available.
    let due =
        active.iter().filter_map(|p| pods::until_available(p, wait, now)).filter(|d| !d.is_zero()).min();
    if let Some(due) = due {
        let name = (set.namespace().unwrap_or_default(), set.name_any());
        control.push_after(K::CONTROLLER, &name.0, &name.1, due + Duration::from_millis(1));
    }
    if updated.has_same_status(set) { Ok(()) } else { control.update_status(&updated).await.map(drop) }
}

/// Returns the API's message, without the client's context.
pub(super) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
