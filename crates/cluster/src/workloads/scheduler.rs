//! Scheduler: binds each pod to the feasible node with the fewest pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Binding, Node, NodeSelectorRequirement, ObjectReference, Pod, PodCondition, Taint, Toleration,
};
use kube::{Api, ResourceExt as _, api::ObjectMeta};

use super::{capacity::Requested, node, preemption, volumes};
use crate::{
    control_loop::{ControlLoop, NewEvent, is_not_found},
    options::Part,
};

pub(super) const NAME: &str = "default-scheduler";

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(pod) = control.caches.pods.get(namespace, name) else { return Ok(()) };
    let Some(spec) = &pod.spec else { return Ok(()) };
    let mine = spec.scheduler_name.as_deref().is_none_or(|s| s == NAME);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty());
    if !mine || gated || spec.node_name.is_some() || pod.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    match choose(control, &pod) {
        Ok(node) => bind(control, &pod, &node).await,
        Err(why) => {
            let nominated = preemption::preempt(control, &pod).await?;
            control.capacity.add_unschedulable(namespace, name);
            refuse(control, &pod, &why, nominated).await
        }
    }
}

/// Returns the node for a pod, or why there is none.
fn choose(control: &ControlLoop, pod: &Pod) -> Result<String, String> {
    let total = control.caches.nodes.all().count();
    if control.has(Part::Volumes)
        && let Some(why) = claims_missing(control, pod)
    {
        return Err(format!("0/{total} nodes are available: {why}."));
    }
    let wanted = Requested::of(pod);
    let (mut reasons, mut fitting) = (BTreeMap::<String, usize>::new(), Vec::new());
    for node in control.caches.nodes.all() {
        let name = node.name_any();
        let why = match refusal(node, pod) {
            Some(why) => vec![why.to_owned()],
            None => control
                .capacity
                .requested_before(&control.caches.pods, &name, pod)
                .insufficient(node, &wanted),
        };
        if why.is_empty() {
            fitting.push(name);
        }
        for reason in why {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let nominated = pod.status.as_ref().and_then(|s| s.nominated_node_name.as_ref());
    let best = fitting.iter().min_by_key(|name| (Some(*name) != nominated, control.capacity.count(name)));
    if let Some(best) = best {
        return Ok(best.clone());
    }
    let reasons: Vec<String> = reasons.into_iter().map(|(why, n)| format!("{n} {why}")).collect();
    Err(match total {
        0 => "no nodes available to schedule pods".to_owned(),
        _ => format!("0/{total} nodes are available: {}.", reasons.join(", ")),
    })
}

/// Returns why a pod must not run on a node, regardless of capacity.
pub(super) fn refusal(node: &Node, pod: &Pod) -> Option<&'static str> {
    if node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true)) {
        Some("node(s) were unschedulable")
    } else if !matches_selector(node, pod) {
        Some("node(s) didn't match Pod's node affinity/selector")
    } else if !tolerates(node, pod, &["NoSchedule", "NoExecute"]) || node::is_lost(node) {
        Some("node(s) had untolerated taint(s)")
    } else {
        None
    }
}

/// Whether a node matches the pod's `nodeSelector` and required node affinity.
pub(super) fn matches_selector(node: &Node, pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let mut wanted = spec.node_selector.iter().flatten();
    if !wanted.all(|(key, value)| node.labels().get(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let Some(required) = required else { return true };
    required.node_selector_terms.iter().any(|term| {
        let name = node.name_any();
        let mut labels = term.match_expressions.iter().flatten();
        let mut fields = term.match_fields.iter().flatten();
        // An empty term matches no node.
        (term.match_expressions.is_some() || term.match_fields.is_some())
            && labels.all(|r| matches_requirement(r, node.labels().get(&r.key).map(String::as_str)))
            && fields.all(|r| r.key == "metadata.name" && matches_requirement(r, Some(&name)))
    })
}

fn matches_requirement(requirement: &NodeSelectorRequirement, actual: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = actual.is_some_and(|actual| values.iter().any(|v| v == actual));
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok());
    let sides = (number(actual), number(values.first().map(String::as_str)));
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => matches!(sides, (Some(a), Some(b)) if a > b),
        "Lt" => matches!(sides, (Some(a), Some(b)) if a < b),
        _ => false,
    }
}

/// Returns why a pod's claims prevent it from being scheduled.
fn claims_missing(control: &ControlLoop, pod: &Pod) -> Option<String> {
    let namespace = pod.namespace().unwrap_or_default();
    for name in volumes::claims_of(pod) {
        let Some(claim) = control.caches.claims.get(&namespace, name) else {
            return Some(format!("persistentvolumeclaim \"{name}\" not found"));
        };
        if claim.status.as_ref().and_then(|s| s.phase.as_deref()) != Some("Bound") {
            return Some("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
    }
    None
}

/// Whether the pod tolerates every taint of the node with one of these effects.
pub(super) fn tolerates(node: &Node, pod: &Pod, effects: &[&str]) -> bool {
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    let tolerations = pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default();
    taints
        .into_iter()
        .filter(|t| effects.contains(&t.effect.as_str()))
        .all(|taint| tolerations.iter().any(|toleration| covers(toleration, taint)))
}

/// Whether a toleration matches a taint.
pub(super) fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    let key = toleration.key.as_deref().unwrap_or_default();
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        _ => {
            !key.is_empty()
                && toleration.value.as_deref().unwrap_or_default()
                    == taint.value.as_deref().unwrap_or_default()
        }
    }
}

async fn bind(control: &mut ControlLoop, pod: &Pod, node: &str) -> kube::Result<()> {
    let namespace = pod.namespace().unwrap_or_default();
    let name = pod.name_any();
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            uid: pod.uid(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let api: Api<Pod> = Api::namespaced(control.client.clone(), &namespace);
    let params = control.params();
    let answer = api.create_subresource::<_, serde_json::Value>("binding", &name, &params, &binding).await;
    match answer {
        Err(error) if is_not_found(&error) => return Ok(()),
        other => other?,
    };
    if let Some(bound) = api.get_opt(&name).await? {
        control.put_object(bound);
    }
    let message = format!("Successfully assigned {namespace}/{name} to {node}");
    control
        .record_event(
            pod,
            NewEvent { component: NAME, warning: false, reason: "Scheduled", message: &message },
        )
        .await;
    Ok(())
}

async fn refuse(
    control: &mut ControlLoop,
    pod: &Pod,
    why: &str,
    nominated: Option<String>,
) -> kube::Result<()> {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let told = conditions.into_iter().any(|c| c.type_ == "PodScheduled" && c.message.as_deref() == Some(why));
    if told && pod.status.as_ref().is_some_and(|s| s.nominated_node_name == nominated) {
        return Ok(());
    }
    let mut changed = pod.clone();
    let now = control.time();
    let status = changed.status.get_or_insert_default();
    status.nominated_node_name = nominated;
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|c| c.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".into(),
        status: "False".into(),
        reason: Some("Unschedulable".into()),
        message: Some(why.to_owned()),
        last_transition_time: Some(now),
        ..PodCondition::default()
    });
    control.update_status(&changed).await?;
    control
        .record_event(
            pod,
            NewEvent { component: NAME, warning: true, reason: "FailedScheduling", message: why },
        )
        .await;
    Ok(())
}
