//! Puts pods onto nodes: the one with the fewest pods among those that fit.

use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod, PodCondition, Taint, Toleration};
use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};

use super::node;
use crate::world::{Notice, World, is_missing};

const NAME: &str = "default-scheduler";

pub(super) async fn look(world: &mut World, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(pod) = world.caches.pods.get(namespace, name) else { return Ok(()) };
    let Some(spec) = &pod.spec else { return Ok(()) };
    let mine = spec.scheduler_name.as_deref().is_none_or(|s| s == NAME);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|g| !g.is_empty());
    if !mine || gated || spec.node_name.is_some() || pod.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    match choose(world, &pod) {
        Ok(node) => bind(world, &pod, &node).await,
        Err(why) => refuse(world, &pod, &why).await,
    }
}

/// The node for a pod, or why there is none.
fn choose(world: &World, pod: &Pod) -> Result<String, String> {
    let total = world.caches.nodes.all().count();
    let (mut tainted, mut unmatched, mut cordoned) = (0, 0, 0);
    let mut fitting = Vec::new();
    for node in world.caches.nodes.all() {
        if node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true)) {
            cordoned += 1;
        } else if !matches_selector(node, pod) {
            unmatched += 1;
        } else if !tolerates(node, pod, &["NoSchedule", "NoExecute"]) || node::is_lost(node) {
            tainted += 1;
        } else {
            fitting.push(node.name_any());
        }
    }
    let count = |name: &String| {
        world
            .caches
            .pods
            .all()
            .filter(|p| p.spec.as_ref().and_then(|s| s.node_name.as_ref()) == Some(name))
            .count()
    };
    let best =
        if fitting.len() > 1 { fitting.iter().min_by_key(|name| count(name)) } else { fitting.first() };
    if let Some(best) = best {
        return Ok(best.clone());
    }
    let mut reasons = Vec::new();
    for (n, why) in [
        (unmatched, "node(s) didn't match Pod's node affinity/selector"),
        (tainted, "node(s) had untolerated taint(s)"),
        (cordoned, "node(s) were unschedulable"),
    ] {
        if n > 0 {
            reasons.push(format!("{n} {why}"));
        }
    }
    Err(match total {
        0 => "no nodes available to schedule pods".to_owned(),
        _ => format!("0/{total} nodes are available: {}.", reasons.join(", ")),
    })
}

/// Whether the labels of a node are those that the pod's `nodeSelector` asks for.
pub(super) fn matches_selector(node: &Node, pod: &Pod) -> bool {
    let wanted = pod.spec.iter().flat_map(|s| s.node_selector.iter().flatten());
    wanted.into_iter().all(|(key, value)| node.labels().get(key) == Some(value))
}

/// Whether the pod puts up with every taint of the node that has one of these effects.
pub(super) fn tolerates(node: &Node, pod: &Pod, effects: &[&str]) -> bool {
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    let tolerations = pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default();
    taints
        .into_iter()
        .filter(|t| effects.contains(&t.effect.as_str()))
        .all(|taint| tolerations.iter().any(|toleration| covers(toleration, taint)))
}

/// Whether a toleration speaks of a taint.
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

async fn bind(world: &mut World, pod: &Pod, node: &str) -> kube::Result<()> {
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
    let api: Api<Pod> = Api::namespaced(world.client.clone(), &namespace);
    let params = PostParams { field_manager: Some("kube-scheduler".to_owned()), ..PostParams::default() };
    let answer = api.create_subresource::<_, serde_json::Value>("binding", &name, &params, &binding).await;
    match answer {
        Err(error) if is_missing(&error) => return Ok(()),
        other => other?,
    };
    if let Some(bound) = api.get_opt(&name).await? {
        world.know(bound);
    }
    let message = format!("Successfully assigned {namespace}/{name} to {node}");
    world.tell(pod, Notice { from: NAME, warning: false, reason: "Scheduled", message: &message }).await;
    Ok(())
}

async fn refuse(world: &mut World, pod: &Pod, why: &str) -> kube::Result<()> {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let told = conditions.into_iter().any(|c| c.type_ == "PodScheduled" && c.message.as_deref() == Some(why));
    if told {
        return Ok(());
    }
    let mut changed = pod.clone();
    let now = world.time();
    let conditions = changed.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|c| c.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".into(),
        status: "False".into(),
        reason: Some("Unschedulable".into()),
        message: Some(why.to_owned()),
        last_transition_time: Some(now),
        ..PodCondition::default()
    });
    world.update_status(&changed).await?;
    world.tell(pod, Notice { from: NAME, warning: true, reason: "FailedScheduling", message: why }).await;
    Ok(())
}
