//! Horizontal pod autoscalers: the bounds of their targets are kept; there are no metrics to scale by, and they say so.

use std::time::Duration;

use k8s_openapi::api::{
    autoscaling::v2::{
        CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
    },
    core::v1::ReplicationController,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::pods;
use crate::control_loop::{ControlLoop, Controller, Kind, NewEvent};

const NAME: &str = "horizontal-pod-autoscaler";
/// Time between two looks at an autoscaler, as `--horizontal-pod-autoscaler-sync-period` has it.
const SYNC_PERIOD: Duration = Duration::from_secs(15);

/// What an autoscaler has to say of itself.
struct Said {
    type_: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Said {
    fn new(
        type_: &'static str,
        status: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { type_, status, reason, message: message.into() }
    }
}

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(scaler) = control.caches.autoscalers.get(namespace, name) else { return Ok(()) };
    if pods::is_deleting(&*scaler) {
        return Ok(());
    }
    // A target that changes, or appears, is noticed then.
    control.push_after(Controller::Autoscaler, namespace, name, SYNC_PERIOD);
    let target = &scaler.spec.scale_target_ref;
    // The scale of custom kinds is not known here.
    let Some(found) = replicas(control, namespace, target) else { return Ok(()) };
    let Some(current) = found else {
        let message = format!(
            "the HPA controller was unable to get the target's current scale: {}s.apps \"{}\" not found",
            target.kind.to_lowercase(),
            target.name
        );
        let said = vec![Said::new("AbleToScale", "False", "FailedGetScale", message)];
        return write(control, &scaler, None, None, said).await;
    };
    let minimum = scaler.spec.min_replicas.unwrap_or(1);
    let bounded = if current > scaler.spec.max_replicas {
        Some((scaler.spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"))
    } else if current < minimum && current > 0 {
        Some((minimum, "Current number of replicas below Spec.MinReplicas"))
    } else {
        None
    };
    if let Some((wanted, why)) = bounded {
        scale(control, namespace, target, wanted).await?;
        let message = format!("New size: {wanted}; reason: {why}");
        control
            .record_event(
                &*scaler,
                NewEvent { component: NAME, warning: false, reason: "SuccessfulRescale", message: &message },
            )
            .await;
        let message = format!("the HPA controller was able to update the target scale to {wanted}");
        let said = vec![Said::new("AbleToScale", "True", "SucceededRescale", message)];
        control.push(Controller::Autoscaler, namespace, name);
        return write(control, &scaler, Some(current), Some(wanted), said).await;
    }
    let able = "the HPA controller was able to get the target's current scale";
    let mut said = vec![Said::new("AbleToScale", "True", "SucceededGetScale", able)];
    said.push(if current == 0 && minimum != 0 {
        let message = "scaling is disabled since the replica count of the target is zero";
        Said::new("ScalingActive", "False", "ScalingDisabled", message)
    } else {
        let message =
            "the HPA was unable to compute the replica count: unable to fetch metrics from resource metrics API: \
             the server could not find the requested resource (get pods.metrics.k8s.io)";
        Said::new("ScalingActive", "False", "FailedGetResourceMetric", message)
    });
    write(control, &scaler, Some(current), None, said).await
}

/// The replicas of a target: none of one that is not there, nothing of a kind that is not known.
fn replicas(
    control: &ControlLoop,
    namespace: &str,
    target: &CrossVersionObjectReference,
) -> Option<Option<i32>> {
    let (caches, name) = (&control.caches, target.name.as_str());
    let replicas = |spec: Option<Option<i32>>| spec.map(|replicas| replicas.unwrap_or(1));
    Some(match target.kind.as_str() {
        "Deployment" => replicas(
            caches.deployments.get(namespace, name).map(|o| o.spec.as_ref().and_then(|spec| spec.replicas)),
        ),
        "StatefulSet" => replicas(
            caches.stateful_sets.get(namespace, name).map(|o| o.spec.as_ref().and_then(|spec| spec.replicas)),
        ),
        "ReplicaSet" => replicas(
            caches.replica_sets.get(namespace, name).map(|o| o.spec.as_ref().and_then(|spec| spec.replicas)),
        ),
        "ReplicationController" => replicas(
            caches
                .replication_controllers
                .get(namespace, name)
                .map(|o| o.spec.as_ref().and_then(|spec| spec.replicas)),
        ),
        _ => return None,
    })
}

/// Gives a target its size.
async fn scale(
    control: &mut ControlLoop,
    namespace: &str,
    target: &CrossVersionObjectReference,
    wanted: i32,
) -> kube::Result<()> {
    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
    match target.kind.as_str() {
        "Deployment" => scale_kind::<Deployment>(control, namespace, &target.name, wanted).await,
        "StatefulSet" => scale_kind::<StatefulSet>(control, namespace, &target.name, wanted).await,
        "ReplicaSet" => scale_kind::<ReplicaSet>(control, namespace, &target.name, wanted).await,
        _ => scale_kind::<ReplicationController>(control, namespace, &target.name, wanted).await,
    }
}

async fn scale_kind<K: Kind>(
    control: &mut ControlLoop,
    namespace: &str,
    name: &str,
    wanted: i32,
) -> kube::Result<()> {
    let api: Api<K> = K::api(&control.client, namespace);
    let params = PatchParams { field_manager: control.params().field_manager, ..PatchParams::default() };
    control.spend();
    api.patch_scale(name, &params, &Patch::Merge(json!({"spec": {"replicas": wanted}}))).await?;
    if let Some(scaled) = api.get_opt(name).await? {
        control.put_object(scaled);
    }
    Ok(())
}

/// Writes what an autoscaler says, and tells of what is wrong.
async fn write(
    control: &mut ControlLoop,
    scaler: &HorizontalPodAutoscaler,
    current: Option<i32>,
    desired: Option<i32>,
    said: Vec<Said>,
) -> kube::Result<()> {
    let mut status = scaler.status.clone().unwrap_or_default();
    status.current_replicas = current;
    if let Some(desired) = desired {
        status.desired_replicas = desired;
        status.last_scale_time = Some(control.time());
    } else if let Some(current) = current {
        status.desired_replicas = current;
    }
    let conditions = status.conditions.get_or_insert_default();
    let mut told = None;
    for Said { type_, status: state, reason, message } in said {
        let same = |c: &HorizontalPodAutoscalerCondition| {
            c.type_ == type_ && c.status == state && c.reason.as_deref() == Some(reason)
        };
        if conditions.iter().any(same) {
            continue;
        }
        let since = conditions.iter().find(|c| c.type_ == type_ && c.status == state);
        let since = since.and_then(|c| c.last_transition_time.clone()).or_else(|| Some(control.time()));
        conditions.retain(|c| c.type_ != type_);
        conditions.push(HorizontalPodAutoscalerCondition {
            type_: type_.to_owned(),
            status: state.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.clone()),
            last_transition_time: since,
        });
        if state == "False" {
            told = Some((reason, message));
        }
    }
    if scaler.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let mut changed = scaler.clone();
    changed.status = Some(status);
    control.update_status(&changed).await?;
    if let Some((reason, message)) = told {
        let event = NewEvent { component: NAME, warning: true, reason, message: &message };
        control.record_event(scaler, event).await;
    }
    Ok(())
}
