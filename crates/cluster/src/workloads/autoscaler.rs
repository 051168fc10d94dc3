//! Horizontal pod autoscalers: there are no metrics to scale by, and they say so.

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus,
};

use super::pods;
use crate::control_loop::{ControlLoop, NewEvent};

const NAME: &str = "horizontal-pod-autoscaler";

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(scaler) = control.caches.autoscalers.get(namespace, name) else { return Ok(()) };
    if pods::is_deleting(&*scaler) {
        return Ok(());
    }
    let target = scaler.spec.scale_target_ref.clone();
    let caches = &control.caches;
    let current = match target.kind.as_str() {
        "Deployment" => {
            caches.deployments.get(namespace, &target.name).map(|d| d.spec.as_ref().and_then(|s| s.replicas))
        }
        "StatefulSet" => caches
            .stateful_sets
            .get(namespace, &target.name)
            .map(|d| d.spec.as_ref().and_then(|s| s.replicas)),
        "ReplicaSet" => {
            caches.replica_sets.get(namespace, &target.name).map(|d| d.spec.as_ref().and_then(|s| s.replicas))
        }
        "ReplicationController" => caches
            .replication_controllers
            .get(namespace, &target.name)
            .map(|d| d.spec.as_ref().and_then(|s| s.replicas)),
        // The scale of custom kinds is not known here.
        _ => return Ok(()),
    };
    let missing = format!(
        "the HPA controller was unable to get the target's current scale: {}s.apps \"{}\" not found",
        target.kind.to_lowercase(),
        target.name
    );
    let wanted: Vec<(&str, &str, &'static str, &str)> = if current.is_some() {
        vec![
            (
                "AbleToScale",
                "True",
                "SucceededGetScale",
                "the HPA controller was able to get the target's current scale",
            ),
            (
                "ScalingActive",
                "False",
                "FailedGetResourceMetric",
                "the HPA was unable to compute the replica count: unable to fetch metrics from resource metrics API: \
                 the server could not find the requested resource (get pods.metrics.k8s.io)",
            ),
        ]
    } else {
        vec![("AbleToScale", "False", "FailedGetScale", &missing)]
    };
    let mut status = scaler.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    let mut told = None;
    for (type_, state, reason, message) in wanted {
        if conditions
            .iter()
            .any(|c| c.type_ == type_ && c.status == state && c.reason.as_deref() == Some(reason))
        {
            continue;
        }
        conditions.retain(|c| c.type_ != type_);
        conditions.push(HorizontalPodAutoscalerCondition {
            type_: type_.to_owned(),
            status: state.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(control.time()),
        });
        if state == "False" {
            told = Some((reason, message.to_owned()));
        }
    }
    let status =
        HorizontalPodAutoscalerStatus { current_replicas: current.map(|r| r.unwrap_or(1)), ..status };
    if scaler.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let mut changed = HorizontalPodAutoscaler::clone(&scaler);
    changed.status = Some(status);
    control.update_status(&changed).await?;
    if let Some((reason, message)) = told {
        control
            .record_event(&*scaler, NewEvent { component: NAME, warning: true, reason, message: &message })
            .await;
    }
    Ok(())
}
